"""The matcher's contract, each constraint error's class and place, and compiling itself.

Small vocabularies only: all of it must hold without the JIT too (test_without_jit.py).
"""

from __future__ import annotations

import json
import random
import threading
from typing import Any

import numpy as np
import pytest

import grammar
from tests.constraints import random_constraint
from tests.naive import byte_vocabulary, lacking_vocabulary, mask, nasty_vocabulary, random_walk

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
MAP = {"type": "object", "additionalProperties": {"type": ["integer", "object"]}}


def schema_grammar(schema: Any, vocabulary=None, **options: Any) -> grammar.Grammar:
    return grammar.compile_json_schema(
        json.dumps(schema), vocabulary or nasty_vocabulary(), grammar.JsonOptions(**options)
    )


def read(compiled: grammar.Grammar, text: str | bytes) -> grammar.Matcher:
    """The matcher after ``text``, all of which it must take."""
    data = text.encode() if isinstance(text, str) else text
    matcher = compiled.matcher()
    assert matcher.advance_bytes(data) == len(data), f"{data!r}"
    return matcher


def accepts(compiled: grammar.Grammar, text: str | bytes) -> bool:
    data = text.encode() if isinstance(text, str) else text
    matcher = compiled.matcher()
    return matcher.advance_bytes(data) == len(data) and matcher.is_complete


def state(matcher: grammar.Matcher) -> tuple[Any, ...]:
    """Everything that one can see of a position."""
    return (
        mask(matcher),
        mask(matcher, matcher.min_tokens + 1),
        matcher.min_tokens,
        matcher.is_complete,
        matcher.is_finished,
        matcher.forced_tokens(),
        matcher.witness(),
    )


# --- moving -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_rollback_is_replay(seed):
    rng = random.Random(seed)
    constraint = random_constraint(rng, nasty_vocabulary())
    matcher = constraint.compiled.matcher()
    tokens: list[int] = []
    for _ in range(30):
        choices = mask(matcher)
        if tokens and (not choices or rng.random() < 0.35):
            back = rng.randint(1, len(tokens))
            matcher.rollback(back)
            del tokens[len(tokens) - back :]
            replay = constraint.compiled.matcher()
            assert all(replay.advance(t) for t in tokens)
            assert mask(matcher) == mask(replay), constraint.name
            assert matcher.is_complete == replay.is_complete
        elif choices:
            tokens.append(rng.choice(choices))
            assert matcher.advance(tokens[-1])


def test_rollback_restores_used_keys_and_the_end():
    matcher = read(schema_grammar(MAP), '{"a":1')
    before = state(matcher)
    for byte in b',"b":{"a":2},"':
        assert matcher.advance_bytes(bytes([byte])) == 1
    assert matcher.advance_bytes(b'b"') == 1  # b is used
    matcher.rollback(1 + len(b',"b":{"a":2},"'))
    assert state(matcher) == before
    assert matcher.advance_bytes(b',"b":3}') == 7
    (eos, *_) = matcher.grammar.vocabulary.eos_ids
    assert matcher.advance(eos)
    assert matcher.is_finished
    assert mask(matcher) == []
    assert not matcher.advance(eos)
    matcher.rollback(2)
    assert state(matcher) == before
    with pytest.raises(ValueError, match="start"):
        matcher.rollback(99)
    assert state(matcher) == before


@pytest.mark.parametrize("seed", range(6))
def test_forks_are_independent(seed):
    rng = random.Random(f"fork {seed}")
    constraint = random_constraint(rng, nasty_vocabulary())
    for matcher in random_walk(constraint.compiled, rng, 6):
        before = state(matcher)
        for _ in range(3):
            fork = matcher.fork()
            assert state(fork) == before
            for _ in range(3):
                tokens = mask(fork)
                if tokens:
                    fork.advance(rng.choice(tokens))
        assert state(matcher) == before, constraint.name


