"""Every way through a mask ends valid: freely, by bytes, and within every budget that suffices."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import grammar
from tests.constraints import SHAPES, Constraint, random_constraint
from tests.naive import byte_vocabulary, lacking_vocabulary, mask, nasty_vocabulary

VOCABULARIES = {
    "bytes": byte_vocabulary,
    "nasty": nasty_vocabulary,
    "lacking": lacking_vocabulary,
}
FREE = 40  # tokens without a budget


def walk(
    constraint: Constraint, rng: random.Random, budget: int | None, *, free: int = FREE
) -> bytes:
    """Uniform over the mask to a complete text; after ``free`` tokens a budget shrinks.

    Checks at every state that the mask is not empty and the bound keeps its promise.
    """
    matcher = constraint.compiled.matcher()
    vocabulary = constraint.compiled.vocabulary
    text, taken, left = b"", 0, budget
    while True:
        if left is None and taken >= free:
            left = matcher.min_tokens + rng.randint(0, 4)
        bound = matcher.min_tokens
        tokens = mask(matcher, left)
        assert tokens, f"{constraint.name}: nothing may follow {text!r}"
        assert (set(tokens) & set(vocabulary.eos_ids) != set()) == matcher.is_complete
        if left is not None:
            assert bound <= left, f"{constraint.name}: {text!r} needs {bound} of {left}"
        token = rng.choice(tokens)
        if token in vocabulary.eos_ids:
            assert matcher.advance(token)
            assert matcher.is_finished
            return text
        assert matcher.advance(token), f"{constraint.name}: {text!r} {token}"
        text += vocabulary.token_bytes(token)
        taken += 1
        if left is not None:
            left -= 1
            assert matcher.min_tokens <= left, f"{constraint.name}: {text!r}"
        elif taken % 4 == 0:
            _check_witness(matcher, constraint, text)
        if matcher.is_finished:
            return text


def _check_witness(matcher: grammar.Matcher, constraint: Constraint, text: bytes) -> None:
    rest = matcher.witness()
    replay = matcher.fork()
    assert replay.advance_bytes(rest) == len(rest), f"{constraint.name}: {text!r} + {rest!r}"
    assert replay.is_complete
    assert constraint.accepts(text + rest), f"{constraint.name}: {text!r} + {rest!r}"


@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize("seed", range(25))
def test_random_walks_end_valid(name, seed):
    rng = random.Random(f"walk {name} {seed}")
    constraint = random_constraint(rng, VOCABULARIES[name]())
    for _ in range(3):
        text = walk(constraint, rng, None)
        assert constraint.accepts(text), f"{constraint.name}: {text!r}"


@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize("seed", range(20))
def test_at_every_budget_that_suffices_walks_end_valid_within_it(name, seed):
    rng = random.Random(f"budget {name} {seed}")
    constraint = random_constraint(rng, VOCABULARIES[name]())
    least = constraint.compiled.min_tokens
    for more in (0, 0, 1, 1, 2, 2, 5, 5, 12):
        text = walk(constraint, rng, least + more)
        assert constraint.accepts(text), f"{constraint.name}: {text!r}"


@pytest.mark.parametrize("number", range(len(SHAPES)))
@pytest.mark.parametrize("order", ["schema", "any"])
def test_every_shape_at_every_budget(number, order):
    schema, vocabulary = SHAPES[number], nasty_vocabulary(2)
    options = grammar.JsonOptions(property_order=order, additional_properties_default="allow")
    compiled = grammar.compile_json_schema(json.dumps(schema), vocabulary, options)
    constraint = Constraint(f"{schema} {order}", compiled, schema)
    rng = random.Random(number)
    for more in (0, 1, 2, 5, 20):
        text = walk(constraint, rng, compiled.min_tokens + more)
        assert constraint.accepts(text), f"{constraint.name}: {text!r}"
    text = walk(constraint, rng, None, free=120)
    assert constraint.accepts(text), f"{constraint.name}: {text!r}"


@pytest.mark.parametrize("seed", range(25))
def test_walks_uniform_over_bytes_end_valid(seed):
    rng = random.Random(f"bytes {seed}")
    constraint = random_constraint(rng, byte_vocabulary())
    matcher, text = constraint.compiled.matcher(), b""
    for _ in range(60):
        order = rng.sample(range(256), 256)
        byte = next((b for b in order if matcher.advance_bytes(bytes([b]))), None)
        if byte is None:
            break
        text += bytes([byte])
    rest = matcher.witness()
    assert matcher.advance_bytes(rest) == len(rest)
    assert matcher.is_complete
    assert constraint.accepts(text + rest), f"{constraint.name}: {text + rest!r}"


@pytest.mark.parametrize("vocabulary", [byte_vocabulary(), nasty_vocabulary(4)])
@pytest.mark.parametrize("space", ["", " "])
def test_with_used_keys_in_the_way_there_is_always_a_fresh_one(space, vocabulary):
    """Maps whose short keys are all taken, at the tightest budgets."""
    schema = {"type": "array", "items": {"additionalProperties": {"const": 0}, "type": "object"}}
    options = grammar.JsonOptions(whitespace="single_space" if space else "compact")
    compiled = grammar.compile_json_schema(json.dumps(schema), vocabulary, options)
    for keys in (("", "a"), ("a", "b", ""), ("name", "id", "", "ab", "aa", "abc"), ("aaaa",)):
        members = f",{space}".join(f'"{key}":{space}0' for key in keys)
        for tail in ("", ",", ',"', ',"a', ',"name', ',"aa'):
            tail = tail.replace(",", f",{space}") if len(tail) > 1 else tail
            matcher = compiled.matcher()
            text = f"[{{{members}{tail}".encode()
            assert matcher.advance_bytes(text) == len(text)
            rest = matcher.witness()
            assert matcher.fork().advance_bytes(rest) == len(rest)
            for extra in (0, 1, 5, 7, 8, 9, 10):
                for seed in range(4):
                    _finish_within(matcher.fork(), matcher.min_tokens + extra, random.Random(seed))


def _finish_within(matcher: grammar.Matcher, budget: int, rng: random.Random) -> None:
    while not matcher.is_complete:
        tokens = mask(matcher, budget)
        assert tokens
        assert matcher.advance(rng.choice(tokens))
        budget -= 1
        assert matcher.min_tokens <= budget


@pytest.mark.parametrize("extra", [0, 1, 2, 5, 40])
def test_the_default_model_s_vocabulary_within_a_budget(extra, model_vocabulary):
    schema = {
        "type": "object",
        "properties": {
            "person": {"type": "string", "maxLength": 60},
            "kind": {"enum": ["buyer", "seller"]},
            "amounts": {"type": "array", "items": {"type": "number", "minimum": 0}, "maxItems": 4},
            "notes": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["person", "kind", "amounts"],
        "additionalProperties": False,
    }
    compiled = grammar.compile_json_schema(json.dumps(schema), model_vocabulary)
    constraint = Constraint("extraction", compiled, schema)
    rng = random.Random(extra)
    for _ in range(3):
        text = walk(constraint, rng, compiled.min_tokens + extra)
        assert constraint.accepts(text), text


def test_max_tokens_of_finite_and_infinite_languages():
    vocabulary = byte_vocabulary()
    assert grammar.compile_choice(["yes", "no"], vocabulary).max_tokens == 3
    assert grammar.compile_regex("a{2,4}", vocabulary).max_tokens == 4
    assert grammar.compile_regex("a+", vocabulary).max_tokens is None
    assert grammar.compile_json_schema('{"type":"string"}', vocabulary).max_tokens is None
    row = np.zeros(vocabulary.words, np.uint32)
    matcher = grammar.compile_regex("a+", vocabulary).matcher()
    matcher.fill_mask(row, budget=1)
    assert not matcher.steered
