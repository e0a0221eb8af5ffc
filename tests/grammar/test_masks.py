"""Masks equal brute force over the whole vocabulary, on random configurations."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

import grammar
from tests.constraints import SHAPES, random_constraint
from tests.naive import (
    byte_vocabulary,
    lacking_vocabulary,
    mask,
    naive_mask,
    nasty_vocabulary,
    random_walk,
)

REGRESSIONS = json.loads(
    (Path(__file__).parents[1] / "data" / "regressions" / "masks.json").read_text(encoding="utf-8")
)
VOCABULARIES = {
    "bytes": byte_vocabulary,
    "nasty": nasty_vocabulary,
    "lacking": lacking_vocabulary,
}


@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize("seed", range(25))
def test_the_mask_is_what_every_token_s_bytes_say(name, seed):
    rng = random.Random(f"{name} {seed}")
    numbers = rng.choice(("readable", "any"))
    constraint = random_constraint(rng, VOCABULARIES[name](), numbers=numbers)
    for matcher in random_walk(constraint.compiled, rng, 14):
        assert mask(matcher) == naive_mask(matcher), constraint.name


@pytest.mark.parametrize("number", range(len(SHAPES)))
@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("whitespace", ["compact", "single_space", "flexible"])
def test_each_shape_s_masks(number, order, whitespace):
    options = grammar.JsonOptions(
        property_order=order, whitespace=whitespace, max_whitespace_run=2
    )
    compiled = grammar.compile_json_schema(json.dumps(SHAPES[number]), nasty_vocabulary(), options)
    rng = random.Random(number)
    for matcher in random_walk(compiled, rng, 8):
        assert mask(matcher) == naive_mask(matcher)


def test_a_cached_mask_is_the_first_one_in_forks_and_after_rollback():
    rng = random.Random(3)
    for _ in range(20):
        constraint = random_constraint(rng, nasty_vocabulary(1))
        matcher = constraint.compiled.matcher()
        trail = [mask(matcher)]
        for _ in range(12):
            tokens = [t for t in trail[-1] if t not in matcher.grammar.vocabulary.eos_ids]
            if not tokens:
                break
            assert matcher.advance(rng.choice(tokens))
            trail.append(mask(matcher))
            assert mask(matcher.fork()) == trail[-1], constraint.name
        while len(trail) > 1:
            trail.pop()
            matcher.rollback(1)
            assert mask(matcher) == trail[-1], constraint.name


def test_a_batch_of_masks_is_each_mask_alone():
    rng = random.Random(9)
    vocabulary = nasty_vocabulary()
    matchers, budgets = [], []
    for _ in range(12):
        constraint = random_constraint(rng, vocabulary)
        matcher = list(random_walk(constraint.compiled, rng, rng.randint(0, 8)))[-1]
        matchers.append(matcher)
        budgets.append(rng.choice((None, matcher.min_tokens, matcher.min_tokens + 3)))
    rows = np.full((len(matchers), vocabulary.words), 0xFFFFFFFF, dtype=np.uint32)
    grammar.fill_masks(matchers, rows, budgets)
    for matcher, row, budget in zip(matchers, rows, budgets, strict=True):
        alone = np.zeros(vocabulary.words, dtype=np.uint32)
        matcher.fill_mask(alone, budget)
        assert (row == alone).all()


def test_padding_and_special_ids_are_never_allowed():
    vocabulary = nasty_vocabulary()
    silent = {i for i in range(vocabulary.logit_size) if not vocabulary.token_bytes(i)}
    compiled = grammar.compile_json_schema("{}", vocabulary)
    for matcher in random_walk(compiled, random.Random(1), 20):
        assert set(mask(matcher)) & silent <= set(vocabulary.eos_ids)


def test_a_used_additional_key_has_no_token_that_repeats_it():
    """Whole keys inside one token, a prefix typed before, and a key that only continues it."""
    vocabulary = nasty_vocabulary()
    for schema in (SHAPES[0], SHAPES[1], SHAPES[2], SHAPES[3]):
        for order in ("schema", "any"):
            compiled = grammar.compile_json_schema(
                json.dumps(schema), vocabulary, grammar.JsonOptions(property_order=order)
            )
            for start in ('{"b":1,', '{"b":1,"', '{"bb":1,"b', '{"b":1,"bb":0,"b', '{"aa":true,'):
                for text in (
                    start,
                    "[" + start,
                    start.replace("1", "null"),
                    start + '"x":{"b":0,"',
                ):
                    matcher = compiled.matcher()
                    matcher.advance_bytes(text.encode())
                    assert mask(matcher) == naive_mask(matcher), (schema, order, text)


@pytest.mark.parametrize("number", [2, 5, 8, 16])
def test_masks_of_the_default_model_s_vocabulary(number, model_vocabulary):
    compiled = grammar.compile_json_schema(
        json.dumps(SHAPES[number]), model_vocabulary, grammar.JsonOptions(property_order="any")
    )
    rng = random.Random(number)
    for step, matcher in enumerate(random_walk(compiled, rng, 9)):
        if step == 2:  # 50,000 tokens by their bytes: seconds
            assert mask(matcher) == naive_mask(matcher)
        assert mask(matcher) == mask(matcher.fork())


@pytest.mark.parametrize("case", REGRESSIONS, ids=lambda case: case["what"])
def test_what_was_wrong_once(case):
    options = grammar.JsonOptions(**case["options"])
    text = json.dumps(case["schema"])
    compiled = grammar.compile_json_schema(text, nasty_vocabulary(), options)
    matcher = compiled.matcher()
    data = case["text"].encode()
    assert matcher.advance_bytes(data) == len(data)
    assert mask(matcher) == naive_mask(matcher) != []
    rest = matcher.witness()
    assert matcher.advance_bytes(rest) == len(rest)
    assert matcher.is_complete
