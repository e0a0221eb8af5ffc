"""``uniqueItems``: no two items the same, never a dead end, always within the budget."""

from __future__ import annotations

import itertools
import json
import random
from decimal import Decimal

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import grammar
from grammar import Vocabulary
from grammar.item_mask import unescaped
from grammar.items import Seen, ended, key_of, opened, parse
from grammar.schema.equality import json_key
from tests.naive import NASTY

#: Tokens that end an item, start another, or write several at once.
SPANNING = (
    *(b'["a","b"', b"[1,2", b"true,", b'",', b'ab"', b"false]", b",true", b"],[", b'"a"', b",1,1"),
    *(b"\\u0061", b"\\u00", b'"b","a"', b'a","a"', b"1,", b'["a","a"', b"[1,1", b"\\\\", b"1.0"),
)
TOKENS = [*(bytes([i]) for i in range(256)), *NASTY, *SPANNING]
NASTY_VOCABULARY = Vocabulary([*TOKENS, None], [len(TOKENS)])
BYTES = Vocabulary([*(bytes([i]) for i in range(256)), None], [256])


def array(items, **more):
    return {"type": "array", "uniqueItems": True, "items": items, **more}


PAIR = {
    "type": "object",
    "properties": {"a": {"enum": [1, 2]}, "b": {"type": "boolean"}},
    "required": ["a"],
    "additionalProperties": False,
}
SCHEMAS = (
    array({"type": "string", "maxLength": 2}),
    array({"enum": ["a", "b", 1, 2.5, True, None]}),
    array({"enum": ["a", "b", "ab", "abc"]}, minItems=3),
    {"uniqueItems": True, "type": "array"},
    array({"type": "integer"}, minItems=4),
    array({"type": "string"}, minItems=4),
    array(array({"type": "boolean"}), minItems=2),
    array(PAIR, minItems=2),
    array({"type": "string", "pattern": "^a?b?$"}),
    array(False, prefixItems=[{"type": "boolean"}, {"type": "boolean"}]),
    array({"type": "integer", "minimum": 0, "maximum": 4}, contains={"const": 3}),
    {
        "type": "object",
        "properties": {
            "t": array({"type": "string", "pattern": "^(a|b)*c?$"}),
            "u": array({"type": "object"}, minItems=1),
        },
        "required": ["u"],
    },
    {
        "type": "array",
        "anyOf": [
            {"uniqueItems": True, "items": {"type": "string"}, "minItems": 2},
            {"items": {"minLength": 1}, "maxItems": 3},
        ],
    },
)


def compiled(schema, vocabulary=NASTY_VOCABULARY, whitespace="compact"):
    options = grammar.JsonOptions(whitespace=whitespace)
    return grammar.compile_json_schema(json.dumps(schema), vocabulary, options)


def allowed(matcher, budget=None):
    row = np.zeros(matcher.grammar.vocabulary.words, dtype=np.uint32)
    matcher.fill_mask(row, budget)
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()


# --- against the obvious twin -------------------------------------------------------------------

FEW = (
    # item schema, its texts
    ({"enum": ["a", "b", "ab"]}, ['"a"', '"b"', '"ab"']),
    ({"type": ["boolean", "null"]}, ["true", "false", "null"]),
    ({"enum": [1, 10, 100, "1"]}, ["1", "10", "100", '"1"']),
    (PAIR, ['{"a":1}', '{"a":2}', '{"a":1,"b":true}', '{"a":2,"b":false}', '{"a":1,"b":false}',
            '{"a":2,"b":true}']),
    (array({"type": "boolean"}), ["[]", "[true]", "[false]", "[true,false]", "[false,true]"]),
)  # fmt: skip


@pytest.mark.parametrize(("items", "texts"), FEW)
def test_exactly_the_beginnings_of_different_items_are_accepted(items, texts):
    """Every array of the few texts, right or wrong, up to the byte that is too much."""
    most = min(len(texts), 4)
    valid = {
        f"[{','.join(chosen)}]".encode()
        for count in range(most + 1)
        for chosen in itertools.permutations(texts, count)
    }
    beginnings = {text[:end] for text in valid for end in range(len(text) + 1)}
    matcher = compiled(array(items, maxItems=most), BYTES).matcher()
    for count in range(1, min(most, 3) + 1):
        for chosen in itertools.product(texts, repeat=count):
            text = f"[{','.join(chosen)}]".encode()
            right = next(n for n in range(len(text), -1, -1) if text[:n] in beginnings)
            matcher.reset()
            assert matcher.advance_bytes(text) == right, text
            assert matcher.is_complete == (text in valid)
            end = text[:right] + matcher.witness()
            assert end in valid, "the witness of where it stopped"