def test_a_fork_costs_the_same_after_a_long_history():
    """It shares the history: nothing that grows with it is copied."""
    compiled = schema_grammar({"type": "array"})
    matcher = read(compiled, "[")
    for _ in range(3_000):
        assert matcher.advance_bytes(b"1,") == 2
    fork = matcher.fork()
    sizes = [
        len(v) for v in vars(fork).values() if isinstance(v, list | dict | bytes | np.ndarray)
    ]
    assert max(sizes, default=0) < 100
    fork.rollback(3_000)
    assert fork.advance_bytes(b"]") == 1
    assert matcher.advance_bytes(b"2]") == 2


def test_reset_is_a_new_matcher():
    compiled = schema_grammar(MAP)
    matcher = read(compiled, '{"a":1,"b":2}')
    assert matcher.advance(compiled.vocabulary.eos_ids[0])
    matcher.reset()
    assert state(matcher) == state(compiled.matcher())
    assert matcher.advance_bytes(b'{"a":1}') == 7


def test_eos_is_allowed_exactly_when_the_text_is_complete():
    compiled = schema_grammar({"type": "integer"})
    vocabulary = compiled.vocabulary
    assert len(vocabulary.eos_ids) == 2
    matcher = compiled.matcher()
    for eos in vocabulary.eos_ids:
        assert not matcher.advance(eos)
    matcher = read(compiled, "12")
    assert matcher.is_complete
    assert not matcher.is_finished
    for eos in vocabulary.eos_ids:
        fork = matcher.fork()
        assert eos in mask(fork)
        assert fork.advance(eos)
        assert fork.is_finished
        assert fork.min_tokens == 0
        assert fork.advance_bytes(b"3") == 0
        assert fork.forced_tokens() == []
    assert matcher.advance_bytes(b"3") == 1
    assert read(schema_grammar({"const": 12}), "12").is_finished


@pytest.mark.parametrize("seed", range(8))
def test_a_forbidden_token_changes_nothing(seed):
    rng = random.Random(f"forbidden {seed}")
    constraint = random_constraint(rng, nasty_vocabulary())
    size = constraint.compiled.vocabulary.logit_size
    for matcher in random_walk(constraint.compiled, rng, 6):
        before = state(matcher)
        forbidden = set(range(size)) - set(before[0])
        for token in [*rng.sample(sorted(forbidden), 25), -1, size, size + 40, 10**9]:
            assert not matcher.advance(token), constraint.name
        assert state(matcher) == before


def test_bytes_are_taken_as_far_as_they_go():
    compiled = schema_grammar({"enum": ["abc", "abd"]})
    matcher = compiled.matcher()
    assert matcher.advance_bytes(b"") == 0
    assert matcher.advance_bytes(b'"abx') == 3
    assert matcher.advance_bytes(b'c"more') == 2
    assert matcher.is_finished
    matcher.rollback(2)
    assert state(matcher) == state(compiled.matcher())


def test_tokens_and_bytes_lead_to_the_same_place():
    rng = random.Random(5)
    for _ in range(10):
        constraint = random_constraint(rng, nasty_vocabulary())
        text = b""
        for matcher in random_walk(constraint.compiled, rng, 6):
            byte_wise = read(constraint.compiled, text)
            assert mask(matcher) == mask(byte_wise), constraint.name
            tokens = [t for t in mask(matcher) if t not in matcher.grammar.vocabulary.eos_ids]
            if not tokens:
                break
            text = text + matcher.grammar.vocabulary.token_bytes(tokens[0])
            # the walk goes its own way: follow one of our own from here
            if byte_wise.advance(tokens[0]):
                assert mask(byte_wise) == mask(read(constraint.compiled, text))
            break


def test_content_is_what_stays_inside_a_string():
    compiled = schema_grammar(PERSON)
    vocabulary = compiled.vocabulary
    row = np.zeros(vocabulary.words, np.uint32)

    def content(text: str) -> set[bytes]:
        read(compiled, text).fill_penalizable(row)
        bits = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        return {vocabulary.token_bytes(t) for t in bits.tolist()}

    inside = content('{"name":"a')
    assert {b"abc", b"name", b" "} <= inside
    assert not {b'"', b'","', b'"}', b"{}"} & inside - {b"{}"}
    assert content('{"name":"a"') == set()
    assert content('{"na') == set()


