"""Random JSON schemas from a seed, over the keywords that the engine enforces."""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Any

KEYWORDS = frozenset(
    (
        *("boolean", "type", "enum", "const", "$ref"),
        *(
            "properties",
            "required",
            "additionalProperties",
            "items",
            "minItems",
            "maxItems",
            "uniqueItems",
        ),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("minLength", "maxLength", "pattern", "format"),
        *("patternProperties", "propertyNames", "minProperties", "maxProperties"),
        *("contains", "not", "if", "anyOf", "oneOf", "dependentRequired"),
    )
)
TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
_KEYS = ("a", "b", "name", "id", "é", 'q"uote', "", "a b", "tags", "next")
_PATTERNS = ("^[a-z]+$", "^[A-Z]{2}[0-9]{3}$", "ab|cd", r"^\d{1,4}(\.\d\d)?$", "^(x|yz)*$", "^é?$")
#: Every key, none of ``_KEYS``, few, and such that a prefix can be used up.
_KEY_PATTERNS = ("", "^x-", "^(yes|no)$", "a", "^[ab]*-[12]$", "^(id|.{3,})$", "e$")
_NAMES: tuple[dict[str, Any], ...] = (
    {"maxLength": 4},
    {"pattern": "^[a-z]*$"},
    {"enum": ["a", "b", "name", "id", "extra"]},
    {"minLength": 1},
)
_FORMATS = ("date", "uuid")
_CONSTANTS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    7,
    2.5,
    "",
    "a",
    "é\n",
    [],
    [1, "x"],
    {},
    {"a": 1},
)


def random_schema(
    rng: random.Random, depth: int = 3, *, keywords: Collection[str] = KEYWORDS
) -> dict[str, Any]:
    """A schema object whose subschemas nest to ``depth`` at most.

    Bounds never cross and recursion is always optional, so each keyword alone can be satisfied;
    a whole schema can still be impossible (``required`` of a name that must be ``false``).
    ``oneOf`` negates its branches, and the negation of ``uniqueItems`` is refused: one of them.
    """
    left_out = rng.choice(("oneOf", "uniqueItems"))
    schema = _Generator(rng, frozenset(keywords) - {left_out}).schema(depth, root=True)
    return schema if isinstance(schema, dict) else {}


