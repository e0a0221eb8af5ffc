"""Checking texts: verdict, first wrong byte, completion, and what is only spelled otherwise."""

from __future__ import annotations

import functools
import json
import random
from decimal import Decimal
from typing import Any

import numba
import pytest
from hypothesis import given
from hypothesis import strategies as st

import grammar
from grammar.compiled import _fresh
from grammar.longest import MAX_BYTES, longest_of_schema
from grammar.respell import Canonical, respell
from tests.constraints import SHAPES
from tests.naive import byte_vocabulary, lacking_vocabulary, language, random_walk
from tests.random_schemas import random_schema
from tests.validator import NotJson, parse, valid

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "maximum": 150}},
    "required": ["name"],
}
DRAFT_4 = "http://json-schema.org/draft-04/schema#"


def compiled(schema: Any, limits: grammar.Limits | None = None, **changes: Any) -> grammar.Grammar:
    options = grammar.JsonOptions.recognise(**changes)
    return grammar.compile_json_schema(json.dumps(schema), byte_vocabulary(), options, limits)


def check(schema: Any, text: str | bytes, **changes: Any) -> grammar.Check:
    data = text.encode() if isinstance(text, str) else text
    return grammar.check_text(compiled(schema, **changes), data)


# --- verdicts ---------------------------------------------------------------------------------


def test_a_complete_text():
    assert check(PERSON, '{"name": "a"}') == ("complete", 13, ("end of text",), None, False)


def test_a_complete_text_that_may_go_on():
    got = check({"type": "integer"}, "12")
    assert got == ("complete", 2, ("a digit", "`.`", "end of text"), None, False)


def test_an_incomplete_text_and_its_completion():
    got = check(PERSON, '{"age": 1')
    assert (got.verdict, got.offset, got.completion) == ("incomplete", 9, b',"name":""}')
    assert got.expected == ("a digit", "`.`", "`e`", "`,`", "whitespace")


def test_the_empty_text():
    got = check(PERSON, "")
    assert (got.verdict, got.offset, got.completion) == ("incomplete", 0, b'{"name":""}')
    choice = grammar.compile_choice(["", "a"], byte_vocabulary())
    assert grammar.check_text(choice, b"").verdict == "complete"


def test_a_rejected_text_says_where_and_what_may_come_there():
    got = check(PERSON, '{"name": 3}')
    assert got == ("rejected", 9, ("a string", "whitespace"), None, False)


def test_bytes_that_are_no_utf_8():
    got = check(PERSON, b'{"name": "a\xff"}')
    assert (got.verdict, got.offset, got.spelling_only) == ("rejected", 11, False)
    cut = check(PERSON, '{"name": "é'.encode()[:-1])
    assert (cut.verdict, cut.offset) == ("incomplete", 11)
    assert cut.expected == ("the rest of a character",)


def test_regexes_and_choices():
    date = grammar.compile_regex(r"\d{4}-\d\d", byte_vocabulary())
    assert grammar.check_text(date, b"2024-").completion == b"00"
    assert grammar.check_text(date, b"2024-1x").offset == 6
    choice = grammar.compile_choice(["yes", "no"], byte_vocabulary())
    assert grammar.check_text(choice, b"ye") == ("incomplete", 2, ("`s`",), b"s", False)
    assert grammar.check_text(choice, b'"yes"').spelling_only is False


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ('{"name":"","name":""}', 16),  # a declared key
        ('{"name":"","x":1,"x":2}', 19),  # an additional one
        ('{"name":"","x":{"y":1,"y":2}}', 24),
        ('{"name":"","x":[{"y":1},{"y":1,"z":0,"y":2}]}', 39),
        ('{"name":"","x":{"y":1},"y":2,"x":3}', 31),
    ],
)
def test_a_key_twice_is_refused_at_its_closing_quote(text, offset):
    got = check(PERSON, text)
    assert (got.verdict, got.offset, got.spelling_only) == ("rejected", offset, False)
    assert '`"`' not in got.expected


def test_equal_keys_of_different_objects_are_no_repetition():
    text = '{"name":"","x":[{"y":1},{"y":1}],"y":{"x":{"y":{"y":[]}}},"z":{"y":1}}'
    assert check(PERSON, text).verdict == "complete"


def test_the_completion_avoids_keys_that_were_used():
    schema = {"type": "object", "minProperties": 0, "additionalProperties": {"const": 1}}
    text = b'{"":1,"a":1,"b'
    got = check(schema, text)
    assert check(schema, text + (got.completion or b"?")).verdict == "complete"
    used = b'{"":1,"'
    got = check(schema, used)
    assert check(schema, used + (got.completion or b"?")).verdict == "complete"


