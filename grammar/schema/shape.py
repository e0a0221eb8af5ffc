"""Object and array specifications: a conjunction's keywords for one container type, merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grammar.options import JsonOptions
from grammar.schema.evaluate import satisfies_own, type_of
from grammar.schema.goal import Conjunction, Goal, Goals, json_key
from grammar.schema.node import ARRAY, NUMBER, OBJECT, Node

UNBOUNDED = 1 << 31


class ObjectSpec:
    """``names``: declared then undeclared required names, in generation order.

    ``required``: set of names; ``goal(name)``; ``other``: the goal of any further key, () = none.
    """

    __slots__ = ("_goals", "_parts", "goals", "names", "number", "other", "required")

    def __init__(
        self, number: int, parts: dict[str, tuple[Node, ...]], required: frozenset[str],
        other: Goal, goals: Goals,
    ) -> None:  # fmt: skip
        self.number = number
        self.names = tuple(parts)
        self.required = required
        self.other = other
        self.goals = goals
        self._parts = parts
        self._goals: dict[str, Goal] = {}

    def goal(self, name: str) -> Goal:
        """The goal of a listed name's value."""
        found = self._goals.get(name)
        if found is None:
            found = self._goals[name] = self.goals.of(self._parts[name])
        return found


class ArraySpec:
    """``goal(i)``: of the item at index i; ``low``/``high``: bounds on the count."""

    __slots__ = ("_goals", "goals", "high", "low", "nodes", "number", "positions")

    def __init__(
        self, number: int, nodes: Sequence[Node], goals: Goals, low: int, high: int
    ) -> None:
        self.number = number
        self.nodes = nodes
        self.goals = goals
        self.low = low
        self.high = high
        #: From this index on every item has the same goal.
        self.positions = max((len(n.prefix) for n in nodes), default=0)
        self._goals: dict[int, Goal] = {}

    def goal(self, index: int) -> Goal:
        index = min(index, self.positions)
        found = self._goals.get(index)
        if found is None:
            parts = [n.prefix[index] if index < len(n.prefix) else n.items for n in self.nodes]
            found = self._goals[index] = self.goals.of([p for p in parts if p is not None])
        return found


class Shapes:
    """Makes and keeps the specifications of one schema."""

    def __init__(self, goals: Goals, options: JsonOptions) -> None:
        self.goals = goals
        self.options = options
        self._count = 0
        self._constants: dict[Any, Node] = {}

    def objects(self, conjunction: Conjunction) -> list[ObjectSpec]:
        """The alternatives of a conjunction for objects (several only under ``enum``)."""
        if "object" not in conjunction.kinds:
            conjunction.kinds["object"] = (
                [] if not conjunction.types & OBJECT else self._objects(conjunction)
            )
        found: list[ObjectSpec] = conjunction.kinds["object"]
        return found

    def arrays(self, conjunction: Conjunction) -> list[ArraySpec]:
        """The alternatives of a conjunction for arrays (several only under ``enum``)."""
        if "array" not in conjunction.kinds:
            conjunction.kinds["array"] = (
                [] if not conjunction.types & ARRAY else self._arrays(conjunction)
            )
        found: list[ArraySpec] = conjunction.kinds["array"]
        return found

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _listed(self, conjunction: Conjunction, kind: int) -> list[Any]:
        assert conjunction.enum is not None
        nodes = conjunction.nodes
        return [v for v in conjunction.enum if type_of(v) == kind and satisfies_own(v, nodes)]

    def _constant(self, value: Any) -> Node:
        key = json_key(value)
        node = self._constants.get(key)
        if node is None:
            node = self._constants[key] = Node((1 << 40) + len(self._constants), "")
            node.enums = ([value],)
            kind = type_of(value)
            node.types = NUMBER if kind & NUMBER else kind  # by value, however it is spelled
            node.asserts = True
        return node

    def _objects(self, conjunction: Conjunction) -> list[ObjectSpec]:
        if conjunction.enum is not None:
            return [
                ObjectSpec(
                    self._next(), {k: (self._constant(v),) for k, v in value.items()},
                    frozenset(value), (), self.goals,
                )
                for value in self._listed(conjunction, OBJECT)
            ]  # fmt: skip
        nodes = [n for n in conjunction.nodes if n.constrains_object]
        declared: dict[str, None] = {}
        for node in nodes:
            declared.update(dict.fromkeys(node.properties or ()))
        undeclared = [r for n in nodes for r in n.required if r not in declared]
        required = frozenset(r for n in nodes for r in n.required)
        parts = {name: _parts(nodes, name) for name in (*declared, *undeclared)}
        closed = (
            self.options.additional_properties_default != "allow"
            and any(n.properties for n in nodes)
            and all(n.additional is None for n in nodes)
        )
        rest = [n.additional for n in nodes if n.additional is not None]
        other: Goal = () if closed else self.goals.of(rest)
        return [ObjectSpec(self._next(), parts, required, other, self.goals)]

    def _arrays(self, conjunction: Conjunction) -> list[ArraySpec]:
        if conjunction.enum is not None:
            found = []
            for value in self._listed(conjunction, ARRAY):
                exact = Node(-1, "")
                exact.prefix = tuple(self._constant(v) for v in value)
                found.append(ArraySpec(self._next(), [exact], self.goals, len(value), len(value)))
            return found
        nodes = [n for n in conjunction.nodes if n.constrains_array]
        low = max((n.min_items for n in nodes), default=0)
        highs = [n.max_items for n in nodes if n.max_items is not None]
        high = min([*highs, UNBOUNDED])
        return [ArraySpec(self._next(), nodes, self.goals, low, high)] if low <= high else []


def _parts(nodes: Sequence[Node], name: str) -> tuple[Node, ...]:
    parts = []
    for node in nodes:
        if node.properties is not None and name in node.properties:
            parts.append(node.properties[name])
        elif node.additional is not None:
            parts.append(node.additional)
    return tuple(parts)
