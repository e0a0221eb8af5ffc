"""What cannot be enforced and is met after compiling is a way not taken: nothing raises then."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import grammar
from tests.constraints import Constraint
from tests.grammar.test_walks import walk
from tests.naive import byte_vocabulary

URI = {"type": "string", "format": "uri"}
#: Each needs "not a URI" for one of the ways to match one branch and not the other.
ONE_OF = {
    "oneOf": [
        {"properties": {"a": {"type": "object", "properties": {"u": URI}}}, "required": ["a"]},
        {"properties": {"b": {"type": "integer"}}, "required": ["b"]},
    ]
}


def compiled(schema: Any) -> grammar.Grammar:
    options = grammar.JsonOptions(property_order="any", additional_properties_default="allow")
    return grammar.compile_json_schema(json.dumps(schema), byte_vocabulary(), options)


@pytest.mark.parametrize("schema", [{"items": ONE_OF}, {"items": {"items": ONE_OF}}])
def test_walks_end_valid_and_nothing_raises(schema):
    found = compiled(schema)
    constraint = Constraint(json.dumps(schema), found, schema)
    rng = random.Random("pruned")
    for more in (0, 3, 9, 30):
        text = walk(constraint, rng, found.min_tokens + more)
        assert constraint.accepts(text), text


def test_a_way_that_is_not_taken_is_counted_and_accepts_nothing_invalid():
    found = compiled({"items": ONE_OF})
    for text, valid in (
        (b'[{"b":1}]', True),
        (b'[{"a":{"u":"urn:x"}}]', True),
        (b'[{"a":{"u":"urn:x"},"b":1}]', False),  # both branches match
        (b'[{"a":1,"b":1}]', True),
    ):
        matcher = found.matcher()
        taken = matcher.advance_bytes(text)
        assert (taken == len(text) and matcher.is_complete) == valid, text
    assert found.pruned


@pytest.mark.parametrize("name", ["date", "uuid", "ipv4", "ipv6", "json-pointer"])
def test_the_negation_of_an_exact_format(name):
    samples = {
        "date": "2024-02-29", "uuid": "123e4567-e89b-12d3-a456-426614174000", "ipv4": "1.2.3.4",
        "ipv6": "::1", "json-pointer": "/a",
    }  # fmt: skip
    found = compiled({"type": "string", "not": {"format": name}})
    for text, valid in ((samples[name], False), ("x y", True)):
        matcher = found.matcher()
        data = json.dumps(text).encode()
        assert (matcher.advance_bytes(data) == len(data) and matcher.is_complete) == valid
