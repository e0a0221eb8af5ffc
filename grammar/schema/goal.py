"""Goals: what a value must satisfy, as alternatives of conjunctions.

A *goal* is a tuple of ``Conjunction``s: the value must satisfy at least one (disjunctive normal
form, after ``$ref``, ``allOf``, ``anyOf`` are unfolded). A conjunction is a set of nodes of
which every own keyword must hold. Both are interned per schema, so equal goals share states,
costs and lexemes.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from grammar.errors import TooComplex, Unsatisfiable, UnsupportedError
from grammar.options import Limits
from grammar.schema.node import ALL_TYPES, Node

Goal = tuple["Conjunction", ...]


class Conjunction:
    """Nodes whose own keywords all hold. ``number`` orders and hashes; ``types`` is their meet."""

    __slots__ = ("_enum", "kinds", "nodes", "number", "types")

    def __init__(self, number: int, nodes: tuple[Node, ...]) -> None:
        self.number = number
        self.nodes = nodes
        types = ALL_TYPES
        for node in nodes:
            types &= node.types
        self.types = types
        self._enum: list[Any] | bool | None = False
        #: The projections (string, number, object, array specification), filled by their owners.
        self.kinds: dict[str, Any] = {}

    @property
    def enum(self) -> list[Any] | None:
        """The values that every ``enum``/``const`` lists, or None when there is none."""
        if self._enum is False:
            lists = [values for node in self.nodes for values in node.enums]
            if not lists:
                self._enum = None
            else:
                kept: dict[Any, Any] = {}
                for value in lists[0]:
                    kept.setdefault(json_key(value), value)
                for other in lists[1:]:
                    keys = {json_key(value) for value in other}
                    kept = {k: v for k, v in kept.items() if k in keys}
                self._enum = list(kept.values())
        assert not isinstance(self._enum, bool)
        return self._enum


def json_key(value: Any) -> Any:
    """A hashable key: equal exactly for equal JSON values (1 = 1.0, true != 1)."""
    if isinstance(value, bool) or value is None:
        return ("constant", value)
    if isinstance(value, int | Decimal):
        return ("number", Decimal(value).normalize() if value else Decimal(0))
    if isinstance(value, str):
        return ("string", value)
    if isinstance(value, list):
        return ("array", tuple(json_key(v) for v in value))
    return ("object", frozenset((k, json_key(v)) for k, v in value.items()))


class Goals:
    """Unfolds nodes into goals and interns them."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._conjunctions: dict[tuple[int, ...], Conjunction] = {}
        self._of_node: dict[int, list[frozenset[Node]]] = {}
        self._goals: dict[tuple[int, ...], Goal] = {}
        self._open: set[int] = set()
        self.anything: Goal = (self._conjunction(frozenset()),)

    def of(self, nodes: Sequence[Node]) -> Goal:
        """The goal "all of these nodes"."""
        key = tuple(sorted({node.number for node in nodes}))
        goal = self._goals.get(key)
        if goal is None:
            branches: list[frozenset[Node]] = [frozenset()]
            for node in nodes:
                branches = self._meet(branches, self._unfold(node), node)
            found = {
                self._conjunction(branch).number: self._conjunction(branch) for branch in branches
            }
            goal = tuple(c for c in found.values() if c.types and c.enum != [])
            if len(found) > 1 and any(not c.nodes for c in goal):
                goal = self.anything
            self._goals[key] = goal
        return goal

    def _conjunction(self, nodes: frozenset[Node]) -> Conjunction:
        key = tuple(sorted(node.number for node in nodes))
        conjunction = self._conjunctions.get(key)
        if conjunction is None:
            ordered = tuple(sorted(nodes, key=lambda node: node.number))
            conjunction = Conjunction(len(self._conjunctions), ordered)
            self._conjunctions[key] = conjunction
        return conjunction

    def _unfold(self, node: Node) -> list[frozenset[Node]]:
        """The alternatives of one node, each a set of nodes whose own keywords must hold."""
        found = self._of_node.get(node.number)
        if found is not None:
            return found
        if node.number in self._open:
            message = "the reference leads back to itself without consuming anything"
            raise Unsatisfiable(message, node.pointer)
        self._open.add(node.number)
        try:
            own = frozenset([node]) if _has_own(node) else frozenset()
            branches = [own]
            for part in (*node.refs, *node.all_of):
                branches = self._meet(branches, self._unfold(part), node)
            for choice in node.any_of:
                branches = self._meet(branches, self._choices(choice), node)
            if node.one_of:
                self._check_disjoint(node)
                branches = self._meet(branches, self._choices(node.one_of), node)
        finally:
            self._open.discard(node.number)
        self._of_node[node.number] = branches
        return branches

    def _choices(self, nodes: tuple[Node, ...]) -> list[frozenset[Node]]:
        found: dict[frozenset[Node], None] = {}
        for branch in nodes:
            found.update(dict.fromkeys(self._unfold(branch)))
        return list(found)

    def _meet(
        self, left: list[frozenset[Node]], right: list[frozenset[Node]], node: Node
    ) -> list[frozenset[Node]]:
        if len(left) == 1 and not next(iter(left)):
            return right
        if len(left) * len(right) > self.limits.max_branches:
            message = f"more than {self.limits.max_branches} alternatives"
            raise TooComplex(message, node.pointer, "max_branches")
        return list(dict.fromkeys(a | b for a in left for b in right))

    def _check_disjoint(self, node: Node) -> None:
        """``oneOf`` is enforced where its branches cannot overlap; then it is ``anyOf``."""
        seen: list[list[frozenset[Node]]] = []
        for branch in node.one_of:
            mine = self._unfold(branch)
            for theirs in seen:
                if not all(_disjoint(a, b) for a in mine for b in theirs):
                    message = "oneOf with branches that may overlap is not enforced yet"
                    raise UnsupportedError(message, f"{node.pointer}/oneOf", "oneOf")
            seen.append(mine)


def _has_own(node: Node) -> bool:
    return bool(
        node.types != ALL_TYPES or node.enums or node.constrains_object or node.constrains_array
        or node.constrains_string or node.constrains_number
    )  # fmt: skip


def _disjoint(a: frozenset[Node], b: frozenset[Node]) -> bool:
    """Whether no value satisfies both: by type, by listed values, by a required key's values."""
    left, right = Conjunction(0, tuple(a)), Conjunction(0, tuple(b))
    if not left.types & right.types:
        return True
    if left.enum is not None and right.enum is not None:
        return not {json_key(v) for v in left.enum} & {json_key(v) for v in right.enum}
    if left.types & right.types != 1 << 2:
        return False
    return any(
        _apart(mine, theirs)
        for name in _required(left) & _required(right)
        for mine in _values(left, name)
        for theirs in _values(right, name)
    )


def _required(conjunction: Conjunction) -> set[str]:
    return {name for node in conjunction.nodes for name in node.required}


def _values(conjunction: Conjunction, name: str) -> list[Node]:
    return [n.properties[name] for n in conjunction.nodes if n.properties and name in n.properties]


def _apart(a: Node, b: Node) -> bool:
    if a.refs or b.refs:
        return False
    return _disjoint(frozenset([a]), frozenset([b]))
