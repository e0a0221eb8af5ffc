"""Random nests of applicators, judged on listed values as the validator judges them.

Every keyword is as likely as any other, in any position: negations of alternatives, conditions
under ``contains``, demands on keys that patterns divide.
"""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest

import grammar
from tests import verdicts

VALUES: tuple[Any, ...] = (
    *(None, True, 0, 1, 2, 3.5, -4, "", "a", "ab", "abc"),
    *([], [1], ["a", 1], [1, 2, 3], [1, 1], ["a", "a"], [[1]]),
    *({}, {"a": 1}, {"a": "x", "b": 2}, {"b": None}, {"a": 1, "b": 1, "c": 1}),
    *({"x1": 1}, {"x1": "s", "a": 2}, {"a": {"b": 1}}),
)


def _leaf(rng: random.Random) -> Any:
    names = ["string", "integer", "number", "object", "array", "null", "boolean"]
    return rng.choice(
        (
            {"type": rng.choice(names)},
            {"minimum": rng.randint(-2, 3)},
            {"maxLength": rng.randint(0, 2)},
            {"pattern": rng.choice(("^a", "b$", "^.$"))},
            {"const": rng.choice(VALUES)},
            {"enum": rng.sample(VALUES, 3)},
            {"required": [rng.choice("abc")]},
            {"multipleOf": 2},
            {"minProperties": rng.randint(1, 2)},
            {"maxProperties": 1},
            {"minItems": rng.randint(1, 2)},
            {"uniqueItems": True},
            {"maxItems": 1},
            True,
            {},
        )
    )


def _schema(rng: random.Random, depth: int) -> Any:
    if depth == 0 or rng.random() < 0.25:
        return _leaf(rng)

    def inner() -> Any:
        return _schema(rng, depth - 1)

    low = rng.randint(0, 2)
    kinds: tuple[Any, ...] = (
        lambda: {"not": inner()},
        lambda: {rng.choice(("anyOf", "allOf", "oneOf")): [inner() for _ in range(low + 1)]},
        lambda: {"if": inner(), "then": inner(), "else": inner()},
        lambda: {
            "properties": {n: inner() for n in rng.sample("abc", 2)},
            "required": ["a"][:low],
        },
        lambda: {"patternProperties": {rng.choice(("^a", "^x", "b|c")): inner()}},
        lambda: {"properties": {"a": inner()}, "additionalProperties": inner()},
        lambda: {"propertyNames": {"pattern": rng.choice(("^a", "^.$"))}},
        lambda: {"items": inner()},
        lambda: {"prefixItems": [inner(), inner()], "items": inner()},
        lambda: {"contains": inner()},
        lambda: {"contains": inner(), "minContains": low, "maxContains": low + rng.randint(0, 1)},
        lambda: {"dependentRequired": {"a": ["b"]}},
        lambda: {"dependentSchemas": {"a": inner()}},
        lambda: {**_object(inner()), **_object(inner())},
        lambda: {**_object(inner()), "unevaluatedProperties": rng.choice((False, inner()))},
        lambda: {**_object(inner()), "unevaluatedItems": rng.choice((False, inner()))},
    )
    return rng.choice(kinds)()


def _object(schema: Any) -> dict[str, Any]:
    return schema if isinstance(schema, dict) else {}


@pytest.mark.parametrize("seed", range(60))
def test_every_value_is_judged_as_the_validator_judges_it(seed):
    rng = random.Random(f"combination {seed}")
    for _ in range(8):
        schema = _schema(rng, 3)
        validator = jsonschema.Draft202012Validator(schema)
        try:
            compiled = verdicts.compile_schema(schema)
        except grammar.UnsupportedError as error:
            assert error.keyword == "uniqueItems" or "the negation of unevaluated" in error.message
            continue
        except grammar.Unsatisfiable:
            assert not any(map(validator.is_valid, VALUES)), schema
            continue
        for value in VALUES:
            accepted = verdicts.accepts(compiled, json.dumps(value))
            assert accepted == validator.is_valid(value), (schema, value)
        assert validator.is_valid(json.loads(compiled.shortest.text)), schema
