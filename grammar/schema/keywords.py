"""The keywords of each draft, and where they hold subschemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

Holds = Literal["", "schema", "list", "map"]


class Keyword(NamedTuple):
    """First and last draft that has it, and whether its value holds subschemas."""

    since: int
    until: int
    holds: Holds = ""


_ALL, _SIX, _SEVEN, _2019, _2020 = (4, 2020), (6, 2020), (7, 2020), (2019, 2020), (2020, 2020)
_PLAIN = {
    _ALL: "$schema $ref title description default type enum required minProperties maxProperties"
    " minItems maxItems uniqueItems minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"
    " minLength maxLength pattern format",
    (4, 4): "id",
    _SIX: "$id const examples",
    _SEVEN: "$comment readOnly writeOnly contentEncoding contentMediaType",
    _2019: "$anchor $vocabulary dependentRequired minContains maxContains deprecated",
    (2019, 2019): "$recursiveRef $recursiveAnchor",
    _2020: "$dynamicRef $dynamicAnchor",
}
#: ``list`` and ``schema`` are told apart by the value (``items`` may be either), as are the
#: members of ``dependencies``, which may be lists of names.
KEYWORDS = {name: Keyword(*drafts) for drafts, names in _PLAIN.items() for name in names.split()}
KEYWORDS |= {
    "properties": Keyword(*_ALL, "map"),
    "patternProperties": Keyword(*_ALL, "map"),
    "additionalProperties": Keyword(*_ALL, "schema"),
    "items": Keyword(*_ALL, "list"),
    "additionalItems": Keyword(4, 2019, "schema"),
    "allOf": Keyword(*_ALL, "list"),
    "anyOf": Keyword(*_ALL, "list"),
    "oneOf": Keyword(*_ALL, "list"),
    "not": Keyword(*_ALL, "schema"),
    "definitions": Keyword(*_ALL, "map"),
    "dependencies": Keyword(4, 7, "map"),
    "contains": Keyword(*_SIX, "schema"),
    "propertyNames": Keyword(*_SIX, "schema"),
    "if": Keyword(*_SEVEN, "schema"),
    "then": Keyword(*_SEVEN, "schema"),
    "else": Keyword(*_SEVEN, "schema"),
    "$defs": Keyword(*_2019, "map"),
    "dependentSchemas": Keyword(*_2019, "map"),
    "unevaluatedItems": Keyword(*_2019, "schema"),
    "unevaluatedProperties": Keyword(*_2019, "schema"),
    "contentSchema": Keyword(*_2019, "schema"),
    "prefixItems": Keyword(*_2020, "list"),
}


def subschemas(schema: dict[str, Any], draft: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """(pointer from ``schema``, subschema) for each that is an object; not those inside them."""
    for name, value in schema.items():
        known = KEYWORDS.get(name)
        if known is None or not known.holds or not known.since <= draft <= known.until:
            continue
        inner: list[tuple[str, Any]] = [(f"/{name}", value)]
        if isinstance(value, list):
            inner = [(f"/{name}/{i}", each) for i, each in enumerate(value)]
        elif known.holds == "map" and isinstance(value, dict):
            inner = [(f"/{name}/{pointer_token(key)}", each) for key, each in value.items()]
        yield from ((where, each) for where, each in inner if isinstance(each, dict))


def pointer_token(name: str) -> str:
    """One RFC 6901 reference token."""
    return name.replace("~", "~0").replace("/", "~1")
