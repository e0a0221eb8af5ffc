"""Patterns: the corpus against our automata and Python's, errors, limits."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammar.errors import (
    ConstraintSyntaxError,
    GrammarError,
    TooComplex,
    UnsupportedError,
)
from grammar.options import Limits
from grammar.regex import Spelling, compile_regex, compile_text, spell
from tests import naive_regex

DATA = Path(__file__).resolve().parents[1] / "data" / "regex"
CASES = tomllib.loads((DATA / "syntax.toml").read_text())["case"]
ERRORS = tomllib.loads((DATA / "errors.toml").read_text())["case"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_pattern_accepts_and_rejects_what_the_corpus_says(case):
    search = case["mode"] == "search"
    texts = compile_text(case["pattern"], search=search)
    raw = compile_regex(case["pattern"], search=search)
    for text in case["accepts"]:
        assert texts.matches(text), text
        assert raw.matches(text.encode()), text
    for text in case["rejects"]:
        assert not texts.matches(text), text
        assert not raw.matches(text.encode()), text


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.get("python", True)], ids=lambda case: case["name"]
)
def test_python_agrees_where_it_reads_the_pattern_alike(case):
    match = re.search if case["mode"] == "search" else re.fullmatch
    texts = compile_text(case["pattern"], search=case["mode"] == "search")
    alphabet = sorted(set("".join(case["accepts"] + case["rejects"])))[:5]
    samples = ["".join(t) for n in range(5) for t in itertools.product(alphabet, repeat=n)]
    for text in case["accepts"] + case["rejects"] + samples:
        if text.endswith("\n"):
            continue  # Python's $ also holds before a final newline
        assert texts.matches(text) == bool(match(case["pattern"], text)), text


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: case["pattern"])
def test_what_is_not_enforced_is_refused_by_name_and_byte_offset(case):
    with pytest.raises(GrammarError) as caught:
        compile_regex(case["pattern"])
    error = caught.value
    assert type(error).__name__ == case["error"]
    assert error.location == f"@{case['at']}"
    if isinstance(error, UnsupportedError):
        assert error.keyword == case["keyword"]


def agree(tree, texts):
    pattern = naive_regex.render(tree)
    full = compile_text(pattern)
    found = compile_text(pattern, search=True)
    for text in texts:
        assert full.matches(text) == naive_regex.full_match(tree, text), (pattern, text)
        assert found.matches(text) == naive_regex.search(tree, text), (pattern, text)


TEXTS = ["".join(t) for n in range(4) for t in itertools.product("ab-", repeat=n)]
LONGER = ["".join(t) for n in range(6) for t in itertools.product("ab", repeat=n)]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_tiny_pattern_agrees_with_the_backtracking_matcher(size):
    for tree in naive_regex.trees(size):
        agree(tree, TEXTS)


def test_small_patterns_agree_with_the_backtracking_matcher():
    """A fixed fifteenth of all trees with four nodes, and of those with five."""
    for tree in itertools.islice(naive_regex.trees(4), 0, None, 15):
        agree(tree, LONGER)
    for tree in itertools.islice(naive_regex.trees(5), 0, None, 499):
        agree(tree, LONGER)


def limit_of(pattern, **limits):
    with pytest.raises(TooComplex) as caught:
        compile_regex(pattern, limits=Limits(**limits))
    return caught.value.limit


def test_each_limit_is_named():
    assert limit_of("(" * 10_000) == "max_regex_depth"
    assert limit_of("(" * 10_000 + ")" * 10_000) == "max_regex_depth"
    assert limit_of("(?=" * 17 + ")" * 17) == "max_regex_depth"
    assert limit_of("a" * 70_000) == "max_regex_bytes"
    assert limit_of("((a{100}){100}){100}") == "max_nfa_states"
    assert limit_of("a{999999999999}") == "max_nfa_states"
    assert limit_of("(a|b)*a(a|b){9}", max_dfa_states=200) == "max_dfa_states"
    assert limit_of("a{300}", max_dfa_states=200) == "max_dfa_states"


def test_nesting_up_to_the_limit_costs_no_recursion():
    assert compile_regex("(" * 1_000 + "a" + ")" * 1_000).matches(b"a")


def test_long_alternations_and_concatenations():
    words = [f"w{i}" for i in range(300)]
    dfa = compile_regex("|".join(words))
    assert all(dfa.matches(word.encode()) for word in words)
    assert not dfa.matches(b"w300")
    assert compile_regex("ab" * 300).matches(b"ab" * 300)


def test_lengths_count_characters_and_are_applied_before_spelling():
    plain = Spelling.PLAIN
    dfa = compile_regex("^[é-😀]+$", search=True, spelling=plain, min_length=2, max_length=3)
    for text in ("é", "éé", "é😀é", "éééé"):
        assert dfa.matches(spell(text, plain)) == (2 <= len(text) <= 3)


def test_a_length_beyond_the_longest_text_costs_nothing():
    plain = compile_regex("[ab]{2,4}")
    assert compile_regex("[ab]{2,4}", max_length=1 << 30).num_states == plain.num_states
    assert compile_regex("[ab]{2,4}", max_length=1).is_empty


def test_bytes_that_cannot_be_spelled_are_no_transitions(dead_bytes):
    dfa = compile_regex("[a-zé]+", dead=dead_bytes(b"b\xc3"))
    assert dfa.matches(b"ac")
    assert not dfa.matches(b"ab")
    assert not dfa.matches("é".encode())
    assert compile_regex("é", dead=dead_bytes(b"\xa9")).is_empty


def test_an_empty_language_starts_dead():
    for pattern in ("a^b", "[]", "(?!)", r"\ud800"):
        assert compile_regex(pattern).is_empty


def test_syntax_errors_are_syntax_errors_inside_json_too():
    with pytest.raises(ConstraintSyntaxError):
        compile_regex("(", search=True, spelling=Spelling.JSON)


def test_lookaheads_at_the_front_and_elsewhere_are_the_same_thing():
    """The front ones become an intersection; in a group with a sibling they do not."""
    for pattern in ("^(?!a)(?=.b).*", "^(?!(a|b)*$)", "^(?=a)a(?!b)|b", "(?!a)b", "(^(?!a)|a)b"):
        short = compile_text(pattern, search=True)
        long = compile_text(f"(?:{pattern}|[])", search=True)
        full = compile_text(pattern)
        full_long = compile_text(f"(?:{pattern}|[])")
        for text in LONGER + TEXTS:
            assert short.matches(text) == long.matches(text), (pattern, text)
            assert full.matches(text) == full_long.matches(text), (pattern, text)
            assert short.matches(text) == bool(re.search(pattern, text)), (pattern, text)


PIECES = [*"ab^$.*+?|()[]{}-,0\\é\ud800", "(?:", "(?=", "(?!", "(?i)", "{2,3}", "[^"]
PIECES += ["\\d", "\\b", "\\u", "\\p{L}", "\\", "(?<", "(?P<n>"]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.booleans())
def test_any_text_compiles_or_is_refused_with_an_offset(pattern, search):
    location = "@0"
    try:
        compile_regex(pattern, search=search, spelling=Spelling.JSON)
    except GrammarError as error:
        location = error.location
    assert re.fullmatch(r"@[0-9]+", location)
    assert int(location[1:]) <= len(pattern.encode("utf-8", "surrogatepass"))
