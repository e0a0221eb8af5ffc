"""Node: what one subschema says, keyword by keyword, after loading."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from grammar.regex import TextDfa
from grammar.schema.equality import json_key

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


@dataclass(frozen=True, slots=True, eq=False)
class Some:
    """A demand that some key of a kind has a value of ``value`` (a negated keyword for keys).

    The kind: not in ``names``, with every pattern of ``matching`` and none of ``missing``, and,
    where ``misnamed`` is given, against that schema of names.
    """

    value: Node
    names: frozenset[str] = frozenset()
    matching: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    misnamed: Node | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Contains:
    """``low`` to ``high`` (None: any number) of the items from ``start`` on are of ``value``.

    ``evaluates``: these items are none that ``unevaluatedItems`` looks at (2020-12).
    """

    start: int
    value: Node
    low: int
    high: int | None
    evaluates: bool = False


class Node:
    """One subschema. ``asserts`` is False while it accepts every value.

    The defaults are class attributes: most nodes set two or three of them.
    """

    types = ALL_TYPES
    asserts = False
    #: Whether other nodes apply to the same value.
    is_combined = False
    #: Stands for a part of a keyword, not for a subschema: it declares no keys.
    is_made = False
    enums: tuple[list[Any], ...] = ()
    refs: tuple[Node, ...] = ()
    all_of: tuple[Node, ...] = ()
    any_of: tuple[tuple[Node, ...], ...] = ()
    one_of: tuple[Node, ...] = ()
    nots: tuple[Node, ...] = ()
    #: (if, then, else): a missing branch is None.
    conditions: tuple[tuple[Node, Node | None, Node | None], ...] = ()
    #: Lists of scalars that the value is none of.
    excluded: tuple[list[Any], ...] = ()
    properties: dict[str, Node] | None = None
    required: tuple[str, ...] = ()
    additional: Node | None = None
    #: (pattern, schema of the values under matching keys)
    pattern_properties: tuple[tuple[str, Node], ...] = ()
    property_names: Node | None = None
    min_properties = 0
    max_properties: int | None = None
    unevaluated_properties: Node | None = None
    unevaluated_items: Node | None = None
    some: tuple[Some, ...] = ()
    prefix: tuple[Node, ...] = ()
    items: Node | None = None
    min_items = 0
    max_items: int | None = None
    contains: tuple[Contains, ...] = ()
    unique = False
    min_length = 0
    max_length: int | None = None
    minimum: int | Decimal | None = None
    maximum: int | Decimal | None = None
    exclusive_minimum = False
    exclusive_maximum = False
    multiples: tuple[int | Decimal, ...] = ()
    not_multiples: tuple[int | Decimal, ...] = ()
    #: (kind, text, automaton): a "pattern", or a "format" whose automaton is looked up by name;
    #: "not pattern" and "not format" are their opposites.
    texts: tuple[tuple[str, str, TextDfa | None], ...] = ()

    def __init__(self, number: int, pointer: str) -> None:
        self.number = number
        self.pointer = pointer

    @cached_property
    def enum_keys(self) -> tuple[frozenset[Any], ...]:
        """``enums`` by ``json_key``. Ask only once every keyword is read."""
        return tuple(frozenset(map(json_key, values)) for values in self.enums)

    @cached_property
    def excluded_keys(self) -> tuple[frozenset[Any], ...]:
        """``excluded`` by ``json_key``. Ask only once every keyword is read."""
        return tuple(frozenset(map(json_key, values)) for values in self.excluded)

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
    def has_rest(self) -> bool:
        """Whether it says something of what other keywords have not evaluated."""
        return self.unevaluated_properties is not None or self.unevaluated_items is not None

    @property
    def has_own(self) -> bool:
        """Whether keywords of its own constrain the value, references and combinators apart."""
        return bool(
            self.types != ALL_TYPES or self.enums or self.constrains_object
            or self.constrains_array or self.constrains_string or self.constrains_number
        )  # fmt: skip

    @property
    def constrains_object(self) -> bool:
        return bool(
            self.properties is not None or self.required or self.additional is not None
            or self.pattern_properties or self.property_names is not None
            or self.min_properties or self.max_properties is not None or self.some
        )  # fmt: skip

    @property
    def constrains_array(self) -> bool:
        return bool(
            self.prefix or self.items is not None or self.min_items
            or self.max_items is not None or self.contains or self.unique
        )  # fmt: skip

    @property
    def constrains_string(self) -> bool:
        return bool(self.min_length or self.max_length is not None or self.texts or self.excluded)

    @property
    def constrains_number(self) -> bool:
        return bool(
            self.minimum is not None or self.maximum is not None or self.multiples
            or self.not_multiples or self.excluded
        )  # fmt: skip

    def finish(self) -> None:
        """Called once every keyword is read."""
        self.is_combined = bool(
            self.refs or self.all_of or self.any_of or self.one_of or self.nots
            or self.conditions or self.has_rest
        )  # fmt: skip
        self.asserts = self.is_combined or self.has_own
