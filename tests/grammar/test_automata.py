"""Kernels of automata against their definitions, on random and on hand-made automata."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammar import automata
from grammar.automata import EMPTY
from grammar.dfa import Dfa
from grammar.errors import TooComplex
from grammar.options import Limits

WORDS = [bytes(t) for n in range(6) for t in itertools.product(b"ab", repeat=n)]


@st.composite
def dfas(draw, labels=1):
    """Automata over a and b with dead, unreachable and equivalent states."""
    n = draw(st.integers(1, 6))
    table = np.zeros((n + 1, 256), dtype=np.int32)
    for state in range(1, n + 1):
        for byte in b"ab":
            table[state, byte] = draw(st.integers(0, n))
    accept = draw(st.lists(st.integers(-1, labels - 1), min_size=n, max_size=n))
    return Dfa(table, np.array([-1, *accept], dtype=np.int32), draw(st.integers(0, n)))


def labels(dfa):
    return [int(dfa.accept[dfa.run(word)]) for word in WORDS]


def naive_distance(dfa, state):
    """Fewest bytes to an accepting state, by breadth-first search over sets."""
    reached, seen = {state}, set()
    for steps in range(dfa.num_states + 1):
        if any(s and dfa.accept[s] >= 0 for s in reached):
            return steps
        seen |= reached
        reached = {int(t) for s in reached for t in dfa.table[s] if t} - seen
    return -1


@given(dfas())
def test_distances_are_those_of_the_definition(dfa):
    found = automata.distances(dfa)
    assert found[0] == -1
    for state in range(1, dfa.num_states):
        assert found[state] == naive_distance(dfa, state)


@given(dfas(labels=3))
def test_trimming_keeps_the_language_and_only_live_states(dfa):
    trimmed = automata.trim(dfa)
    assert labels(trimmed) == labels(dfa)
    assert (automata.distances(trimmed)[1:] >= 0).all()
    assert trimmed.start == (1 if trimmed.num_states > 1 else 0)


@given(dfas(labels=3))
def test_minimising_keeps_labels_and_leaves_no_equivalent_states(dfa):
    least = automata.minimize(dfa)
    assert labels(least) == labels(dfa)
    states = range(1, least.num_states)
    futures = {tuple(labels(Dfa(least.table, least.accept, s))) for s in states}
    assert len(futures) == len(states)


@given(dfas(), dfas())
def test_boolean_operations(a, b):
    for operation, meaning in (
        (automata.intersect, lambda x, y: x and y),
        (automata.union, lambda x, y: x or y),
        (automata.subtract, lambda x, y: x and not y),
    ):
        dfa = operation(a, b)
        for word in WORDS:
            assert dfa.matches(word) == meaning(a.matches(word), b.matches(word))
        assert (automata.distances(dfa)[1:] >= 0).all()


@given(st.lists(dfas(), min_size=1, max_size=4))
def test_a_product_is_labelled_with_the_set_of_accepting_members(members):
    dfa = automata.product(members, lambda bits: bits != 0)
    for word in WORDS:
        bits = sum(1 << i for i, member in enumerate(members) if member.matches(word))
        assert dfa.accept[dfa.run(word)] == (bits or -1)


@given(st.lists(st.binary(max_size=4), max_size=12))
def test_a_trie_labels_each_string_with_its_first_index(strings):
    dfa = automata.from_strings(strings)
    for i, text in enumerate(strings):
        assert dfa.accept[dfa.run(text)] == strings.index(text) <= i
    for text in strings:
        longer = text + b"x"
        if longer not in strings:
            assert not dfa.matches(longer)


def test_no_strings_are_the_empty_language():
    assert automata.from_strings([]).is_empty
    assert not EMPTY.matches(b"")


def test_surround_adds_a_prefix_and_a_suffix():
    dfa = automata.surround(automata.from_strings([b"a"]), b'"x', b'y"')
    assert dfa.matches(b'"xay"')
    assert not dfa.matches(b'"xa')
    assert not dfa.matches(b"a")
    labelled = automata.surround(automata.from_strings([b"a", b"b"]), b"-")
    assert [int(labelled.accept[labelled.run(w)]) for w in (b"-a", b"-b", b"a")] == [0, 1, -1]


def test_removing_bytes_removes_what_needs_them(dead_bytes):
    dfa = automata.remove_bytes(automata.from_strings([b"ab", b"ac"]), dead_bytes(b"b"))
    assert not dfa.matches(b"ab")
    assert dfa.matches(b"ac")
    assert automata.remove_bytes(dfa, dead_bytes(b"a")).is_empty


def test_growth_is_limited_by_name():
    limits = Limits(max_dfa_states=10)
    with pytest.raises(TooComplex) as caught:
        automata.from_strings([b"a" * 20], limits)
    assert caught.value.limit == "max_dfa_states"
    loops = []
    for period in (5, 7):
        table = np.zeros((period + 1, 256), dtype=np.int32)
        table[1:, ord("a")] = [*range(2, period + 1), 1]
        accept = np.full(period + 1, -1, dtype=np.int32)
        accept[1] = 0
        loops.append(Dfa(table, accept, 1))
    assert automata.intersect(*loops).num_states == 36
    with pytest.raises(TooComplex) as caught:
        automata.intersect(*loops, limits)
    assert caught.value.limit == "max_dfa_states"
