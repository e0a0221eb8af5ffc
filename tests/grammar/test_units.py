"""Structural units: they end where the obvious definition says, and forbid nothing else."""

from __future__ import annotations

import itertools
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grammar
from tests import naive_units
from tests.naive import (
    byte_vocabulary,
    lacking_vocabulary,
    mask,
    naive_mask,
    nasty_vocabulary,
    random_walk,
)

ALPHABETS = {
    "line": "a \n\té",
    "sentence": "aé1.!。」\" '\n",
    "fence": "``~~\n\n a\t",
    "brackets": "()[]{}aé",
}
COMPILED = {name: grammar.compile_unit(name, byte_vocabulary()) for name in grammar.UNITS}


def feed(name, data, sizes):
    """The unit's matcher, fed in pieces: what is returned when it ends, else (matcher, None)."""
    matcher = COMPILED[name].matcher()
    read = 0
    while read < len(data):
        piece = data[read : read + next(sizes)]
        taken = matcher.advance_bytes(piece)
        if taken < len(piece):
            return matcher, None
        read += len(piece)
        if matcher.num_past_end is not None:
            return matcher, data[: read - matcher.num_past_end]
    return matcher, None


@pytest.mark.parametrize("name", ["line", "sentence", "fence"])
@given(data=st.data())
@settings(deadline=None)
def test_text_is_free_up_to_the_end_and_the_end_is_where_the_definition_has_it(name, data):
    text = data.draw(st.text(ALPHABETS[name], max_size=30))
    sizes = iter(data.draw(st.lists(st.integers(1, 9), min_size=130, max_size=130)))
    matcher, returned = feed(name, text.encode(), sizes)
    end = naive_units.first_end(name, text)
    if end is None:
        assert returned is None
        assert matcher.is_complete == naive_units.is_complete(name, text)
    else:
        # A character that shows the end may have begun in an earlier piece; it is never whole.
        assert returned.decode(errors="ignore") == text[:end]


@given(data=st.data())
@settings(deadline=None)
def test_brackets_match_each_other_and_the_first_pair_is_the_unit(data):
    text = data.draw(st.text(ALPHABETS["brackets"], max_size=30))
    sizes = iter(data.draw(st.lists(st.integers(1, 9), min_size=130, max_size=130)))
    matcher, returned = feed("brackets", text.encode(), sizes)
    end = naive_units.first_end("brackets", text)
    if end is not None:
        assert returned == text[:end].encode()
    elif naive_units.brackets_match(text):
        assert returned is None
        assert not matcher.is_complete
    else:
        assert returned is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(-1e300, 1e300),
    lambda each: st.lists(each, max_size=4) | st.dictionaries(st.text("abcé"), each, max_size=4),
    max_leaves=8,
)


@given(
    st.text(st.characters(exclude_characters="{[", exclude_categories=["Cs"]), max_size=9),
    st.lists(JSON, max_size=4) | st.dictionaries(st.text("abcé"), JSON, max_size=4),
    st.none() | st.integers(0, 30),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.integers(1, 40),
)
@settings(deadline=None)
def test_any_json_object_or_array_is_a_unit_behind_any_text(before, value, indent, after, size):
    text = before + json.dumps(value, indent=indent, ensure_ascii=False)
    _, returned = feed("json_value", (text + after).encode(), itertools.repeat(size))
    assert returned == text.encode()


@pytest.mark.parametrize(
    ("name", "text", "returned"),
    [
        ("line", "\n \n x\n\ny", "\n \n x"),
        ("line", "a\r\nb", "a\r"),
        ("sentence", "1. It is 3.14 m. Yes", "1. It is 3.14 m."),
        ("sentence", 'He said: "No!" And', 'He said: "No!"'),
        ("sentence", "他说：「好。」然后", "他说：「好。」"),
        ("sentence", "See a.b.c for x?!\n", "See a.b.c for x?!"),
        ("fence", "So:\n```py\nx = '```'\n```\nz", "So:\n```py\nx = '```'\n```"),
        ("fence", "```a``` is code\n~~~\n```\n~~~~ \n", "```a``` is code\n~~~\n```\n~~~~ "),
        ("fence", "````md\n```\nx\n```\n````\n", "````md\n```\nx\n```\n````"),
        ("fence", "    ```\n```\n```x\n   ```\n", "    ```\n```\n```x\n   ```"),
        ("brackets", ":) f(a[1], {b: 2}) and", ":) f(a[1], {b: 2})"),
        ("json_value", 'Sure: {"a": [1, {}]}!', 'Sure: {"a": [1, {}]}'),
        ("json_value", "see [ ] x", "see [ ]"),
    ],
)
def test_examples(name, text, returned):
    assert feed(name, text.encode(), iter([len(text.encode())]))[1].decode() == returned