def test_keys_of_an_object_that_is_closed_are_forgotten():
    got = check({}, '[{"y":1},{"y')
    assert (got.completion, got.expected[-1]) == (b'":0}]', '`"`')


# --- spelling ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (PERSON, r'{"n\u0061me": "a"}'),  # an escape in a key
        (PERSON, ' {"name": "a"}'),
        (PERSON, '{"name": "a"}\n'),
        (PERSON, '{"name":' + " " * 9 + '"a"}'),
        ({"const": "a/b"}, r'"a\/b"'),
        ({"const": "aé"}, r'"a\u00e9"'),
        ({"enum": ["😀"]}, r'"\ud83d\ude00"'),
        ({"const": 100}, "100.0e0 "),
        ({"const": {"a": 1}}, r'{"\u0061": 1}'),
        ([{}], " [[1, 2 ], {}]"),
        ({"$schema": DRAFT_4, "type": "integer"}, " 1"),
        ({"$schema": DRAFT_4, "type": "number"}, " 1.0"),
    ],
)
def test_only_the_spelling_is_foreign(schema, text):
    schema = {} if isinstance(schema, list) else schema
    assert valid(schema, text)
    got = check(schema, text)
    assert (got.verdict, got.spelling_only) == ("rejected", True)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (PERSON, ' {"name": 1}'),
        (PERSON, r'{"n\u0061me": "a", "name": "b"}'),
        (PERSON, r'{"\u0061": "a"}'),
        (PERSON, '{"name": "a"} {}'),
        (PERSON, '{"name": "a",}'),
        (PERSON, "{'name': 'a'}"),
        ({}, " NaN"),
        ({}, " 01"),
        ({}, " +1"),
        ({}, " .5"),
        ({}, ' "\t"'),
        ({}, ' "\\x"'),
        ({}, ' "\\ud800"'),  # JSON, but no UTF-8 can spell it
        ({}, "\ufeff{}"),
        ({}, " [1 2]"),
        ({}, ' {"a" 1}'),
        ({}, " {1: 1}"),
        ({}, " [1}"),
        ({}, " [" + "1e400," * 4_000 + "1]"),  # not worth writing out
        ({}, " ["),
        ({}, b' "\xff"'),
        ({"$schema": DRAFT_4, "type": "integer"}, " 1.0"),
        ({"type": "integer"}, " 1.5"),
    ],
)
def test_what_means_something_else_is_not_a_matter_of_spelling(schema, text):
    got = check(schema, text)
    assert (got.verdict, got.spelling_only) == ("rejected", False)


def respelled(text: str, *, plain_integers: bool = False) -> str | None:
    steps = respell(text.encode(), Canonical(b",", b":", False, plain_integers))
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return None if end.value is None else end.value.decode()


@pytest.mark.parametrize(
    ("text", "same"),
    [
        *((f"{zero}", "0") for zero in ("0", "-0", "0.00", "-0e9", "0E-99999")),
        ("1.50", "1.5"),
        ("-12.0", "-12"),
        ("1e3", "1000"),
        ("12.5E1", "125"),
        ("12.5e-3", "0.0125"),
        ("0.001e2", "0.1"),
        ("100e-2", "1"),
        ("1e999999999999", "1e999999999999"),
        ("1e-5000", "1e-5000"),
    ],
)
def test_numbers_respelled(text, same):
    assert respelled(text) == same


def test_numbers_respelled_where_an_integer_is_known_by_its_spelling():
    assert respelled("[1, 1.0, 1.50, 1e2, 0.0]", plain_integers=True) == "[1,1.0,1.5,100.0,0.0]"


def test_an_object_with_a_key_twice_is_not_respelled():
    assert respelled(r'[{"a":1},{"a":1,"b":{"a":2}}]') is not None
    assert respelled(r'{"a":1,"\u0061":1}') is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"))
    | st.decimals(allow_nan=False, allow_infinity=False, places=6),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=12,
)  # fmt: skip


def written(value: Any, rng: random.Random) -> str:
    """JSON text of a value in one of its many spellings."""

    def gap() -> str:
        return rng.choice(("", "", " ", "\n\t", " " * 12))

    if isinstance(value, list):
        return "[" + ",".join(gap() + written(v, rng) + gap() for v in value) + gap() + "]"
    if isinstance(value, dict):
        members = (
            f"{gap()}{written(k, rng)}{gap()}:{gap()}{written(v, rng)}{gap()}"
            for k, v in value.items()
        )
        return "{" + ",".join(members) + gap() + "}"
    if isinstance(value, Decimal):
        return rng.choice((str(value), f"{value:e}", f"{value}00", f"{value}E0"))
    return json.dumps(value, ensure_ascii=rng.random() < 0.5)


