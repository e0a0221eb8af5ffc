"""Compile every kernel before the first caller needs it.

The kernels are compiled on first use and kept on disk beside the source; on a fresh installation
that takes half a minute, afterwards under a second per process.
"""

from __future__ import annotations

import json

import numpy as np

from grammar.check import check_text
from grammar.compiled import Grammar, compile_choice, compile_json_schema, compile_regex
from grammar.options import JsonOptions
from grammar.vocabulary import Vocabulary

_SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 1, "maxLength": 9},
        "code": {"type": "string", "pattern": "^[a-z]+(-[0-9]{2,3})?$", "maxLength": 12},
        "both": {"type": "string", "pattern": "b", "format": "hostname"},
        "day": {"type": "string", "format": "date"},
        "share": {"type": "number", "minimum": 0.5, "maximum": 12},
        "step": {"type": "integer", "minimum": -4, "multipleOf": 3},
        "kind": {"enum": ["a", "bc", 1, 2.5, None]},
        "one": {"anyOf": [{"const": "x"}, {"type": "string", "pattern": "^y"}, {"type": "null"}]},
        "list": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
    },
    "required": ["text", "code", "both", "day", "share", "step", "kind", "one", "list"],
    "additionalProperties": {"type": "number"},
}


def warmup() -> None:
    """Use everything once, on a vocabulary of bytes. Safe to call from several processes."""
    texts = [bytes([b]) for b in range(256)]
    words = [b'","', b'":', b"ab", b'"k":', "é".encode()]
    vocabulary = Vocabulary([*texts, *words, None], eos_ids=(256 + len(words),))
    text = json.dumps(_SCHEMA)
    for options in (JsonOptions(), JsonOptions.recognise()):
        _walk(compile_json_schema(text, vocabulary, options), extra=b'{"k":1,"ke":2')
    _walk(compile_regex(r"(?=a)[a-c]{1,3}\b|\p{L}+x?", vocabulary))
    _walk(compile_choice(["yes", "no"], vocabulary))


def _walk(grammar: Grammar, extra: bytes = b"") -> None:
    """One shortest output, each mask plain and under a budget; then some other text."""
    matcher = grammar.matcher()
    row = np.zeros(grammar.vocabulary.words, dtype=np.uint32)
    budget = grammar.min_tokens
    for token in grammar.shortest.tokens:
        matcher.fill_mask(row)
        matcher.fill_mask(row, budget)
        matcher.forced_tokens(budget)
        matcher.fill_penalizable(row)
        assert matcher.advance(token), "the shortest output was refused"
        budget -= 1
    assert matcher.is_complete, "the shortest output is not complete"
    assert check_text(grammar, grammar.shortest.text).verdict == "complete"
    assert grammar.max_tokens is None or grammar.max_tokens >= grammar.min_tokens
    matcher.reset()
    for token in extra:  # ids of the byte tokens are the bytes
        matcher.fill_mask(row)
        matcher.advance(token)
