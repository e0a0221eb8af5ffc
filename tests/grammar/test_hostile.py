"""Constraints made to hurt: each works or is refused naming the limit, soon, and nothing recurses.

The project's test timeout is the clock: nothing here takes more than seconds.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import grammar
from grammar.schema import equality, evaluate, goal, node, shape
from grammar.schema.equality import json_key
from tests.naive import byte_vocabulary, mask, nasty_vocabulary

SMALL = grammar.Limits(
    max_schema_bytes=4_000,
    max_schema_depth=20,
    max_regex_bytes=200,
    max_regex_depth=20,
    max_nfa_states=400,
    max_dfa_states=200,
    max_choices=50,
    max_choice_bytes=500,
    max_branches=16,
    max_solver_steps=500,
)


def compile_schema(schema: Any, limits: grammar.Limits | None = None) -> grammar.Grammar:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return grammar.compile_json_schema(text, byte_vocabulary(), limits=limits)


def compiles(schema: Any) -> grammar.Grammar | None:
    """The grammar, or None when it is refused as too complex, naming a limit."""
    try:
        return compile_schema(schema)
    except grammar.TooComplex as error:
        assert error.limit
        return None


def accepts(compiled: grammar.Grammar, text: str) -> bool:
    matcher = compiled.matcher()
    return matcher.advance_bytes(text.encode()) == len(text.encode()) and matcher.is_complete


def play(compiled: grammar.Grammar, steps: int = 12) -> None:
    """A few random tokens, then the witness."""
    rng, matcher = random.Random(1), compiled.matcher()
    for _ in range(steps):
        tokens = [t for t in mask(matcher) if t not in compiled.vocabulary.eos_ids]
        if not tokens:
            return
        assert matcher.advance(rng.choice(tokens))
    rest = matcher.witness()
    assert matcher.advance_bytes(rest) == len(rest)
    assert matcher.is_complete


# --- counts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2**31, 2**63, 2**64 - 1, 10**40, 1e300])
def test_huge_upper_counts_cost_nothing(count):
    text = json.dumps({"type": "array", "items": {"type": "string"}})
    schema = json.loads(text) | {
        "maxItems": count,
        "items": {"type": "string", "maxLength": count},
    }
    compiled = compile_schema(schema)
    assert accepts(compiled, '["abc","",""]')
    assert compiled.nbytes < 3_000_000
    play(compiled)


@pytest.mark.parametrize("count", [10**5, 2**31, 2**64 - 1, 10**40])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "minItems": 0},
        {"type": "array", "items": {"type": "array", "items": {"const": 1}}, "minItems": 0},
        {"type": "object", "properties": {"a": {"type": "array", "minItems": 0}}},
        {"type": "string", "minLength": 0},
    ],
)
def test_huge_lower_counts_are_a_large_bound_or_refused(schema, count):
    text = json.dumps(schema)
    for name in ("minItems", "minLength"):
        text = text.replace(f'"{name}": 0', f'"{name}": {count}')
    schema = json.loads(text)
    try:
        compiled = compile_schema(schema)
    except (grammar.TooComplex, grammar.Unsatisfiable) as error:
        assert error.message
        return
    if "properties" in schema:
        assert compiled.min_tokens == 2  # the member is optional
        assert accepts(compiled, "{}")
    else:
        assert compiled.min_tokens > count


def test_a_count_that_leaves_no_room():
    with pytest.raises(grammar.Unsatisfiable):
        compile_schema({"type": "array", "minItems": 2**64 - 1, "maxItems": 3})
    with pytest.raises(grammar.Unsatisfiable):
        compile_schema({"type": "string", "minLength": 6, "maxLength": 5})


def test_huge_numbers_in_bounds():
    for schema in (
        {"type": "integer", "minimum": -(10**30), "maximum": 10**30},
        {"type": "number", "minimum": 1e-300, "maximum": 1e300},
        {"type": "integer", "multipleOf": 10**9},
        {"type": "number", "multipleOf": 1e-30},
        {"type": "integer", "multipleOf": 999_983, "minimum": 1},
        {"const": 10**400},
        {"minimum": float("1e308"), "type": "number"},
    ):
        try:
            play(compile_schema(schema))
        except grammar.GrammarError as error:  # 10**400 is no number that a reader can hold
            assert error.message


def test_numbers_too_long_to_read():
    for text in ('{"minimum":1' + "0" * 6_000 + "}", '{"maximum":1e999999999}',
                 '{"multipleOf":1e-999999}', '{"const":1e400000}', '{"minLength":1e999999}',
                 '{"maxItems":1e99999999}'):  # fmt: skip
        try:
            play(compile_schema(text))
        except grammar.GrammarError as error:
            assert error.message


# --- many ------------------------------------------------------------------------------------


def test_an_enum_of_5000_values():
    values = [f"value number {i}" for i in range(4_000)] + list(range(1_000))
    compiled = compile_schema({"type": "array", "items": {"enum": values}})
    assert accepts(compiled, '["value number 3999",17,"value number 12"]')
    assert not accepts(compiled, '["value number 4000"]')
    assert compiled.nbytes < 150_000_000
    play(compiled)


def test_an_enum_of_many_objects():
    compiled = compiles({"enum": [{"k": i, "v": [i, str(i)]} for i in range(200)]})
    if compiled is not None:
        assert accepts(compiled, '{"k":199,"v":[199,"199"]}')
        assert not accepts(compiled, '{"k":199,"v":[198,"199"]}')
        play(compiled)


def test_the_values_of_an_enum_are_not_compared_pair_by_pair(monkeypatch):
    asked = []
    for module in (equality, evaluate, goal, node, shape):
        monkeypatch.setattr(module, "json_key", lambda value: asked.append(0) or json_key(value))
    counts = []
    for size in (200, 400):
        asked.clear()
        compile_schema({"enum": [{"k": i, "v": [i, str(i)]} for i in range(size)]})
        counts.append(len(asked))
    assert 0 < counts[1] <= 3 * counts[0]


@pytest.mark.parametrize("order", ["schema", "any"])
def test_300_optional_keys(order):
    schema = {
        "type": "object",
        "properties": {f"key_{i}": {"type": "integer"} for i in range(300)},
        "required": ["key_150", "key_299"],
        "additionalProperties": False,
    }
    options = grammar.JsonOptions(property_order=order)
    compiled = grammar.compile_json_schema(json.dumps(schema), nasty_vocabulary(), options)
    assert accepts(compiled, '{"key_0":1,"key_150":2,"key_299":3}')
    assert accepts(compiled, '{"key_299":1,"key_150":2}') == (order == "any")
    assert not accepts(compiled, '{"key_150":1,"key_150":2,"key_299":1}')
    matcher = compiled.matcher()
    text = "{" + ",".join(f'"key_{i}":{i}' for i in range(300))
    assert matcher.advance_bytes(text.encode()) == len(text)
    assert matcher.advance_bytes(b",") == 0
    play(compiled, 60)


def test_10000_required_keys():
    names = [f"k{i}" for i in range(10_000)]
    compiled = compile_schema({"type": "object", "required": names})
    assert compiled.min_tokens > 60_000
    play(compile_schema({"type": "object", "required": names[:1_000]}))


def test_choices_of_the_largest_size():
    vocabulary = byte_vocabulary()
    choices = [f"{i:06d}" for i in range(2_000)]
    compiled = grammar.compile_choice(choices, vocabulary)
    assert compiled.min_tokens == 6
    with pytest.raises(grammar.TooComplex) as caught:
        grammar.compile_choice([str(i) for i in range(300_000)], vocabulary)
    assert caught.value.limit == "max_choices"
    with pytest.raises(grammar.TooComplex) as caught:
        grammar.compile_choice(["x" * (9 << 20)], vocabulary)
    assert caught.value.limit == "max_choice_bytes"


@pytest.mark.parametrize("keyword", ["anyOf", "allOf"])
def test_combinators_that_multiply(keyword):
    branch = {
        "anyOf": [
            {"properties": {f"p{j}": {"minimum": k}}}
            for j, k in zip("abcd", range(4), strict=True)
        ]
    }
    schema: dict[str, Any] = {keyword: [branch | {"title": str(i)} for i in range(12)]}
    compiled = compiles(schema)
    if compiled is not None:
        play(compiled)


def test_an_anyof_of_a_hundred_objects():
    schema = {
        "anyOf": [
            {
                "type": "object",
                "properties": {
                    "kind": {"const": f"kind{i}"},
                    "v": {"type": "integer", "minimum": i},
                },
                "required": ["kind", "v"],
                "additionalProperties": False,
            }
            for i in range(100)
        ]
    }
    compiled = compile_schema(schema)
    assert accepts(compiled, '{"kind":"kind42","v":42}')
    assert not accepts(compiled, '{"kind":"kind42","v":41}')
    play(compiled, 30)


# --- deep ------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [300, 2_000, 100_000])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"items":', "}"),
        ('{"type":"object","properties":{"a":', "}}"),
        ('{"allOf":[', "]}"),
        ('{"anyOf":[{"type":"null"},', "]}"),
        ('{"const":[', "]}"),
        ("[", "]"),
    ],
)
def test_deep_schemas(before, after, depth):
    middle = '{"type":"null"}' if before.startswith("{") else ""
    try:
        compiled = compile_schema(before * depth + middle + after * depth)
    except grammar.TooComplex as error:
        assert error.limit == "max_schema_depth"
    except grammar.GrammarError:
        assert before in ("[", '{"const":[')  # no schema at all, however deep
    else:
        assert depth < 2_000
        play(compiled)


@pytest.mark.parametrize("length", [500, 2_000, 10_000])
@pytest.mark.parametrize("shape", ["ref", "all", "any", "required", "items"])
def test_chains_of_references(shape, length):
    def link(i: int) -> dict[str, Any]:
        ref = {"$ref": f"#/$defs/d{i + 1}"}
        links: dict[str, dict[str, Any]] = {
            "ref": ref,
            "all": {"allOf": [ref]},
            "any": {"anyOf": [ref, {"const": i}]},
            "required": {"type": "object", "properties": {"a": ref}, "required": ["a"]},
            "items": {"type": "array", "items": ref},
        }
        return links[shape]

    defs: dict[str, Any] = {f"d{i}": link(i) for i in range(length)}
    defs[f"d{length}"] = {"type": "null"}
    compiled = compiles({"$defs": defs, "$ref": "#/$defs/d0"})
    if compiled is not None:
        play(compiled)


def test_texts_as_deep_as_the_limit():
    """Depth of the text is bounded: there the only way on is the way out."""
    limits = grammar.Limits(max_depth=20)
    schema = {
        "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}},
        "$ref": "#/$defs/t",
    }
    for tree in (schema, {"type": ["array", "object"]}, {}):
        compiled = compile_schema(tree, limits)
        matcher = compiled.matcher()
        taken = matcher.advance_bytes(b"[" * 40)
        assert 19 <= taken <= 21
        assert mask(matcher)
        rest = matcher.witness()
        assert matcher.advance_bytes(rest) == len(rest)
        assert matcher.is_complete
        assert compiled.pruned > 0


def test_a_text_deep_and_long():
    compiled = compile_schema({})
    matcher = compiled.matcher()
    text = b'{"a":[' * 250 + b"1" + b"]}" * 250
    assert matcher.advance_bytes(text) == len(text)
    assert matcher.is_finished
    matcher = compiled.matcher()
    for _ in range(100):
        assert matcher.advance_bytes(b"[[[") == 3
        assert matcher.min_tokens >= 1
    assert len(matcher.witness()) == 300


# --- large -----------------------------------------------------------------------------------


def test_a_schema_of_a_megabyte():
    leaf = {"type": "string", "title": "x" * 40}
    schema = {
        "type": "object",
        "properties": {f"property number {i}": leaf for i in range(12_000)},
        "required": ["property number 11999"],
    }
    text = json.dumps(schema)
    assert len(text) > 1_000_000
    compiled = compile_schema(text)
    assert accepts(compiled, '{"property number 11999":""}')
    play(compiled, 40)


def test_a_megabyte_of_definitions_that_nobody_uses():
    defs = {f"d{i}": {"enum": [f"value {i} {j}" for j in range(20)]} for i in range(2_500)}
    text = json.dumps({"$defs": defs, "type": "integer"})
    assert len(text) > 800_000
    play(compile_schema(text))


def test_a_long_constant():
    compiled = compile_schema({"const": "x" * 15_000})
    matcher = compiled.matcher()
    assert matcher.min_tokens == 15_002
    assert 0 < len(matcher.forced_tokens()) <= 15_002
    play(compiled)
    for schema in ({"const": "x" * 30_000}, {"const": [["x" * 30_000]]}):
        with pytest.raises(grammar.TooComplex) as caught:
            compile_schema(schema)
        assert caught.value.limit == "max_dfa_states"
    optional = compile_schema({"type": "object", "properties": {"a": {"const": "x" * 30_000}}})
    assert optional.matcher().advance_bytes(b'{"a"') == 1  # no dead end
    play(compile_schema({"enum": ["x" * 30_000, "y", "z" * 30_000]}))


def test_alternatives_beyond_what_one_automaton_tells_apart():
    """40 overlapping ranges, each with a key of its own: what cannot be built is left out."""
    for value in ({"type": "integer"}, {"type": "number", "multipleOf": 0.5}):
        schema = {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"v": value | {"minimum": i, "maximum": i + 60}, f"k{i}": {}},
                    "required": ["v", f"k{i}"],
                    "additionalProperties": False,
                }
                for i in range(40)
            ]
        }
        compiled = compile_schema(schema)
        for _ in range(3):
            play(compiled, 30)


# --- regexes ----------------------------------------------------------------------------------

REGEXES = [
    "(" * 10_000 + "a" + ")" * 10_000,
    "(" * 10_000,
    "(?:" * 3_000 + "a" + ")*" * 3_000,
    "[" * 10_000,
    "a{1000000}",
    "a{0,2147483647}",
    "(a{1,100}){1,100}",
    "((a{1,50}){1,50}){1,50}",
    "(a|b)*a(a|b){18}",
    "(.*a){12}",
    "a" * 60_000,
    "|".join(f"word{i}" for i in range(5_000)),
    r"\p{L}{1,200}\p{N}{1,200}",
    "(?=" * 500 + "a" + ")" * 500 + "a",
    "(a?){200}a{200}",
    "(a*)*" * 300,
    "x{2}{3}{4}{5}",
    "(^a|b$)" * 200,
]


@pytest.mark.parametrize("number", range(len(REGEXES)))
def test_hostile_regexes(number):
    pattern = REGEXES[number]
    try:
        compiled = grammar.compile_regex(pattern, byte_vocabulary())
    except grammar.TooComplex as error:
        assert error.limit
    except grammar.GrammarError as error:
        assert error.message
    else:
        play(compiled)
    try:
        compile_schema({"type": "string", "pattern": pattern, "maxLength": 30})
    except grammar.GrammarError as error:
        assert error.location.startswith(("/pattern", ""))


# --- the limits themselves ---------------------------------------------------------------------

OVER = [
    ("max_schema_bytes", {"title": "x" * 5_000}),
    ("max_schema_depth", json.loads('{"items":' * 30 + "{}" + "}" * 30)),
    ("max_regex_bytes", {"pattern": "a" * 300}),
    ("max_regex_depth", {"pattern": "(" * 30 + "a" + ")" * 30}),
    ("max_choices", {"enum": list(range(60))}),
    ("max_branches", {"anyOf": [{"const": i} for i in range(20)]}),
]


@pytest.mark.parametrize(("limit", "schema"), OVER, ids=[limit for limit, _ in OVER])
def test_each_limit_is_named_when_exceeded(limit, schema):
    with pytest.raises(grammar.TooComplex) as caught:
        compile_schema(schema, SMALL)
    assert caught.value.limit == limit
    compile_schema(schema)


def test_limits_of_regexes_and_choices_are_named_too():
    vocabulary = byte_vocabulary()
    for limit, pattern in (
        ("max_regex_bytes", "a" * 300),
        ("max_regex_depth", "(" * 30 + "a" + ")" * 30),
        ("max_nfa_states", "((ab){90}){9}"),
        ("max_dfa_states", "(a|b)*a(a|b){9}"),
    ):
        with pytest.raises(grammar.TooComplex) as caught:
            grammar.compile_regex(pattern, vocabulary, SMALL)
        assert caught.value.limit == limit
    for limit, choices in (
        ("max_choices", [str(i) for i in range(60)]),
        ("max_choice_bytes", ["x" * 600]),
    ):
        with pytest.raises(grammar.TooComplex) as caught:
            grammar.compile_choice(choices, vocabulary, SMALL)
        assert caught.value.limit == limit


def test_long_names_around_many_subschemas_are_refused_by_the_limit_they_exceed():
    """Every subschema knows its pointer: a name of 100 kB above 10,000 of them is a gigabyte."""
    inner = {f"a{i}": {"type": "string"} for i in range(10_000)}
    schema = {"properties": {"x" * 100_000: {"properties": inner}}}
    with pytest.raises(grammar.TooComplex) as caught:
        grammar.compile_json_schema(json.dumps(schema), byte_vocabulary())
    assert caught.value.limit == "max_pointer_bytes"


def test_the_first_bound_of_a_wide_schema_comes_in_slices():
    members = {f"m{j}": {"type": "string", "minLength": j} for j in range(10)}
    item = {"type": "object", "properties": members, "required": ["m1"]}
    schema = {"type": "object", "properties": {f"k{i}": item for i in range(2_000)}}
    compiled = grammar.compile_json_schema(json.dumps(schema), byte_vocabulary())
    before = compiled.arena.num_states
    assert sum(1 for _ in compiled.prepare()) > 10
    made = compiled.arena.num_states - before
    assert compiled.min_tokens == 2
    assert made < 20_000
    assert compiled.arena.num_states - before == made, "the bound was not ready"


def test_very_many_dynamic_scopes_are_too_complex():
    """Each of 16 resources leads to all: 65,536 sets of those on the way."""
    names = [f"r{i}" for i in range(16)]
    ways = {name: {"$ref": name} for name in names}
    resources = {
        name: {"$id": name, "$dynamicAnchor": f"a-{name}", "properties": ways} for name in names
    }
    schema = {"$defs": resources, "properties": {**ways, "x": {"$dynamicRef": "r0#a-r0"}}}
    with pytest.raises(grammar.TooComplex) as caught:
        compile_schema(schema)
    assert caught.value.limit == "max_branches"
