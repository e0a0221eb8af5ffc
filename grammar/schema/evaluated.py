"""``unevaluatedProperties`` and ``unevaluatedItems``: what the keywords beside them leave.

Which members are evaluated depends on which branches hold. So the alternatives of such a schema
are unfolded with what each *covers* (every combination of ``anyOf`` branches is one of its own),
and each gets a node that says the rest with ``additionalProperties`` or ``items``. JSON Schema
2020-12, sections 11.2 and 11.3.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from grammar.errors import Unsatisfiable
from grammar.schema.node import Node

if TYPE_CHECKING:
    from grammar.schema.goal import Branches, Goals

Branch = frozenset[Node]


class Coverage(NamedTuple):
    """Members and items that some keyword has evaluated."""

    names: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    all_members: bool = False
    num_items: int = 0
    all_items: bool = False
    contained: frozenset[Node] = frozenset()  # items of these schemas

    def union(self, other: Coverage) -> Coverage:
        """What either covers."""
        return Coverage(
            self.names | other.names,
            self.patterns | other.patterns,
            self.all_members or other.all_members,
            max(self.num_items, other.num_items),
            self.all_items or other.all_items,
            self.contained | other.contained,
        )


#: An alternative and what it covers.
Covered = list[tuple[Branch, Coverage]]
NOTHING = Coverage()


class Evaluated:
    """Alternatives with what they cover, for the nodes of one schema."""

    def __init__(self, goals: Goals) -> None:
        self._goals = goals
        self._of_node: dict[int, Covered] = {}
        self._open: set[int] = set()

    def of(self, node: Node) -> Covered:
        """The alternatives of a node. Raises as ``Goals.of``."""
        found = self._of_node.get(node.number)
        if found is None:
            if node.number in self._open:
                message = "the reference leads back to itself without consuming anything"
                raise Unsatisfiable(message, node.pointer)
            self._open.add(node.number)
            try:
                found = self._unfold(node)
            finally:
                self._open.discard(node.number)
            self._of_node[node.number] = found
        return found

    def _unfold(self, node: Node) -> Covered:
        goals = self._goals
        own = frozenset([node]) if node.has_own else frozenset()
        found: Covered = [(own, _own(node))]
        for part in (*node.refs, *node.all_of):
            found = self._meet(found, self.of(part), node)
        for choice in node.any_of:
            found = self._meet(found, self._some(choice, node), node)
        if node.one_of:
            found = self._meet(found, self._exactly_one(node), node)
        for part in node.nots:
            found = self._meet(found, _bare(goals.negate(part)), node)
        for test, then, otherwise in node.conditions:
            yes = self.of(test) if then is None else self._meet(self.of(test), self.of(then), node)
            no = _bare(goals.negate(test))
            if otherwise is not None:
                no = self._meet(no, self.of(otherwise), node)
            found = self._meet(found, [*yes, *no], node)
        return [self._with_rest(node, *each) for each in found]

    def _some(self, choice: tuple[Node, ...], node: Node) -> Covered:
        """Every combination of branches of an ``anyOf``."""
        found: Covered = []
        for size in range(1, len(choice) + 1):
            for chosen in itertools.combinations(choice, size):
                together: Covered = [(frozenset(), NOTHING)]
                for each in chosen:
                    together = self._meet(together, self.of(each), node)
                found += together
                self._goals.check_number(found, node)
        return found

    def _exactly_one(self, node: Node) -> Covered:
        found: Covered = []
        for i, branch in enumerate(node.one_of):
            only = self.of(branch)
            for other in self._goals.beside(node, i):
                only = self._meet(only, _bare(self._goals.negate(other)), node)
            found += only
        return found

    def _meet(self, left: Covered, right: Covered, node: Node) -> Covered:
        self._goals.check_number(left, node, len(right))
        found: dict[tuple[Branch, Coverage], None] = {}
        for (a, covered), (b, more) in itertools.product(left, right):
            both = a | b
            if not self._goals.is_contradiction(both):
                found[both, covered.union(more)] = None
        return list(found)

    def _with_rest(self, node: Node, branch: Branch, covered: Coverage) -> tuple[Branch, Coverage]:
        """The alternative with what the node says of members and items nobody has evaluated."""
        rest = []
        if node.unevaluated_properties is not None:
            if not covered.all_members:
                rest.append(self._members(node, covered))
            covered = covered._replace(all_members=True)
        if node.unevaluated_items is not None:
            if not covered.all_items:
                rest.append(self._items(node, covered))
            covered = covered._replace(all_items=True)
        return branch.union(rest), covered

    def _members(self, node: Node, covered: Coverage) -> Node:
        anything = self._goals.negations.anything

        def fill(made: Node) -> None:
            made.properties = dict.fromkeys(sorted(covered.names), anything)
            made.pattern_properties = tuple((p, anything) for p in sorted(covered.patterns))
            made.additional = node.unevaluated_properties

        key = (node.number, "members", covered.names, covered.patterns)
        return self._goals.negations.make(key, node.pointer, fill)

    def _items(self, node: Node, covered: Coverage) -> Node:
        negations = self._goals.negations
        assert node.unevaluated_items is not None
        choices = (
            node.unevaluated_items,
            *sorted(covered.contained, key=lambda each: each.number),
        )

        def either(made: Node) -> None:
            made.any_of = (choices,)

        def fill(made: Node) -> None:
            made.prefix = (negations.anything,) * covered.num_items
            made.items = negations.make((node.number, choices), node.pointer, either)

        key = (node.number, "items", covered.num_items, covered.contained)
        return negations.make(key, node.pointer, fill)


def _bare(branches: Branches) -> Covered:
    """Alternatives that cover nothing: what is negated leaves no annotations."""
    return [(branch, NOTHING) for branch in branches]


def _own(node: Node) -> Coverage:
    if node.is_made:
        return NOTHING
    return Coverage(
        names=frozenset(node.properties or ()),
        patterns=frozenset(text for text, _ in node.pattern_properties),
        all_members=node.additional is not None,
        num_items=len(node.prefix),
        all_items=node.items is not None,
        contained=frozenset(each.value for each in node.contains if each.evaluates),
    )