@pytest.mark.parametrize("whitespace", ["compact", "flexible"])
@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_masks_are_what_single_tokens_may_do_and_budgets_hold(schema, whitespace):
    """Random walks at random budgets: masks against ``advance``, ends against the validator."""
    rng = random.Random(f"{schema}")
    grammar_of = compiled(schema, whitespace=whitespace)
    validator = jsonschema.Draft202012Validator(schema)
    eos = len(TOKENS)
    weights = [5 if len(text) > 1 or text in b'",]}ab12' else 1 for text in (*TOKENS, b"")]
    for number in range(12):
        matcher = grammar_of.matcher()
        budget = grammar_of.min_tokens + rng.choice((0, 1, 3, 30, 60))
        text = b""
        while True:
            tokens = allowed(matcher, budget)
            assert tokens, (text, budget)
            if rng.random() < 0.1 or number < 2:
                assert set(allowed(matcher)) >= set(tokens)
                may = {t for t in range(len(TOKENS)) if matcher.fork().advance(t)}
                assert set(allowed(matcher)) - {eos} == may, text
            token = rng.choices(tokens, [weights[t] for t in tokens])[0]
            if token == eos:
                break
            assert matcher.advance(token)
            text += TOKENS[token]
            budget -= 1
        assert budget >= 0
        validator.validate(json.loads(text))


def test_with_a_budget_one_token_short_there_is_no_mask_but_the_plan():
    """At the least budget each step leaves only ways that fit, and all of them end."""
    for schema in SCHEMAS:
        grammar_of = compiled(schema)
        matcher = grammar_of.matcher()
        for left in range(grammar_of.min_tokens, 0, -1):
            tokens = [t for t in allowed(matcher, left) if t < len(TOKENS)]
            for token in tokens:
                after = matcher.fork()
                assert after.advance(token)
                assert after.min_tokens <= left - 1, (schema, TOKENS[token])
            assert matcher.advance(tokens[0])
            if matcher.is_complete:
                break
        assert matcher.is_complete


# --- when two items are the same ----------------------------------------------------------------

REJECTED = (
    # text, offset of the byte that is too much
    ("[1,1]", 4),
    ("[1,1.0,2]", 6),
    ("[1,10e-1]", 8),
    ("[0,-0]", 5),
    ('["a","\\u0061"]', 12),
    ('["a","a"]', 7),
    ("[[1],[1]]", 7),
    ('[{"a":1,"b":2},{"b":2.0,"a":1}]', 29),
    ("[null,null]", 6),
    ("[true,false,t", 12),
    ('[{"x":["a","b"]},{"x":["a","b"]}]', 31),
)
ACCEPTED = (
    '[1,true,"1",[1]]',
    '[{"a":1},{"a":1,"b":1}]',
    "[[1,2],[2,1]]",
    "[0,false]",
    '["",[],{}]',
)


@pytest.mark.parametrize(("text", "offset"), REJECTED)
def test_the_same_value_is_found_however_it_is_spelled(text, offset):
    grammar_of = grammar.compile_json_schema(
        '{"uniqueItems":true}', BYTES, grammar.JsonOptions.recognise()
    )
    found = grammar.check_text(grammar_of, text.encode())
    assert (found.verdict, found.offset) == ("rejected", offset)
    matcher = grammar_of.matcher()
    assert matcher.advance_bytes(text.encode()) == offset


@pytest.mark.parametrize("text", ACCEPTED)
def test_different_values_are_different(text):
    grammar_of = grammar.compile_json_schema(
        '{"uniqueItems":true}', BYTES, grammar.JsonOptions.recognise()
    )
    assert grammar.check_text(grammar_of, text.encode()).verdict == "complete"


def test_a_check_stops_where_nothing_new_could_come_and_says_what_could():
    options = grammar.JsonOptions.recognise()
    schema = json.dumps(array({"enum": ["a", "b"]}))
    grammar_of = grammar.compile_json_schema(schema, BYTES, options)
    for text, offset, expected in (
        (b'["a","b",', 8, ("`]`", "whitespace")),
        (b'["a","a', 6, ('`b"`',)),
        (b'["b" , "b"]', 8, ('`a"`',)),
    ):
        found = grammar.check_text(grammar_of, text)
        assert (found.verdict, found.offset, found.expected) == ("rejected", offset, expected)
    found = grammar.check_text(grammar_of, b'["a",')
    assert (found.verdict, found.completion) == ("incomplete", b'"b"]')


def test_a_key_in_an_item_that_is_not_finished():
    grammar_of = grammar.compile_json_schema(
        '{"uniqueItems":true}', BYTES, grammar.JsonOptions.recognise()
    )
    found = grammar.check_text(grammar_of, b'[{"key":1},{"k')
    assert found.verdict == "incomplete"
    assert found.completion is not None
    whole = grammar.check_text(grammar_of, b'[{"key":1},{"k' + found.completion)
    assert whole.verdict == "complete"


# --- compiling ----------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_the_shortest_output_is_valid(schema):
    shortest = compiled(schema).shortest
    jsonschema.validate(json.loads(shortest.text), schema)