class _Generator:
    def __init__(self, rng: random.Random, keywords: frozenset[str]) -> None:
        self._rng = rng
        self._keywords = keywords
        self._uses_root = False

    def schema(self, depth: int, *, root: bool = False) -> dict[str, Any] | bool:
        rng = self._rng
        if not root and self._use("boolean", 0.08):
            return rng.random() < 0.8
        if self._use("enum", 0.1):
            return {"enum": rng.sample(_CONSTANTS, rng.randint(1, 4))}
        if self._use("const", 0.06):
            return {"const": rng.choice(_CONSTANTS)}
        if not root and self._use("$ref", 0.08):
            self._uses_root = True
            return {"$ref": "#/$defs/leaf" if rng.random() < 0.6 else "#"}
        schema: dict[str, Any] = {}
        kinds = self._types(depth, root)
        if "type" in self._keywords and (depth <= 0 or rng.random() < 0.92):
            schema["type"] = kinds if len(kinds) > 1 else kinds[0]
        for kind in kinds:
            schema |= getattr(self, f"_{kind}", lambda _depth: {})(depth)
        if depth > 0:
            schema |= self._combined(depth)
        if root and self._uses_root:
            schema["$defs"] = {"leaf": {"type": rng.choice(("string", "integer", "boolean"))}}
        return schema

    def _combined(self, depth: int) -> dict[str, Any]:
        rng = self._rng
        schema: dict[str, Any] = {}
        if self._use("not", 0.08):
            schema["not"] = rng.choice(({"required": ["a"]}, {"const": ""}, {"enum": [0, 7, []]}))
        if self._use("if", 0.06):
            schema["if"] = rng.choice(({"required": ["a"]}, {"minimum": 5}, {"maxLength": 2}))
            schema["then"] = self.schema(depth - 1)
            schema["else"] = rng.choice((True, {"minProperties": 1}, {"maxLength": 3}))
        for keyword in ("anyOf", "oneOf"):
            if self._use(keyword, 0.06):
                schema[keyword] = [self.schema(depth - 1) for _ in range(rng.randint(1, 3))]
        if self._use("dependentRequired", 0.05):
            schema["dependentRequired"] = {rng.choice(_KEYS): [rng.choice(_KEYS)]}
        return schema

    def _use(self, keyword: str, probability: float) -> bool:
        return keyword in self._keywords and self._rng.random() < probability

    def _types(self, depth: int, root: bool) -> list[str]:
        rng = self._rng
        if root and rng.random() < 0.75:
            return ["object"]
        pool = TYPES if depth > 0 else TYPES[2:]
        return rng.sample(pool, 1 if rng.random() < 0.85 else 2)

    def _object(self, depth: int) -> dict[str, Any]:
        rng = self._rng
        schema: dict[str, Any] = {}
        names = rng.sample(_KEYS, rng.randint(0, 4))
        if self._use("properties", 0.95):
            schema["properties"] = {name: self._property(depth - 1) for name in names}
        if self._use("required", 0.6):
            members = schema.get("properties", {})
            safe = [name for name in names if not _recurs(members.get(name, True))]
            chosen = [name for name in safe if rng.random() < 0.6]
            schema["required"] = chosen + (["extra"] if rng.random() < 0.1 else [])
        if self._use("additionalProperties", 0.5):
            closed = rng.random() < 0.6 and "extra" not in schema.get("required", [])
            schema["additionalProperties"] = False if closed else self.schema(depth - 1)
        if self._use("patternProperties", 0.25):
            patterns = rng.sample(_KEY_PATTERNS, rng.randint(1, 2))
            schema["patternProperties"] = {each: self._property(depth - 1) for each in patterns}
        if self._use("propertyNames", 0.1):
            schema["propertyNames"] = rng.choice(_NAMES)
        low = rng.randint(1, 3)
        if "required" not in schema and self._use("minProperties", 0.15):
            schema["minProperties"] = low
        if self._use("maxProperties", 0.15):
            schema["maxProperties"] = max(low, len(schema.get("required", ()))) + rng.randint(0, 2)
        return schema

    def _property(self, depth: int) -> dict[str, Any] | bool:
        return self.schema(depth) if depth >= 0 else {}

    def _array(self, depth: int) -> dict[str, Any]:
        rng = self._rng
        schema: dict[str, Any] = {}
        if self._use("items", 0.85):
            schema["items"] = self.schema(depth - 1) if depth > 0 else {"type": "integer"}
        if self._use("contains", 0.15):
            schema["contains"] = rng.choice(({"type": "null"}, {"const": "a"}, {"minimum": 3}))
            schema["minContains"] = rng.randint(0, 2)
            if rng.random() < 0.4:
                schema["maxContains"] = schema["minContains"] + rng.randint(0, 1)
        recursive = _recurs(schema.get("items", True))
        low = rng.randint(0, 3)
        if not recursive and self._use("minItems", 0.4):
            schema["minItems"] = low
        if self._use("maxItems", 0.6):
            schema["maxItems"] = low + rng.randint(0, 4)
        alike = "contains" not in schema and "minItems" not in schema
        if alike and self._use("uniqueItems", 0.3):
            schema["uniqueItems"] = True
        return schema

    def _string(self, _depth: int) -> dict[str, Any]:
        rng = self._rng
        if self._use("pattern", 0.25):
            return {"pattern": rng.choice(_PATTERNS)}
        if self._use("format", 0.15):
            return {"format": rng.choice(_FORMATS)}
        schema: dict[str, Any] = {}
        low = rng.randint(0, 5)
        if self._use("minLength", 0.4):
            schema["minLength"] = low
        if self._use("maxLength", 0.5):
            schema["maxLength"] = low + rng.randint(0, 12)
        return schema

    def _integer(self, _depth: int) -> dict[str, Any]:
        low = self._rng.randint(-1_000, 1_000)
        return self._bounds(low, low + self._rng.randint(2, 2_000))

    def _number(self, _depth: int) -> dict[str, Any]:
        low = round(self._rng.uniform(-50, 50), self._rng.randint(0, 3))
        return self._bounds(low, round(low + self._rng.uniform(2, 100), 2))

    def _bounds(self, low: float, high: float) -> dict[str, Any]:
        schema: dict[str, Any] = {}
        if self._use(lower := self._rng.choice(("minimum", "exclusiveMinimum")), 0.5):
            schema[lower] = low
        if self._use(upper := self._rng.choice(("maximum", "exclusiveMaximum")), 0.5):
            schema[upper] = high
        return schema


def _recurs(schema: dict[str, Any] | bool) -> bool:
    """Whether demanding a member with this schema could ask for an endless or impossible value."""
    return schema is False or "'$ref': '#'" in repr(schema)