# --- keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("whitespace", ["compact", "single_space", "flexible"])
def test_no_object_has_a_key_twice(order, whitespace):
    compiled = schema_grammar(MAP, property_order=order, whitespace=whitespace)
    space = " " if whitespace == "single_space" else ""
    comma, colon = "," + space, ":" + space

    def text(*pieces: str) -> str:
        return "".join(pieces).replace(",", comma).replace(":", colon)

    assert not accepts(compiled, text('{"k":1,"k":2}'))
    assert not accepts(compiled, text('{"k":1,"x":{},"k":2}'))
    assert not accepts(compiled, text('{"x":{"k":1,"k":2}}'))
    assert not accepts(compiled, text('{"x":{"k":{},"j":{},"k":2}}'))
    assert not accepts(compiled, text('{"x":{"k":1},"k":1,"x":3}'))
    assert accepts(compiled, text('{"k":1,"x":{"k":{"k":1}},"kk":1,"":0}'))
    assert accepts(compiled, text('{"x":{"k":1},"y":{"k":1,"x":2}}'))


def test_whitespace_around_keys_neither_repeats_nor_hides_them():
    compiled = schema_grammar(MAP, whitespace="flexible")
    assert accepts(compiled, '{ "k"  \n : 1 , "j" \t:\t{ "k" : 2 } }')
    assert not accepts(compiled, '{ "k"  \n : 1 , "k" \t:\t2 }')


@pytest.mark.parametrize("order", ["schema", "any"])
def test_an_additional_key_is_no_declared_one(order):
    schema = {"properties": {"a": {"const": 1}}, "additionalProperties": {"const": 2}}
    schema |= {"type": "object"}
    compiled = schema_grammar(schema, property_order=order)
    assert accepts(compiled, '{"a":1,"b":2,"aa":2}')
    assert not accepts(compiled, '{"a":2}')
    assert not accepts(compiled, '{"a":1,"a":2}')
    assert not accepts(compiled, '{"a":1,"a":1}')
    assert not accepts(compiled, '{"\\u0061":2}')
    assert accepts(compiled, '{"b":2,"a":1}') == (order == "any")


def test_property_order():
    texts = ('{"name":"x","age":1,"tags":["a"]}', '{"name":"x","age":1}')
    other = ('{"age":1,"name":"x"}', '{"tags":[],"age":1,"name":"x"}')
    for order in ("schema", "any"):
        compiled = schema_grammar(PERSON, property_order=order)
        assert all(accepts(compiled, text) for text in texts)
        assert all(accepts(compiled, text) == (order == "any") for text in other)
        assert not accepts(compiled, '{"name":"x"}')
        assert not accepts(compiled, '{"name":"x","age":1,"age":1}')


def test_in_order_no_other_key_comes_before_a_required_one():
    """It could never be followed by the required one: a dead end."""
    schema = {"type": "object", "properties": {"next": {}, "b": {}}, "required": ["next", "b"]}
    compiled = schema_grammar(schema, additional_properties_default="allow")
    assert compiled.matcher().advance_bytes(b'{"zz') == 2
    assert compiled.matcher().advance_bytes(b'{"b') == 2
    assert accepts(compiled, '{"next":1,"b":2,"zz":3}')
    assert not accepts(compiled, '{"next":1,"zz":3,"b":2}')


# --- options ----------------------------------------------------------------------------------


def test_whitespace():
    schema = {"type": "array", "items": MAP}
    compact = '[{"a":1,"b":2},{}]'
    spaced = '[{"a": 1, "b": 2}, {}]'
    pretty = '[\n {\t"a" :\r\n1,  "b":2 }  , { }\n]'
    accepted = {
        "compact": (compact,),
        "single_space": (spaced,),
        "flexible": (compact, spaced, pretty),
    }
    for mode, texts in accepted.items():
        compiled = schema_grammar(schema, whitespace=mode)
        for text in (compact, spaced, pretty):
            assert accepts(compiled, text) == (text in texts), (mode, text)
        for text in (" []", "[] ", "[\v]", "[\xa0]"):
            assert not accepts(compiled, text)


