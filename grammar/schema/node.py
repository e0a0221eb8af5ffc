"""Node: what one subschema says, keyword by keyword, after loading."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from grammar.regex import TextDfa

NULL, BOOLEAN, OBJECT, ARRAY, STRING, INTEGER, FRACTION = (1 << i for i in range(7))
ALL_TYPES = (1 << 7) - 1
NUMBER = INTEGER | FRACTION
TYPE_BITS = {
    "null": NULL,
    "boolean": BOOLEAN,
    "object": OBJECT,
    "array": ARRAY,
    "string": STRING,
    "integer": INTEGER,  # numbers with integer value; FRACTION are the others
    "number": NUMBER,
}


class Node:
    """One subschema. ``asserts`` is False while it accepts every value."""

    __slots__ = (
        "additional", "all_of", "any_of", "asserts", "enums", "exclusive_maximum",
        "exclusive_minimum", "items", "max_items", "max_length", "maximum", "min_items",
        "min_length", "minimum", "multiples", "number", "one_of", "pointer", "prefix",
        "properties", "refs", "required", "texts", "types",
    )  # fmt: skip

    def __init__(self, number: int, pointer: str) -> None:
        self.number = number
        self.pointer = pointer
        self.types = ALL_TYPES
        self.asserts = False
        self.enums: list[list[Any]] = []
        self.refs: list[Node] = []
        self.all_of: list[Node] = []
        self.any_of: list[list[Node]] = []
        self.one_of: list[Node] = []
        self.properties: dict[str, Node] | None = None
        self.required: tuple[str, ...] = ()
        self.additional: Node | None = None
        self.prefix: list[Node] = []
        self.items: Node | None = None
        self.min_items = 0
        self.max_items: int | None = None
        self.min_length = 0
        self.max_length: int | None = None
        self.minimum: int | Decimal | None = None
        self.maximum: int | Decimal | None = None
        self.exclusive_minimum = False
        self.exclusive_maximum = False
        self.multiples: list[int | Decimal] = []
        self.texts: list[tuple[str, str, TextDfa | None]] = []

    def restrict(self, types: int) -> None:
        self.types &= types

    def add_bound(self, name: str, value: int | Decimal, exclusive: bool) -> None:
        """Keep the tighter of the bounds on one side (draft 6+ may give both kinds)."""
        old = getattr(self, name)
        tighter = old is None or (value > old if name == "minimum" else value < old)
        if tighter or (value == old and exclusive):
            setattr(self, name, value)
            setattr(self, f"exclusive_{name}", exclusive)

    @property
    def constrains_object(self) -> bool:
        return self.properties is not None or bool(self.required) or self.additional is not None

    @property
    def constrains_array(self) -> bool:
        return bool(
            self.prefix or self.items is not None or self.min_items or self.max_items is not None
        )

    @property
    def constrains_string(self) -> bool:
        return bool(self.min_length or self.max_length is not None or self.texts)

    @property
    def constrains_number(self) -> bool:
        return self.minimum is not None or self.maximum is not None or bool(self.multiples)

    def finish(self) -> None:
        """Called once every keyword is read."""
        self.asserts = bool(
            self.types != ALL_TYPES or self.enums or self.refs or self.all_of or self.any_of
            or self.one_of or self.constrains_object or self.constrains_array
            or self.constrains_string or self.constrains_number
        )  # fmt: skip
