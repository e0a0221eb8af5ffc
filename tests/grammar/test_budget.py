"""Bounds are exact where a language can be listed, and a budget's mask is what they say."""

from __future__ import annotations

import json
import random

import pytest

import grammar
from tests.constraints import CHOICES, random_constraint
from tests.naive import (
    fewest_tokens,
    lacking_vocabulary,
    language,
    mask,
    nasty_vocabulary,
    random_walk,
    rest_tokens,
)

FINITE = (
    {"enum": ["a", "ab", "name", 10, 2.5, None, {"a": 1}, ["aa", "abc"]]},
    {"type": "boolean"},
    {
        "type": "object",
        "properties": {"a": {"type": "null"}, "b": {"const": "x"}},
        "required": ["b"],
    },
    {"type": "array", "items": {"enum": [0, 10, "id"]}, "maxItems": 2},
    {"type": "integer", "minimum": 95, "maximum": 110},
    {"type": "string", "pattern": "^(ab|name|aa){1,2}$"},
    {"anyOf": [{"const": "abc"}, {"type": "array", "prefixItems": [{"const": 1}], "maxItems": 1}]},
)


def grammars():
    vocabulary = nasty_vocabulary(3)
    for choices in CHOICES:
        yield grammar.compile_choice(choices, vocabulary)
    for pattern in ("a{2,4}b?", "(yes|no|maybe)!?", "(name|id|aa){1,3}", "[ab]{3}c"):
        yield grammar.compile_regex(pattern, vocabulary)
    for schema in FINITE:
        for order in ("schema", "any"):
            options = grammar.JsonOptions(
                property_order=order, additional_properties_default="forbid"
            )
            yield grammar.compile_json_schema(json.dumps(schema), vocabulary, options)
    yield grammar.compile_choice(["quiz", "abc abc abc"], lacking_vocabulary())


@pytest.mark.parametrize("number", range(len(CHOICES) + 4 + 2 * len(FINITE) + 1))
def test_finite_languages_by_enumeration(number):
    compiled = list(grammars())[number]
    vocabulary = compiled.vocabulary
    texts = language(compiled.matcher())
    lengths = {text: fewest_tokens(text, vocabulary) for text in texts}
    assert compiled.min_tokens == min(lengths.values())
    assert compiled.shortest.text in texts
    assert len(compiled.shortest.tokens) == compiled.min_tokens
    longest = compiled.max_tokens
    assert longest is None or longest == max(map(len, texts))  # every byte is a token
    rng = random.Random(number)
    for _ in range(4):
        matcher, said = compiled.matcher(), b""
        while not matcher.is_finished:
            assert matcher.min_tokens == rest_tokens(texts, said, vocabulary)
            _check_budget_masks(matcher, texts, said)
            tokens = [t for t in mask(matcher) if t not in vocabulary.eos_ids]
            token = rng.choice(tokens)
            said += vocabulary.token_bytes(token)
            assert matcher.advance(token)
        assert said in texts


def _check_budget_masks(matcher: grammar.Matcher, texts: list[bytes], said: bytes) -> None:
    """With budget R exactly the tokens after which R - 1 tokens suffice, and EOS when complete."""
    vocabulary = matcher.grammar.vocabulary
    plain = mask(matcher)
    need = {
        t: rest_tokens(texts, said + vocabulary.token_bytes(t), vocabulary)
        for t in plain
        if t not in vocabulary.eos_ids
    }
    for budget in range(matcher.min_tokens, matcher.min_tokens + 3):
        tokens = mask(matcher, budget)
        expected = [
            t
            for t in plain
            if t in vocabulary.eos_ids or ((n := need[t]) is not None and n <= budget - 1)
        ]
        assert tokens == expected
        assert matcher.steered == (tokens != plain)


@pytest.mark.parametrize("seed", range(30))
def test_the_bound_rises_by_no_more_than_was_spent(seed):
    """After every token that a budget allows, the bound fits what is left of it."""
    rng = random.Random(f"bound {seed}")
    constraint = random_constraint(rng, nasty_vocabulary())
    for matcher in random_walk(constraint.compiled, rng, 6):
        bound = matcher.min_tokens
        for budget in (bound, bound + 1, bound + 4):
            for token in mask(matcher, budget):
                if token in constraint.compiled.vocabulary.eos_ids:
                    continue
                after = matcher.fork()
                assert after.advance(token)
                assert after.min_tokens <= budget - 1, constraint.name
        assert matcher.min_tokens == bound