@pytest.mark.parametrize("cap", [0, 1, 3])
def test_a_gap_of_flexible_whitespace_has_a_cap(cap):
    compiled = schema_grammar(MAP, whitespace="flexible", max_whitespace_run=cap)
    for length in range(6):
        gap = (" \n\t\r" * 2)[:length]
        for text in (f"{{{gap}}}", f'{{{gap}"a":1}}', f'{{"a"{gap}:1}}', f'{{"a":{gap}1}}'):
            assert accepts(compiled, text) == (length <= cap), text
        for text in (f'{{"a":1{gap}}}', f'{{"a":1,{gap}"b":1}}', f'{{"a":{{}}{gap},"b":1}}'):
            assert accepts(compiled, text) == (length <= cap), text


def test_ascii_only():
    for schema in ({"type": "string"}, {"enum": ["é", "\U0001f600"]}):
        compiled = schema_grammar(schema, ascii_only=True)
        assert not accepts(compiled, '"é"')
        assert accepts(compiled, '"\\u00e9"')
        assert accepts(compiled, '"\\ud83d\\ude00"')
        assert not accepts(compiled, '"\\ud83d"')
    compiled = schema_grammar({"type": "string"})
    assert accepts(compiled, '"é"')


@pytest.mark.parametrize("default", ["auto", "allow", "forbid"])
def test_what_absent_additional_properties_mean(default):
    named = schema_grammar(
        {"type": "object", "properties": {"a": {}}}, additional_properties_default=default
    )
    assert accepts(named, '{"a":1}')
    assert accepts(named, '{"a":1,"b":1}') == (default == "allow")
    unnamed = schema_grammar({"type": "object"}, additional_properties_default=default)
    assert accepts(unnamed, '{"b":1}')  # it is about objects that name some keys
    said = schema_grammar(
        {"type": "object", "properties": {"a": {}}, "additionalProperties": True},
        additional_properties_default=default,
    )
    assert accepts(said, '{"a":1,"b":1}')
    required = schema_grammar(
        {"type": "object", "properties": {"a": {}}, "required": ["b"]},
        additional_properties_default=default,
    )
    assert accepts(required, '{"b":1}')


def test_formats():
    enforced = schema_grammar({"type": "string", "format": "date"})
    assert accepts(enforced, '"2024-02-29"')
    assert not accepts(enforced, '"2023-02-29"')
    annotated = schema_grammar({"type": "string", "format": "date"}, formats="annotate")
    assert accepts(annotated, '"tomorrow"')
    assert annotated.diagnostics[0].location == "/format"
    unknown = schema_grammar({"type": "array", "items": {"format": "colour"}})
    assert accepts(unknown, '["red"]')
    assert unknown.diagnostics[0].location == "/items/format"
    assert "colour" in unknown.diagnostics[0].message


def test_closing_an_open_object_is_a_diagnostic():
    schema = {"type": "object", "properties": {"in": {"properties": {"a": {}}}}}
    closed = schema_grammar(schema)
    assert {d.location for d in closed.diagnostics} == {"", "/properties/in"}
    assert schema_grammar(schema, additional_properties_default="allow").diagnostics == []


# --- errors -----------------------------------------------------------------------------------

