"""Masks in a large vocabulary against trying each of its tokens: slow, and obviously right."""

from __future__ import annotations

import random

import numpy as np

import grammar

CONSTRAINTS = (
    (
        '{"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}, "ids": '
        '{"type": "array", "items": {"type": "integer"}}}, "required": ["name", "ids"]}'
    ),
    '{"type": "object", "additionalProperties": {"type": ["string", "null", "number"]}}',
    '{"type": "array", "items": {"type": "string", "pattern": "^[a-zé]+$"}, "minItems": 1}',
)


def check_masks(vocabulary: grammar.Vocabulary, steps: int = 4, seed: int = 0) -> int:
    """Compares the masks of a few random walks; returns how many. Or AssertionError."""
    rng = random.Random(seed)
    checked = 0
    for schema in CONSTRAINTS:
        compiled = grammar.compile_json_schema(
            schema, vocabulary, grammar.JsonOptions(whitespace="flexible")
        )
        matcher = compiled.matcher()
        for _ in range(steps):
            bits = np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")
            allowed = np.flatnonzero(bits).tolist()
            assert allowed == tokens_that_go_through(matcher), schema
            checked += 1
            text = [token for token in allowed if token not in vocabulary.eos_ids]
            if not text:
                break
            assert matcher.advance(rng.choice(text))
    return checked


def tokens_that_go_through(matcher: grammar.Matcher) -> list[int]:
    """Each token tried by its bytes, one after the other; EOS where the text may stop."""
    vocabulary = matcher.grammar.vocabulary
    found = list(vocabulary.eos_ids) if matcher.is_complete else []
    for token in range(vocabulary.size):
        text = vocabulary.token_bytes(token)
        if text and matcher.fork().advance_bytes(text) == len(text):
            found.append(token)
    return sorted(found)