@pytest.mark.parametrize("seed", range(30))
def test_forced_tokens_are_allowed_one_by_one_and_leave_enough(seed):
    rng = random.Random(f"forced {seed}")
    constraint = random_constraint(rng, nasty_vocabulary())
    for matcher in random_walk(constraint.compiled, rng, 8):
        for budget in (None, matcher.min_tokens, matcher.min_tokens + 1, matcher.min_tokens + 3):
            forced = matcher.forced_tokens(budget)
            after, left = matcher.fork(), budget
            for token in forced:
                assert token in mask(after, left), constraint.name
                assert after.advance(token)
                left = None if left is None else left - 1
            assert left is None or after.min_tokens <= left, constraint.name
            if forced and budget is None:
                _check_only_way(matcher, forced)


def _check_only_way(matcher: grammar.Matcher, forced: list[int]) -> None:
    """No other byte may come anywhere along forced tokens."""
    vocabulary = matcher.grammar.vocabulary
    here = matcher.fork()
    for byte in b"".join(map(vocabulary.token_bytes, forced)):
        assert not here.is_complete
        possible = [b for b in range(256) if here.fork().advance_bytes(bytes([b]))]
        assert possible == [byte]
        here.advance_bytes(bytes([byte]))


def test_all_of_a_constant_is_forced():
    vocabulary = nasty_vocabulary()
    compiled = grammar.compile_json_schema('{"const":{"name":[1,2]}}', vocabulary)
    forced = compiled.matcher().forced_tokens()
    assert b"".join(map(vocabulary.token_bytes, forced)) == b'{"name":[1,2]}'


def test_forced_tokens_fit_the_budget_where_the_canonical_ones_do_not():
    """The tokenizer's own spelling takes a token a byte here, the fewest take two."""
    texts = [bytes([b]) for b in range(256)] + [b"abc", b"def"]
    vocabulary = grammar.Vocabulary(
        [*texts, None], (len(texts),), (len(texts),), encode=lambda text: list(text.encode())
    )
    matcher = grammar.compile_choice(["abcdef"], vocabulary).matcher()
    assert matcher.min_tokens == 2
    assert matcher.forced_tokens() == list(b"abcdef")
    assert matcher.forced_tokens(budget=6) == list(b"abcdef")
    assert matcher.forced_tokens(budget=5) == matcher.forced_tokens(budget=2) == [256, 257]


def test_a_forced_run_stops_where_a_longer_token_is_a_choice():
    """`"a` is forced, but `"ab"` could go on: the model chooses, not we."""
    texts = [bytes([b]) for b in range(256)] + [b"ab", b"ac"]
    vocabulary = grammar.Vocabulary([*texts, None], (258,), (258,))
    matcher = grammar.compile_choice(["xab", "xac"], vocabulary).matcher()
    assert matcher.forced_tokens() == [ord("x")]


def test_budgets_below_the_bound_leave_nothing_but_do_not_raise():
    vocabulary = nasty_vocabulary()
    matcher = grammar.compile_choice(["abc name", "abc,abc,abc"], vocabulary).matcher()
    assert mask(matcher, matcher.min_tokens - 1) == []
    assert mask(matcher, 0) == []
    assert mask(matcher, matcher.min_tokens) != []


@pytest.mark.parametrize(
    "bounds",
    [
        {"maxLength": 15},
        {"minLength": 3, "maxLength": 9},
        {"pattern": "^a{0,9}(bbbbbb|\U0001f600\U0001f600)$", "maxLength": 10},
    ],
)
def test_a_budget_holds_at_every_length_whichever_was_seen_first(bounds):
    """What is remembered of a string near its last character does not fit its first."""
    schema = {"type": "array", "items": {"type": "string"} | bounds, "maxItems": 2}
    compiled = grammar.compile_json_schema(json.dumps(schema), nasty_vocabulary())
    eos = compiled.vocabulary.eos_ids
    for length in (15, 9, 8, 4, 3, 2, 0, 1):
        matcher = compiled.matcher()
        matcher.advance_bytes(b'["' + b"a" * length)
        for budget in range(matcher.min_tokens, matcher.min_tokens + 8):
            for token in mask(matcher, budget):
                after = matcher.fork()
                assert token in eos or (after.advance(token) and after.min_tokens < budget)