@given(JSON, st.randoms(use_true_random=False))
def test_respelling_keeps_the_value_and_forgets_the_spelling(value, rng):
    first, second = written(value, rng), written(value, rng)
    same = respelled(first)
    assert same is not None
    assert parse(same) == parse(first)
    assert respelled(second) == same
    assert respelled(same) == same


@given(st.text('[]{},:"\\u0 1.e-tf\n') | st.text())
def test_only_json_is_respelled(text):
    try:
        parse(text)
    except (NotJson, RecursionError):
        assert respelled(text) is None


# --- against the obvious twin -----------------------------------------------------------------


def naive(grammar_: grammar.Grammar, text: bytes) -> tuple[str, int]:
    """Verdict and offset by trying every prefix from the start."""
    for size in range(1, len(text) + 1):
        if grammar_.matcher().advance_bytes(text[:size]) < size:
            return "rejected", size - 1
    matcher = grammar_.matcher()
    matcher.advance_bytes(text)
    return ("complete" if matcher.is_complete else "incomplete"), len(text)


@functools.cache
def judged(number: int) -> grammar.Grammar:
    """Constraint ``number`` for recognising, always the same one."""
    rng = random.Random(number)
    while True:
        schema = SHAPES[number] if number < len(SHAPES) else random_schema(rng)
        try:
            return compiled(schema)
        except grammar.Unsatisfiable:
            continue


def some_text(grammar_: grammar.Grammar, rng: random.Random) -> bytes:
    """A valid text: a random walk, completed."""
    *_, matcher = random_walk(grammar_, rng, rng.randint(0, 40))
    said = b""
    link = matcher._link
    while link.parent is not None:
        said, link = link.text + said, link.parent
    return said + matcher.witness()


CONSTRAINTS = st.integers(0, len(SHAPES) + 20).map(judged)


@given(CONSTRAINTS, st.randoms(use_true_random=False))
def test_every_prefix_of_a_valid_text_can_be_completed(grammar_, rng):
    text = some_text(grammar_, rng)
    assert grammar.check_text(grammar_, text).verdict == "complete"
    for size in rng.sample(range(len(text) + 1), min(6, len(text) + 1)):
        got = grammar.check_text(grammar_, text[:size])
        assert got.offset == size
        assert not got.spelling_only
        if got.verdict == "complete":
            assert got.completion is None
        else:
            assert got.verdict == "incomplete"
            whole = text[:size] + (got.completion or b"")
            assert grammar.check_text(grammar_, whole).verdict == "complete"


FINITE = (
    {"enum": ["a", "ab", [1, 22], {"b": 1}, {"b": 2, "c": [None]}]},
    {"type": "array", "items": {"enum": [True, 12]}, "minItems": 1, "maxItems": 2},
    {
        "anyOf": [
            {"properties": {"a": {"enum": ["x", "xyz"]}, "b": {"const": 1}}, "required": ["b"]},
            {"properties": {"a": {"const": "x"}, "c": {"const": [0]}}, "required": ["c", "a"]},
        ],
        "type": "object",
    },
)


@pytest.mark.parametrize("schema", FINITE)
def test_the_completion_is_a_shortest_one(schema):
    options = grammar.JsonOptions.recognise(
        whitespace="compact", numbers="readable", additional_properties_default="forbid"
    )
    finite = grammar.compile_json_schema(json.dumps(schema), byte_vocabulary(), options)
    texts = language(finite.matcher())
    for text in texts:
        for size in range(len(text)):
            got = grammar.check_text(finite, text[:size])
            rests = [t[size:] for t in texts if t.startswith(text[:size])]
            assert got.completion is None or got.completion in rests
            assert len(got.completion or b"") == min(map(len, rests)), text[:size]


@given(CONSTRAINTS, st.randoms(use_true_random=False))
def test_a_changed_byte_is_found_where_the_twin_finds_it(grammar_, rng):
    text = bytearray(some_text(grammar_, rng))
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(text))
        byte = rng.choice([rng.randrange(256), *b'"\\{}[],: 0e.'])
        text[at : at + rng.randint(0, 1)] = bytes([byte])
    got = grammar.check_text(grammar_, bytes(text))
    assert (got.verdict, got.offset) == naive(grammar_, bytes(text))
    matcher = grammar_.matcher()
    matcher.advance_bytes(bytes(text[: got.offset]))
    assert got.expected == matcher.expected()


@given(st.integers(0, len(SHAPES) - 1), JSON, st.randoms(use_true_random=False))
def test_complete_or_only_spelled_otherwise_is_what_the_judge_calls_valid(number, value, rng):
    schema = SHAPES[number]
    text = written(rng.choice([value, 1, "a", [1, "x"], {"a": 1}, {"v": 2, "kids": []}]), rng)
    got = check(schema, text)
    accepted = got.verdict == "complete" or got.spelling_only
    assert accepted == valid(schema, text), got