SYNTAX = grammar.ConstraintSyntaxError
ERRORS = [
    ('{"type":', SYNTAX, "@8"),
    ('{"é":1,}', SYNTAX, "@8"),
    ("[]", SYNTAX, ""),
    ('"x"', SYNTAX, ""),
    ('{"minLength":NaN}', SYNTAX, "@0"),
    ('{"type":"text"}', SYNTAX, "/type"),
    ('{"properties":{"a/b":{"items":3}}}', SYNTAX, "/properties/a~1b/items"),
    ('{"properties":{"a":{"minLength":-1}}}', SYNTAX, "/properties/a/minLength"),
    ('{"required":true}', SYNTAX, "/required"),
    ('{"enum":1}', SYNTAX, "/enum"),
    ('{"anyOf":[]}', SYNTAX, "/anyOf"),
    ('{"anyOf":[{},{"pattern":"(a"}]}', SYNTAX, "/anyOf/1/pattern@0"),
    ('{"$ref":"#/$defs/none"}', SYNTAX, "/$ref"),
    ('{"multipleOf":0}', SYNTAX, "/multipleOf"),
    ('{"items":{"maximum":"3"}}', SYNTAX, "/items/maximum"),
    (b'{"title":"\xff"}', SYNTAX, "@10"),
    ('{"uniqueItems":1}', SYNTAX, "/uniqueItems"),
    ('{"not":{"uniqueItems":true}}', grammar.UnsupportedError, "/not/uniqueItems"),
    ('{"items":{"uniqueItems":true,"minItems":2,"prefixItems":[{}]}}', grammar.UnsupportedError,
     "/items/uniqueItems"),
    ('{"type":"array","uniqueItems":true,"minItems":3,"items":{"type":"boolean"}}',
     grammar.Unsatisfiable, ""),
    ('{"not":{"format":"email"}}', grammar.UnsupportedError, "/not/format"),
    ('{"$ref":"http://x.example/s"}', grammar.UnsupportedError, "/$ref"),
    ('{"items":{"pattern":"a(?<=b)"}}', grammar.UnsupportedError, "/items/pattern@1"),
    ("false", grammar.Unsatisfiable, ""),
    ('{"enum":[]}', grammar.Unsatisfiable, ""),
    ('{"type":"integer","minimum":3,"maximum":2}', grammar.Unsatisfiable, ""),
    ('{"allOf":[{"type":"string"},{"type":"null"}]}', grammar.Unsatisfiable, ""),
    ('{"$ref":"#"}', grammar.Unsatisfiable, ""),
    ('{"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#/$defs/a"}}}',
     grammar.Unsatisfiable, "/$defs/a"),
    ('{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}',
     grammar.Unsatisfiable, ""),
    ('{"type":"array","items":{"$ref":"#"},"minItems":1}', grammar.Unsatisfiable, ""),
    ('{"type":"string","pattern":"^a$","maxLength":0}', grammar.Unsatisfiable, ""),
    ('{"type":"object","properties":{"a":false},"required":["a"]}', grammar.Unsatisfiable, ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "error", "location"), ERRORS)
def test_errors_have_their_class_and_place(text, error, location):
    with pytest.raises(grammar.GrammarError) as caught:
        grammar.compile_json_schema(text, byte_vocabulary())
    assert type(caught.value) is error
    assert caught.value.location == location
    assert caught.value.message


def test_what_is_not_enforced_is_refused_by_name():
    schema = {"properties": {"x": {"not": {"uniqueItems": True}}}}
    with pytest.raises(grammar.UnsupportedError) as caught:
        grammar.compile_json_schema(json.dumps(schema), byte_vocabulary())
    assert caught.value.keyword == "uniqueItems"
    assert caught.value.location == "/properties/x/not/uniqueItems"
    # as data or as a name it is nothing of the kind
    for harmless in ({"const": {"uniqueItems": True}}, {"properties": {"uniqueItems": {}}}):
        grammar.compile_json_schema(json.dumps(harmless), byte_vocabulary())


def test_long_bounds_that_differ_leave_the_strings_within_all_of_them():
    """Seen in the wild: one branch bounds a string by 32,767 characters, another one not."""
    schema = {"anyOf": [{"properties": {"a": {"maxLength": 32_767}}}, {"required": ["b"]}]}
    options = grammar.JsonOptions.recognise()
    compiled = grammar.compile_json_schema(json.dumps(schema), byte_vocabulary(), options)
    for text in ('{"a":"some text"}', '{"a":"text","b":1}', '{"b":1,"a":"text"}'):
        matcher = compiled.matcher()
        assert matcher.advance_bytes(text.encode()) == len(text)
        assert matcher.is_complete