def test_the_items_of_a_shortest_array_are_the_shortest():
    assert len(compiled(array({"type": "string"}, minItems=30), BYTES).shortest.text) == 2 + 29 + (
        2 + 29 * 3  # one empty string, and 29 of one character
    )
    assert len(compiled(array({"type": "integer"}, minItems=12), BYTES).shortest.text) == (
        2 + 11 + 10 + 2 * 2
    )


def test_too_few_different_items_are_unsatisfiable_and_another_branch_is_taken():
    few = array({"enum": [1, 1.0, "x"]}, minItems=3)
    with pytest.raises(grammar.Unsatisfiable):
        compiled(few)
    assert compiled({"anyOf": [few, {"const": "another"}]}).shortest.text == b'"another"'


def test_an_array_that_requires_itself_inside_is_unsatisfiable():
    schema = {"$ref": "#/$defs/a", "$defs": {"a": array({"$ref": "#/$defs/a"}, minItems=2)}}
    with pytest.raises(grammar.Unsatisfiable):
        compiled(schema)
    schema["$defs"]["a"] = array(
        {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}, {"const": 7}]}, minItems=2
    )
    jsonschema.validate(json.loads(compiled(schema).shortest.text), schema)


@pytest.mark.parametrize(
    "schema",
    [
        array({"type": "integer"}, minItems=2, prefixItems=[{}]),
        array({"type": "integer"}, minItems=2, contains={"const": 1}),
        array({"type": "integer"}, contains={"minimum": 1}, minContains=2),
        {"not": {"uniqueItems": True}},
    ],
)
def test_what_is_not_looked_for_is_refused_by_name(schema):
    with pytest.raises(grammar.UnsupportedError) as caught:
        compiled(schema)
    assert caught.value.keyword == "uniqueItems"
    assert caught.value.location.endswith("/uniqueItems")
    refused = [each for each in grammar.explain(json.dumps(schema)) if each.treatment == "refused"]
    assert [each.location for each in refused] == [caught.value.location]


def test_very_many_different_items_are_too_complex():
    with pytest.raises(grammar.TooComplex) as caught:
        compiled(array({"type": "string"}, minItems=5_000))
    assert caught.value.limit == "max_solver_steps"


# --- the parts ----------------------------------------------------------------------------------


def test_forks_go_on_with_values_of_their_own():
    matcher = compiled(array({"type": "string"}), BYTES).matcher()
    assert matcher.advance_bytes(b'["a",') == 5
    left, right = matcher.fork(), matcher.fork()
    assert left.advance_bytes(b'"b",') == 4
    assert right.advance_bytes(b'"c",') == 4
    assert left.advance_bytes(b'"c","b"') == 6
    assert right.advance_bytes(b'"b","c"') == 6
    left.rollback(1)
    assert left.advance_bytes(b'"b"') == 2


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=30))
def test_values_seen_are_those_of_a_plain_set_in_every_branch(steps):
    branches = [(Seen({}, 0), frozenset())]
    for forks, value in steps:
        seen, plain = branches[-1] if not forks else branches[0]
        if value in plain:
            assert value in seen
            continue
        branches.append((seen.added(value, (b"%d" % value,)), plain | {value}))
        for each, expected in branches:
            assert {v for v in range(6) if v in each} == expected
            assert sorted(each.strings()) == sorted(b"%d" % v for v in expected)


def test_an_item_deeper_than_python_may_recurse_in_a_helper():
    frame = opened(1)
    for byte in b"[" * 500 + b"]" * 500:
        frame = frame.longer(byte)
    after = ended(frame)
    assert after is not None
    assert ended(after._replace(rope=frame.rope)) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1e22]) | st.text("ab"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
)


@given(JSON, JSON)
def test_keys_are_equal_exactly_where_values_are(left, right):
    first, second = (parse(json.dumps(each).encode()) for each in (left, right))
    assert (key_of(first) == key_of(second)) == (json_key(first) == json_key(second))
    shuffled = json.dumps(left, sort_keys=True).replace("1.0", "10e-1")
    assert key_of(parse(shuffled.encode())) == key_of(first)


def test_numbers_are_exact_and_those_beyond_decimals_are_texts():
    assert parse(b"1e2") == Decimal(100)
    assert parse(b"0.1") != parse(b"0.1000000000000000000000000000000000001")
    huge = b"1e" + b"9" * 30
    assert parse(huge) == parse(huge)
    assert parse(huge) != parse(b"2" + huge[1:])


@given(st.text(), st.booleans(), st.integers(0, 400))
def test_unescaping_agrees_with_the_library_up_to_where_it_is_cut(text, ascii_only, end):
    raw = json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "surrogatepass")
    whole, tail = unescaped(raw)
    assert (whole, tail) == (text.encode("utf-8", "surrogatepass"), b"")
    begun, tail = unescaped(raw[:end])
    assert whole.startswith(begun)
    assert raw[:end].endswith(tail)
