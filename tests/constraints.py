"""Random constraints from a seed: schemas under every spelling, regexes, choices."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any, Literal

import grammar
from tests.random_schemas import random_schema
from tests.validator import valid

Numbers = Literal["readable", "any"]

REGEXES = (
    *(
        r"[a-z]{2,5}",
        r"(ab|a)*c?",
        r"\d{4}-\d\d-\d\d",
        r"(yes|no|maybe)!?",
        r"[^\n]{0,12}",
        r"é+|€x",
    ),
    *(
        r".{3}",
        r"\p{Lu}[\w ]{0,20}",
        r"(\"[ab]\",?){1,3}",
        r"-?(0|[1-9]\d*)(\.\d+)?",
        r"(a{2,3}b){2}",
    ),
    r"[\x00-\x1f]?[^a]",
)
CHOICES = (
    ("yes", "no"),
    ("a", "ab", "abc", "abcd"),
    ("é", "€x", "\U0001f600", "e"),
    ('{"a":1}', '{"a":1,"b":2}', "{}"),
    ("", "x"),
    tuple(f"name {i}" for i in range(40)),
)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint that compiled, and who judges its texts."""

    name: str
    compiled: grammar.Grammar
    schema: Any = None  # of a JSON Schema

    def accepts(self, text: bytes) -> bool:
        """What a judge outside of the engine says; where there is none, the engine, by bytes."""
        if self.schema is not None:
            return valid(self.schema, text)
        matcher = self.compiled.matcher()
        return matcher.advance_bytes(text) == len(text) and matcher.is_complete


def random_options(rng: random.Random, numbers: Numbers = "readable") -> grammar.JsonOptions:
    return grammar.JsonOptions(
        whitespace=rng.choice(("compact", "compact", "single_space", "flexible")),
        max_whitespace_run=rng.choice((0, 1, 3, 8)),
        property_order=rng.choice(("schema", "any")),
        ascii_only=rng.random() < 0.2,
        additional_properties_default=rng.choice(("auto", "allow", "forbid")),
        numbers=numbers,
    )


# Shapes that random schemas meet seldom: maps, alternatives, counted strings, tuples.
SHAPES: tuple[Any, ...] = (
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": True},
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "aa": {"type": "boolean"}},
        "required": ["aa"],
        "additionalProperties": {"type": "object", "additionalProperties": {"const": 0}},
    },
    {"type": "array", "items": {"type": "object", "additionalProperties": {"enum": [1, "a"]}}},
    {"type": "string", "minLength": 2, "maxLength": 5},
    {"type": "string", "maxLength": 100_000},
    {"type": "array", "items": {"type": "string", "maxLength": 3}, "minItems": 1, "maxItems": 3},
    {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "array", "items": {"type": "null"}}]},
    {
        "anyOf": [
            {"type": "object", "properties": {"a": {"const": 1}, "b": {"type": "string"}}},
            {"properties": {"a": {"const": 2}, "c": {"type": "integer"}}, "required": ["a", "c"]},
        ]
    },
    {
        "allOf": [
            {"properties": {"a": {"minimum": 3}}, "required": ["a"]},
            {"type": "object", "properties": {"a": {"type": "integer", "maximum": 12}}},
        ]
    },
    {"prefixItems": [{"type": "integer"}, {"const": "x"}], "items": False, "type": "array"},
    {"type": "array", "uniqueItems": True, "items": {"type": "string"}, "minItems": 2},
    {
        "type": "array",
        "uniqueItems": True,
        "items": {
            "type": "object",
            "properties": {"a": {"enum": [1, 2]}, "b": {"type": "boolean"}},
            "required": ["a"],
        },
    },
    {"enum": [{"a": 1, "b": [1, 2]}, {"a": 2}, [1, [2]], [], "x", 1.5, None]},
    {"type": "integer", "multipleOf": 7, "minimum": -100, "maximum": 100},
    {"type": "number", "exclusiveMinimum": 0.5, "maximum": 1.25},
    {"type": "string", "pattern": "^[a-c]+$", "minLength": 2, "maxLength": 6},
    {"type": "string", "format": "date"},
    {
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {
                    "v": {"type": "integer"},
                    "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                },
                "required": ["v"],
                "additionalProperties": False,
            }
        },
        "$ref": "#/$defs/tree",
    },
    {"type": ["object", "string", "null"]},
    {},
    {"type": "object", "patternProperties": {"^x-": {"type": "integer"}, "a$": {"minimum": 2}}},
    {
        "type": "object",
        "properties": {"a": {"const": 1}},
        "patternProperties": {"^(yes|no)$": {"type": "boolean"}},
        "additionalProperties": False,
        "minProperties": 2,
    },
    # A prefix of a key can be used up: after "-1" and "-2" nothing begins with "-" any more.
    {
        "type": "object",
        "patternProperties": {"^[ab]*-[12]$": {"const": 0}},
        "additionalProperties": False,
    },
    {"type": "object", "propertyNames": {"maxLength": 2}, "minProperties": 1, "maxProperties": 3},
    {"type": "object", "not": {"additionalProperties": {"type": "null"}}, "maxProperties": 2},
    {"type": "array", "contains": {"const": "a"}, "minContains": 2, "maxContains": 2},
    {"type": "array", "items": {"enum": [1, 2]}, "contains": {"const": 2}, "maxItems": 3},
    {"type": ["string", "number"], "not": {"enum": ["", "a", 0, 1]}},
    {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"},
    {
        "type": "object",
        "properties": {"a": {"enum": [1, 2]}, "b": {"type": "integer"}},
        "if": {"properties": {"a": {"const": 1}}, "required": ["a"]},
        "then": {"required": ["b"]},
        "else": {"properties": {"b": False}},
    },
    {"type": "object", "dependentRequired": {"a": ["b"]}, "properties": {"a": {}, "b": {}}},
)


def random_constraint(
    rng: random.Random, vocabulary: grammar.Vocabulary, *, numbers: Numbers = "readable"
) -> Constraint:
    """One that compiles with this vocabulary; schemas most of the time.

    ``numbers="any"`` can end in numbers that no judge can hold, such as 1e999999999999999999.
    """
    while True:
        try:
            return _draw(rng, vocabulary, numbers)
        except grammar.Unsatisfiable:
            continue


def _draw(rng: random.Random, vocabulary: grammar.Vocabulary, numbers: Numbers) -> Constraint:
    kind = rng.random()
    if kind < 0.12:
        pattern = rng.choice(REGEXES)
        return Constraint(f"regex {pattern}", grammar.compile_regex(pattern, vocabulary))
    if kind < 0.2:
        choices = rng.choice(CHOICES)
        return Constraint(f"choice {choices[:3]}", grammar.compile_choice(choices, vocabulary))
    schema = rng.choice(SHAPES) if kind < 0.55 else random_schema(rng, rng.randint(1, 3))
    options = random_options(rng, numbers)
    text = json.dumps(schema)
    compiled = grammar.compile_json_schema(text, vocabulary, options)
    return Constraint(f"{text} {options}", compiled, schema)