def test_a_reference_that_leads_back_through_not_is_an_error_of_its_own():
    for schema in ({"not": {"$ref": "#"}}, {"if": {"$ref": "#"}, "then": False}):
        with pytest.raises(grammar.Unsatisfiable, match="without consuming"):
            grammar.compile_json_schema(json.dumps(schema), byte_vocabulary())


def test_regex_and_choice_errors():
    vocabulary = byte_vocabulary()
    with pytest.raises(grammar.ConstraintSyntaxError) as caught:
        grammar.compile_regex("ab(c", vocabulary)
    assert caught.value.location == "@2"
    with pytest.raises(grammar.UnsupportedError) as caught:
        grammar.compile_regex(r"(a)\1", vocabulary)
    assert caught.value.location == "@3"
    with pytest.raises(grammar.Unsatisfiable):
        grammar.compile_regex("a[^\\s\\S]", vocabulary)
    with pytest.raises(grammar.ConstraintSyntaxError):
        grammar.compile_regex(b"a\xff", vocabulary)
    with pytest.raises(grammar.ConstraintSyntaxError):
        grammar.compile_choice([], vocabulary)
    with pytest.raises(grammar.ConstraintSyntaxError) as caught:
        grammar.compile_choice(["a", "\ud800"], vocabulary)
    assert caught.value.location == "@1"


def test_bytes_without_a_token_are_dead_and_named():
    vocabulary = lacking_vocabulary()
    with pytest.raises(grammar.Unsatisfiable, match="0x7a"):
        grammar.compile_choice(["quiz", "zebra"], vocabulary)  # a token quiz exists, but no z
    with pytest.raises(grammar.Unsatisfiable, match="0x71"):
        grammar.compile_regex("q+", vocabulary)
    with pytest.raises(grammar.Unsatisfiable, match="0x7a"):
        grammar.compile_json_schema('{"const":"zz"}', vocabulary)
    with pytest.raises(grammar.Unsatisfiable, match="0x7a"):
        grammar.compile_json_schema(
            '{"type":"object","required":["z"],"properties":{"z":{}}}', vocabulary
        )
    compiled = grammar.compile_json_schema('{"enum":["zz","ab",{"q":1}]}', vocabulary)
    assert accepts(compiled, '"ab"')
    assert compiled.matcher().advance_bytes(b'"z') == 1
    assert compiled.matcher().advance_bytes(b"{") == 0
    anything = grammar.compile_json_schema("{}", vocabulary)
    assert not accepts(anything, '"z"')
    assert accepts(anything, '"\\u007a"') == accepts(
        grammar.compile_json_schema("{}", byte_vocabulary()), '"\\u007a"'
    )


# --- compiling --------------------------------------------------------------------------------


def _masks_along(compiled: grammar.Grammar, seed: int) -> list[Any]:
    rng = random.Random(seed)
    return [state(matcher) for matcher in random_walk(compiled, rng, 12)]


def _fresh() -> grammar.Vocabulary:
    """Another process's vocabulary: equal, but it shares no lexemes with ours."""
    return nasty_vocabulary.__wrapped__(0)


SHIPPED = [
    ("json_schema", json.dumps(PERSON), ()),
    ("json_schema", '{"type":"string","pattern":"^[a-c]{2,5}$","minLength":3}', ()),
    ("json_schema", '{"type":"array","items":{"type":"string","format":"date"}}', ()),
    ("json_schema", '{"type":"number","minimum":0.5,"exclusiveMaximum":7}', ()),
    ("regex", r"\d{2}-(ab|cd)*", ()),
    ("choice", "", ("yes", "no", "maybe")),
]


@pytest.mark.parametrize(("kind", "text", "choices"), SHIPPED)
def test_shipped_lexemes_give_the_same_grammar(kind, text, choices, monkeypatch):
    def compiled(lexemes: Any, *, eager: bool) -> grammar.Grammar:
        steps = grammar.compile_steps(
            kind, text, choices, _fresh(), grammar.JsonOptions(), lexemes=lexemes, eager=eager
        )
        return run(steps)[0]

    first = compiled(None, eager=True)
    seen = _masks_along(first, 4)
    _build_nothing(monkeypatch)
    other = compiled(first.lexemes, eager=False)
    assert _masks_along(other, 4) == seen
    assert other.min_tokens == first.min_tokens


