"""Words for what may come next: what they say may come, and what may come they say."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

import grammar
from tests.constraints import random_constraint
from tests.naive import byte_vocabulary, nasty_vocabulary, random_walk

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 4},
        "nick": {"enum": ["red", "reward", None, 3]},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "list": {"type": "array", "items": {"type": "number"}},
        "day": {"type": "string", "format": "date"},
        "any": {"type": ["boolean", "object"]},
    },
    "required": ["name"],
    "additionalProperties": False,
}
OPEN = {"type": "object", "properties": {"a": True}, "additionalProperties": True}
SPACED = {"whitespace": "single_space"}


def words(compiled: grammar.Grammar, text: str) -> tuple[str, ...]:
    matcher = compiled.matcher()
    data = text.encode("utf-8", "surrogateescape")
    assert matcher.advance_bytes(data) == len(data), text
    return matcher.expected()


def of_schema(schema: Any, text: str, **options: Any) -> tuple[str, ...]:
    how = {"property_order": "any"} | options
    return words(
        grammar.compile_json_schema(
            json.dumps(schema), byte_vocabulary(), grammar.JsonOptions(**how)
        ),
        text,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ("an object",)),
        ("{", ("one of the keys name, nick, age, list, day, any",)),
        ('{"', ("one of the keys name, nick, age, list, day, any",)),
        ('{"na', ("the key name",)),
        ('{"name', ("the key name", '`"`')),
        ('{"name"', ("`:`",)),
        ('{"name":', ("a string",)),
        ('{"name":"', ("a character of the string", '`"`')),
        ('{"name":"abcd', ('`"`',)),
        ('{"name":"\\', ("a character in [\\\\bfnrtu]", '`"`')),
        ('{"name":"\udcc3', ("the rest of a character",)),
        ('{"name":"a"', ("`,`", "`}`")),
        ('{"name":"a",', ("one of the keys nick, age, list, day, any",)),
        ('{"nick":', ('one of `"red"`, `"reward"`, `3`, `null`',)),
        ('{"nick":"re', ('one of `d"`, `ward"`',)),
        ('{"age":', ("an integer",)),
        ('{"age":7', ("a digit", "`,`")),
        ('{"age":15', ("`0`", "`,`")),
        ('{"list":[', ("a number", "`]`")),
        ('{"list":[1', ("a digit", "`.`", "`e`", "`,`", "`]`")),
        ('{"day":"2', ("a digit",)),
        ('{"any":', ("one of `false`, `true`", "an object")),
        ('{"any":t', ("`rue`",)),
        ('{"name":"a"}', ("end of text",)),
    ],
)
def test_inside_an_object(text, said):
    assert of_schema(PERSON, text) == said


@pytest.mark.parametrize(
    ("schema", "text", "options", "said"),
    [
        (OPEN, "{", {}, ("the key a", "another key", "`}`")),
        (OPEN, '{"b', {}, ("a character of a key", '`"`')),
        (OPEN, '{"b":1,"b', {}, ("a character of a key",)),
        ({"type": "object"}, "{", {}, ("a key", "`}`")),
        (PERSON, '{"name":', SPACED, ("a space",)),
        (PERSON, '{"name"', {"whitespace": "flexible"}, ("`:`", "whitespace")),
        ({"type": "integer"}, "12", {}, ("a digit", "end of text")),
        ({"type": "boolean"}, "", {}, ("one of `false`, `true`",)),
        ({"enum": [1, 2, [3], {}]}, "", {}, ("one of `1`, `2`", "an array", "an object")),
        ({"type": "string", "pattern": "^[a-f]+$"}, '"a', {}, ("a character in [a-f]", '`"`')),
        (
            {"required": [f"key {i}" for i in range(12)], "type": "object"},
            "{",
            {},
            (
                f"one of the keys {', '.join(f'key {i}' for i in range(8))} and 4 more",
                "another key",
            ),
        ),
    ],
)
def test_other_schemas(schema, text, options, said):
    assert of_schema(schema, text, **options) == said


@pytest.mark.parametrize(
    ("pattern", "text", "said"),
    [
        ("[a-z]{2,5}", "ab", ("a character in [a-z]", "end of text")),
        ("[a-z]{2,5}", "abcde", ("end of text",)),
        (r"\d{4}-\d\d", "", ("a digit",)),
        (r"\d{4}-\d\d", "2024", ("`-`",)),
        ("(yes|no|maybe)!?", "y", ("one of `es`, `es!`",)),
        ("[^a]", "", ("any character but `a`",)),
        ("(?s:.)", "", ("any character",)),
        ("é+", "", ("a character beyond ASCII",)),
        ("[0-9a-fA-F]+x", "a", ("a character in [0-9A-Fa-fx]",)),
        ("[0-9a-fA-F]+", "", ("a hexadecimal digit",)),
        (r"[\]\\^a-e-]{9}", "", (r"a character in [\-\\-\^a-e]",)),
        ("a\nb", "a", (r"`\nb`",)),
        ("[ \t\n]+", "", ("a space", "a tab", "a line break")),
        ("x?", "", ("`x`", "end of text")),
    ],
)
def test_regexes(pattern, text, said):
    assert words(grammar.compile_regex(pattern, byte_vocabulary()), text) == said


def test_choices():
    compiled = grammar.compile_choice(["yes", "no", "not yet"], byte_vocabulary())
    assert words(compiled, "") == ("one of `no`, `not yet`, `yes`",)
    assert words(compiled, "no") == ("`t yet`", "end of text")
    many = grammar.compile_choice([f"name {i}" for i in range(40)], byte_vocabulary())
    assert words(many, "name ") == ("a digit",)


def test_free_text_before_a_unit():
    unit = grammar.compile_unit("brackets", byte_vocabulary())
    assert words(unit, "some (text") == ("any character but `]`, `}`",)
    assert words(unit, "(é\udcc3") == ("the rest of a character",)
    value = grammar.compile_unit("json_value", byte_vocabulary())
    assert words(value, 'so {"a": [1') == ("a digit", "`.`", "`e`", "`,`", "`]`", "whitespace")


def test_after_the_end_nothing_may_come():
    matcher = grammar.compile_choice(["a"], byte_vocabulary()).matcher()
    assert matcher.advance_bytes(b"a") == 1
    assert matcher.advance(byte_vocabulary().eos_ids[0])
    assert matcher.expected() == ()


# --- true and whole ---------------------------------------------------------------------------


def takes(matcher: grammar.Matcher, data: bytes) -> bool:
    return matcher.fork().advance_bytes(data) == len(data)


def firsts(word: str) -> list[bytes] | None:
    """Some first bytes of what a word names, all of which may come; None: see ``some``."""
    named = {
        "an object": [b"{"],
        "an array": [b"["],
        "a string": [b'"'],
        "a space": [b" "],
        "a tab": [b"\t"],
        "a line break": [b"\n"],
        "a carriage return": [b"\r"],
        "a backtick": [b"`"],
        "a digit": [bytes([b]) for b in b"0123456789"],
        "a hexadecimal digit": [bytes([b]) for b in b"0123456789abcdefABCDEF"],
        "a key": [b'"'],
        "another key": [b'"'],
    }
    if word in named:
        return named[word]
    if re.match("(one of )?`", word):
        return [text.encode() for text in re.findall("`(.+?)`", word)]
    return None


@pytest.mark.parametrize("seed", range(40))
def test_words_are_true_and_whole_on_random_constraints(seed):
    """What is named may come, and no byte may come that no word names."""
    rng = random.Random(f"words {seed}")
    constraint = random_constraint(rng, nasty_vocabulary())
    for matcher in random_walk(constraint.compiled, rng, 8):
        said = matcher.expected()
        assert said == matcher.expected()
        assert 0 < len(said) <= 8
        assert ("end of text" in said) == matcher.is_complete
        live = [bytes([b]) for b in range(256) if takes(matcher, bytes([b]))]
        left = set(live)
        vague = False
        for word in said:
            named = firsts(word)
            if named is None:
                vague |= word != "end of text"
                continue
            if "\\" not in word and "…" not in word:  # escaped or cut for the reader
                assert all(takes(matcher, each) for each in named), (constraint.name, word)
            left -= {each[:1] for each in named}
        assert not left or vague or len(said) == 8, (constraint.name, said, left)