# --- large and hostile ------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [5_000, 100_000])
def test_deep_nesting_is_no_recursion(depth):
    open_ones = check({}, "[" * depth)
    assert (open_ones.verdict, open_ones.offset) == ("rejected", grammar.Limits().max_depth)
    text = " " + "[" * depth + "]" * depth  # JSON, and deeper than Python recurses
    assert check({}, text).spelling_only is False


def test_deep_nesting_within_the_limit_is_accepted():
    text = "[" * 500 + "]" * 500
    assert check({}, text).verdict == "complete"
    assert check({}, " " + text).spelling_only is True
    assert check({}, text[:900]).completion == b"]" * 100


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="a hundred times slower without the JIT")
@pytest.mark.timeout(60)  # what was quadratic took minutes
def test_long_texts_take_time_in_proportion():
    long_key = b'{"' + b"k" * 1_500_000
    assert check({}, long_key).completion == b'":0}'
    many = json.dumps({f"key {i}": [i, {"key": i}] for i in range(60_000)})
    assert check({}, many).verdict == "complete"
    assert check({}, " " + many).spelling_only is True


def test_a_long_check_comes_in_slices():
    text = json.dumps([{"a": i} for i in range(20_000)]).encode()
    steps = grammar.check_steps(compiled({}), text)
    assert sum(1 for _ in steps) >= len(text) // (64 << 10)


def test_tables_over_the_limit_are_refused_by_name():
    """Each item of a counted array is a place of its own."""
    schema = {"type": "array", "items": {"type": "integer"}, "maxItems": 1_000_000}
    limits = grammar.Limits(max_arena_bytes=8 << 20)
    counted = compiled(schema, limits)
    text = b"[" + b"1," * 20_000
    with pytest.raises(grammar.TooComplex, match="bytes of tables") as caught:
        grammar.check_text(counted, text)
    assert caught.value.limit == "max_arena_bytes"
    assert grammar.check_text(counted, b"[1,2]").verdict == "complete"  # with fresh tables


def test_bytes_without_a_token_are_rejected():
    text = grammar.compile_json_schema(
        '{"type":"string"}', lacking_vocabulary(), grammar.JsonOptions.recognise()
    )
    assert grammar.check_text(text, b'"quiz"').offset == 1


# --- longest ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "longest"),
    [
        ({"type": "boolean"}, 5),
        ({"enum": ["a", "bcd", {"x": [1]}]}, len('{"x":[1]}')),
        ({"type": "integer", "minimum": -1, "maximum": 100}, 3),
        ({"type": "string", "maxLength": 10}, 2 + 10 * len("\\u0001")),
        ({"type": "string", "format": "date"}, len('"2024-01-01"')),
        ({"type": "array", "items": {"const": 7}, "maxItems": 3}, len("[7,7,7]")),
        (
            {
                "type": "object",
                "properties": {"a": {"const": 1}, "b": {"type": "array", "maxItems": 0}},
            },
            len('{"a":1,"b":[]}'),
        ),
        ({"anyOf": [{"const": "a"}, {"properties": {"a": {"const": 100}}, "type": "object"}]}, 9),
        ({"type": "array", "items": {"type": "boolean"}, "maxItems": 400}, 2_401),
        ({"type": "array"}, None),
        ({"type": "string"}, None),
        ({"type": "object"}, None),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, None),
        ({"type": "array", "items": {"type": "boolean"}, "maxItems": 10**9}, None),
    ],
)
def test_most_tokens(schema, longest):
    found = grammar.compile_json_schema(json.dumps(schema), byte_vocabulary())
    assert found.max_tokens == longest


def test_most_tokens_is_found_or_given_up_soon():
    keys = {f"key {i}": {"type": "boolean"} for i in range(10_000)}
    schema = json.dumps({"type": "object", "properties": keys})
    found = grammar.compile_json_schema(schema, byte_vocabulary())
    arena, root = _fresh(found._source)
    assert longest_of_schema(arena, root) is None
    assert arena.nbytes < 2 * MAX_BYTES  # the automaton of the keys, and no place behind each


def test_most_tokens_with_whitespace():
    found = compiled({"type": "array", "items": {"const": "x"}, "maxItems": 2})
    assert found.max_tokens == len('["x","x"]') + 4 * 8


@pytest.mark.parametrize("seed", range(25))
def test_no_walk_is_longer_than_the_bound(seed):
    rng = random.Random(f"longest {seed}")
    found = judged(seed)
    most = found.max_tokens
    for _ in range(4):
        assert most is None or len(some_text(found, rng)) <= most