def _build_nothing(monkeypatch) -> None:
    """Whoever compiles a pattern, a number or a list now, fails."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("an automaton that was shipped is built again")

    monkeypatch.setattr("grammar.schema.strings.spell_dfa", refuse)
    monkeypatch.setattr("grammar.schema.strings.number_dfa", refuse)
    monkeypatch.setattr("grammar.compiled.regex_dfa", refuse)
    monkeypatch.setattr("grammar.compiled.choice_dfa", refuse)


def run(steps: Any) -> tuple[grammar.Grammar, int]:
    """The grammar and how many slices it took."""
    slices = 0
    while True:
        try:
            assert next(steps) is None
            slices += 1
        except StopIteration as end:
            return end.value, slices


def test_a_large_schema_is_compiled_in_many_slices():
    properties = {f"p{i}": {"type": "array", "items": {"minimum": i}} for i in range(1_000)}
    text = json.dumps({"properties": properties})
    compiled, slices = run(grammar.compile_steps("json_schema", text, (), nasty_vocabulary()))
    assert slices >= 20
    assert accepts(compiled, '{"p3":[4]}')


def test_compiling_in_slices_is_compiling():
    vocabulary = nasty_vocabulary()
    for kind, text, choices in SHIPPED:
        sliced, _ = run(grammar.compile_steps(kind, text, choices, vocabulary))
        whole = {
            "json_schema": lambda t=text: grammar.compile_json_schema(t, vocabulary),
            "regex": lambda t=text: grammar.compile_regex(t, vocabulary),
            "choice": lambda c=choices: grammar.compile_choice(c, vocabulary),
        }[kind]()
        assert _masks_along(sliced, 8) == _masks_along(whole, 8)


def test_compiling_and_walking_are_the_same_every_time():
    schema = json.dumps(MAP | {"properties": {"a": {"type": "string"}}})
    runs = [_masks_along(grammar.compile_json_schema(schema, _fresh()), 6) for _ in range(2)]
    assert runs[0] == runs[1]


def test_an_arena_over_its_limit_is_replaced_for_new_matchers():
    limits = grammar.Limits(max_arena_bytes=400_000)
    compiled = grammar.compile_json_schema("{}", nasty_vocabulary(), limits=limits)
    first = compiled.arena
    old = compiled.matcher()
    peak = 0
    for number in range(12):
        matcher = compiled.matcher()
        text = "[" * (number + 1) + '{"a":[{"b' + str(number)
        assert matcher.advance_bytes(text.encode()) == len(text)
        for _ in range(5):
            mask(matcher)
            matcher.advance_bytes(b'":')
            matcher.advance_bytes(b"[")
        peak = max(peak, compiled.nbytes)
    assert compiled.arena is not first
    assert peak < 4_000_000
    assert old.advance_bytes(b'{"a":1}') == 7
    assert old.is_complete
    assert _masks_along(compiled, 2) == _masks_along(
        grammar.compile_json_schema("{}", nasty_vocabulary()), 2
    )


def test_threads_with_their_own_grammars_share_a_vocabulary():
    """Each sees what one thread alone sees; the lexemes they share are built by any of them."""
    schemas = [
        json.dumps({"type": "array", "items": item})
        for item in (
            {"type": "string", "pattern": "^[a-f]{1,9}$"},
            {"type": "integer", "minimum": 3, "maximum": 4_000},
            PERSON,
            MAP,
        )
    ]
    expected = [_masks_along(grammar.compile_json_schema(s, _fresh()), 7) for s in schemas]
    for _ in range(3):
        vocabulary = _fresh()
        seen: dict[int, Any] = {}
        gate = threading.Barrier(8)

        def work(number: int, vocabulary=vocabulary, seen=seen, gate=gate) -> None:
            gate.wait()
            compiled = grammar.compile_json_schema(schemas[number % 4], vocabulary)
            seen[number] = _masks_along(compiled, 7)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [seen[i] for i in range(8)] == [*expected, *expected]