@pytest.mark.parametrize("name", grammar.UNITS)
@pytest.mark.parametrize("vocabulary", [nasty_vocabulary(5), lacking_vocabulary()], ids="nl")
def test_masks_equal_those_of_the_obvious_definition(name, vocabulary):
    compiled = grammar.compile_unit(name, vocabulary)
    for seed in range(3):
        for matcher in random_walk(compiled, random.Random(seed), 6):
            assert mask(matcher) == naive_mask(matcher)


@pytest.mark.parametrize("name", ["line", "sentence", "fence"])
def test_a_flat_unit_allows_every_token_that_keeps_the_text_utf8(name):
    vocabulary = nasty_vocabulary(5)
    compiled = grammar.compile_unit(name, vocabulary)
    texts = [vocabulary.token_bytes(t) for t in range(vocabulary.size)]
    whole = set()
    for token, text in enumerate(texts):
        try:
            if text and text.decode():
                whole.add(token)
        except UnicodeDecodeError:
            continue
    assert whole <= set(mask(compiled.matcher()))


@pytest.mark.parametrize("name", grammar.UNITS)
@pytest.mark.parametrize("above", [0, 1, 2, 5, 20])
def test_it_is_complete_within_any_budget_from_the_minimum_on(name, above):
    vocabulary = nasty_vocabulary(2)
    compiled = grammar.compile_unit(name, vocabulary)
    for seed in range(12):
        rng = random.Random(seed)
        matcher, budget = compiled.matcher(), compiled.min_tokens + above
        said = b""
        while budget and matcher.num_past_end is None:
            row = mask(matcher, budget)
            token = rng.choice([t for t in row if t not in vocabulary.eos_ids])
            assert matcher.advance(token)
            said += vocabulary.token_bytes(token)
            budget -= 1
        assert matcher.is_complete
        if past := matcher.num_past_end:
            said = said[:-past]
        assert said
        if name in ("line", "sentence", "fence"):
            text = said.decode(errors="ignore") + ("\n" if name == "line" else "")
            assert naive_units.is_complete(name, text)
        elif name == "brackets":
            assert naive_units.first_end(name, said.decode()) == len(said.decode())
        else:
            start = min(said.find(b) for b in b"[{" if b in said)
            json.loads(said[start:])


@pytest.mark.parametrize("name", grammar.UNITS)
def test_automata_shipped_to_another_process_make_the_same_unit(name):
    vocabulary = nasty_vocabulary(2)
    first = grammar.compile_unit(name, vocabulary)
    steps = grammar.compile_steps("unit", name, (), vocabulary, lexemes=first.lexemes)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            second = end.value
            break
    for matcher, other in zip(
        random_walk(first, random.Random(1), 5), random_walk(second, random.Random(1), 5),
        strict=True,
    ):  # fmt: skip
        assert mask(matcher) == mask(other)
        assert matcher.num_past_end == other.num_past_end


def test_deep_brackets_still_close():
    limits = grammar.Limits(max_depth=4)
    compiled = grammar.compile_unit("brackets", byte_vocabulary(), limits)
    matcher = compiled.matcher()
    assert matcher.advance_bytes(b"(((((") == 4
    assert matcher.witness() == b"))))"
    assert compiled.pruned


def test_what_cannot_be_spelled_is_refused_or_left_out():
    letters = [bytes([b]) for b in b"abc.()"]
    vocabulary = grammar.Vocabulary([*letters, None], (len(letters),))
    for name in ("line", "fence", "json_value"):
        with pytest.raises(grammar.Unsatisfiable, match="this vocabulary"):
            grammar.compile_unit(name, vocabulary)
    assert grammar.compile_unit("sentence", vocabulary).shortest.text == b"a."
    brackets = grammar.compile_unit("brackets", vocabulary)
    assert brackets.shortest.text == b"()"
    assert mask(brackets.matcher()) == list(range(len(letters)))


def test_an_unknown_unit_is_refused():
    with pytest.raises(grammar.ConstraintSyntaxError, match="'verse' is not one of the units"):
        grammar.compile_unit("verse", byte_vocabulary())


def test_a_unit_has_no_longest_output():
    assert all(compiled.max_tokens is None for compiled in COMPILED.values())
