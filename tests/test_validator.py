"""The judge itself: what jsonschema alone would get wrong."""

from __future__ import annotations

import random

import jsonschema
import pytest

from tests import ecma, random_schemas
from tests.validator import FORMAT_CHECKER, FORMATS, valid


def test_every_named_format_has_a_checker():
    assert set(FORMATS) <= set(FORMAT_CHECKER.checkers)


@pytest.mark.parametrize("name", FORMATS)
def test_every_named_format_is_checked(name):
    assert not valid({"format": name}, '"\\u0000 no (["')
    assert valid({"format": name}, '"\\u0000 no (["', formats=False)


def test_times_are_those_of_rfc_3339_in_every_dialect():
    for dialect in ("http://json-schema.org/draft-04/schema#", None):
        schema = {"format": "time"} | ({"$schema": dialect} if dialect else {})
        assert valid(schema, '"20:35:47Z"')
        assert not valid(schema, '"20:35:47"')


def test_numbers_are_decimal():
    assert valid({"multipleOf": 0.01}, "19.99")
    assert not valid({"multipleOf": 0.01}, "19.999")
    assert not valid({"maximum": 0.3}, "0.30000000000000000001")
    assert valid({"multipleOf": 0.1}, "1e308")
    assert valid({"type": "integer"}, "2.0")
    assert not valid({"type": "integer"}, "2.5")


def test_json_is_strict():
    assert not valid({}, "NaN")
    assert not valid({}, '{"a":1,"a":1}')
    assert not valid({}, '"\n"')
    assert not valid({}, "[1] x")
    assert not valid({}, b"\xff")


def test_the_dialect_is_that_of_the_schema():
    draft4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
    assert not valid(draft4 | {"maximum": 3, "exclusiveMaximum": True}, "3")
    siblings = {
        "definitions": {"a": {}},
        "properties": {"x": {"$ref": "#/definitions/a", "type": "null"}},
    }
    assert valid({"$schema": "http://json-schema.org/draft-07/schema#"} | siblings, '{"x":1}')
    assert not valid(siblings, '{"x":1}')


def test_remote_schemas_come_from_the_mapping():
    remotes = {"http://localhost:1234/integer.json": {"type": "integer"}}
    assert valid({"$ref": "http://localhost:1234/integer.json"}, "1", remotes=remotes)
    assert not valid({"$ref": "http://localhost:1234/integer.json"}, "1.5", remotes=remotes)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("^a$", "a", "a\n"),
        (r"^\d$", "1", "१"),
        (r"^\w$", "_", "é"),
        (r"^\W$", "é", "_"),
        (r"^\s$", "\u2003", "x"),
        (r"^[^\s]$", "x", "\ufeff"),
        (r"^[\S]$", "x", " "),
        (r"^.$", "\x85", "\u2028"),
        (r"^[[&&a]$", "&", "b"),
        (r"^[+--]$", ",", "."),
        (r"^[a\-z]$", "-", "b"),
        (r"^a{,2}$", "a{,2}", "aa"),
        (r"^a{e<=1}$", "a{e<=1}", "b"),
        (r"^\cA\u0041\u{1F600}\/\!$", "\x01A\U0001f600/!", ""),
        (r"^[^]$", "\n", ""),
        (r"^\p{Lu}$", "É", "é"),
        (r"^(?<q>['\"]).*\k<q>$", "'x'", "'x\""),
        (r"\bé", "aé", "é"),
        (r"^[\b]$", "\x08", "b"),
        (r"^\0$", "\0", "0"),
    ],
)
def test_patterns_are_ecmas(pattern, yes, no):
    assert ecma.search(pattern, yes)
    assert not ecma.search(pattern, no)
    assert not valid({"pattern": pattern, "type": "string"}, "1")


def test_patterns_are_ecmas_in_every_keyword():
    for schema in (
        {"patternProperties": {"^a$": False}},
        {"patternProperties": {"^a$": {}}, "additionalProperties": False},
    ):
        assert valid(schema, '{"a\\n": 1}') is ("additionalProperties" not in schema)


def test_random_schemas_are_schemas_repeatable_and_use_every_keyword():
    seen = set()
    for seed in range(400):
        schema = random_schemas.random_schema(random.Random(seed))
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema == random_schemas.random_schema(random.Random(seed))
        text = repr(schema)
        seen |= {word for word in random_schemas.KEYWORDS if f"'{word}'" in text}
    assert seen == random_schemas.KEYWORDS


def test_random_schemas_keep_to_the_keywords_asked_for():
    for seed in range(50):
        schema = random_schemas.random_schema(random.Random(seed), keywords={"type", "items"})
        assert "properties" not in repr(schema)
