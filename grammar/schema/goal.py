"""Goals: what a value must satisfy, as alternatives of conjunctions.

A *goal* is a tuple of ``Conjunction``s: the value must satisfy at least one (disjunctive normal
form, after ``$ref``, ``allOf``, ``anyOf`` are unfolded). A conjunction is a set of nodes of
which every own keyword must hold. Both are interned per schema, so equal goals share states,
costs and lexemes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grammar.errors import GrammarError, TooComplex, Unsatisfiable, UnsupportedError
from grammar.options import Limits
from grammar.schema.equality import json_key
from grammar.schema.evaluated import Evaluated
from grammar.schema.negation import Negations
from grammar.schema.node import ALL_TYPES, OBJECT, Node

Goal = tuple["Conjunction", ...]
#: Alternatives, each a set of nodes of which every own keyword holds.
Branches = list[frozenset[Node]]

MAX_PAIRS = 20_000  # combinations of alternatives looked at in one step
MAX_COMPARED = 300  # alternatives compared with each other to drop what is included


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

    @property
    def is_listed(self) -> bool:
        """Whether some values are listed, as the only ones or as excluded."""
        return self.enum is not None or any(node.excluded for node in self.nodes)


class Goals:
    """Unfolds nodes into goals and interns them."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._conjunctions: dict[tuple[int, ...], Conjunction] = {}
        self.negations = Negations()
        self.evaluated = Evaluated(self)
        self._of_node: dict[int, Branches] = {}
        self._of_negation: dict[int, Branches] = {}
        self._contradictions: dict[frozenset[Node], bool] = {}
        self._goals: dict[tuple[int, ...], Goal] = {}
        self._open: set[int] = set()
        self.settled = False  # set when the root is known to be satisfiable
        self.pruned = 0
        self.anything: Goal = (self._conjunction(frozenset()),)

    def release(self) -> None:
        """Forget everything: conjunctions and what their owners made of them know each other."""
        for conjunction in self._conjunctions.values():
            conjunction.kinds.clear()
        self.negations.release()
        vars(self.evaluated).clear()
        vars(self).clear()

    def of(self, nodes: Sequence[Node]) -> Goal:
        """The goal "all of these nodes".

        Raises GrammarError for what cannot be enforced. Once ``settled`` such a goal is empty and
        counts as ``pruned``: whoever writes takes another way, and nothing is loosened.
        """
        key = tuple(sorted({node.number for node in nodes}))
        goal = self._goals.get(key)
        if goal is None:
            try:
                goal = self._made(nodes)
            except GrammarError:
                if not self.settled:
                    raise
                self.pruned += 1
                goal = ()
            self._goals[key] = goal
        return goal

    def _made(self, nodes: Sequence[Node]) -> Goal:
        if len(nodes) == 1 and not nodes[0].is_combined:
            return self._simple(nodes[0])
        branches: Branches = [frozenset()]
        for node in nodes:
            branches = self._meet(branches, self._unfold(node), node)
        made = map(self._conjunction, branches)
        found = {conjunction.number: conjunction for conjunction in made}
        goal = tuple(c for c in found.values() if c.types and c.enum != [])
        if len(found) > 1 and any(not c.nodes for c in goal):
            return self.anything
        return goal

    def _simple(self, node: Node) -> Goal:
        """The goal of a node to which nothing else applies."""
        if not node.has_own:
            return self.anything
        conjunction = self._conjunction(frozenset([node]))
        return (conjunction,) if conjunction.types and conjunction.enum != [] else ()

    def _conjunction(self, nodes: frozenset[Node]) -> Conjunction:
        key = tuple(sorted(node.number for node in nodes))
        conjunction = self._conjunctions.get(key)
        if conjunction is None:
            ordered = tuple(sorted(nodes, key=lambda node: node.number))
            conjunction = Conjunction(len(self._conjunctions), ordered)
            self._conjunctions[key] = conjunction
        return conjunction

    def _unfold(self, node: Node) -> Branches:
        """The alternatives of one node, each a set of nodes whose own keywords must hold."""
        found = self._of_node.get(node.number)
        if found is not None:
            return found
        if node.number in self._open:
            message = "the reference leads back to itself without consuming anything"
            raise Unsatisfiable(message, node.pointer)
        self._open.add(node.number)
        try:
            if node.has_rest:
                alternatives = [branch for branch, _ in self.evaluated.of(node)]
                found = self._of_node[node.number] = self._reduced(alternatives, node)
                return found
            branches = [frozenset([node]) if node.has_own else frozenset()]
            for part in (*node.refs, *node.all_of):
                branches = self._meet(branches, self._unfold(part), node)
            for choice in node.any_of:
                branches = self._meet(branches, self._choices(choice), node)
            if node.one_of:
                branches = self._meet(branches, self._exactly_one(node), node)
            for part in node.nots:
                branches = self._meet(branches, self.negate(part), node)
            for condition in node.conditions:
                branches = self._meet(branches, self._conditional(node, *condition), node)
        finally:
            self._open.discard(node.number)
        self._of_node[node.number] = branches
        return branches

    def negate(self, node: Node) -> Branches:
        """The alternatives of "not this node"."""
        found = self._of_negation.get(node.number)
        if found is not None:
            return found
        if ~node.number in self._open:
            message = "the reference leads back to itself without consuming anything"
            raise Unsatisfiable(message, node.pointer)
        if node.has_rest:
            members = node.unevaluated_properties is not None
            keyword = "unevaluatedProperties" if members else "unevaluatedItems"
            message = f"the negation of {keyword} is not enforced"
            raise UnsupportedError(message, f"{node.pointer}/{keyword}", keyword)
        self._open.add(~node.number)
        try:
            branches: Branches = []
            for nodes in self.negations.keywords(node):
                branches += self._all(nodes, node)
            for part in (*node.refs, *node.all_of):
                branches += self.negate(part)
            for part in node.nots:
                branches += self._unfold(part)
            for choice in node.any_of:
                branches += self._none(choice, node)
            if node.one_of:
                branches += self._none(node.one_of, node) + self._two(node)
            for test, then, otherwise in node.conditions:
                if then is not None:
                    branches += self._meet(self._unfold(test), self.negate(then), node)
                if otherwise is not None:
                    branches += self._meet(self.negate(test), self.negate(otherwise), node)
        finally:
            self._open.discard(~node.number)
        branches = self._reduced(branches, node)
        self._of_negation[node.number] = branches
        return branches

    def _all(self, nodes: Sequence[Node], node: Node) -> Branches:
        branches: Branches = [frozenset()]
        for each in nodes:
            branches = self._meet(branches, self._unfold(each), node)
        return branches

    def _none(self, nodes: Sequence[Node], node: Node) -> Branches:
        branches: Branches = [frozenset()]
        for each in nodes:
            branches = self._meet(branches, self.negate(each), node)
        return branches

    def _two(self, node: Node) -> Branches:
        """At least two branches of a ``oneOf``."""
        branches: Branches = []
        for i, left in enumerate(node.one_of):
            for right in node.one_of[:i]:
                branches += self._meet(self._unfold(left), self._unfold(right), node)
        return branches

    def _conditional(
        self, node: Node, test: Node, then: Node | None, otherwise: Node | None
    ) -> Branches:
        yes, no = self._unfold(test), self.negate(test)
        if then is not None:
            yes = self._meet(yes, self._unfold(then), node)
        if otherwise is not None:
            no = self._meet(no, self._unfold(otherwise), node)
        return self._reduced([*yes, *no], node)

    def _exactly_one(self, node: Node) -> Branches:
        """One branch of a ``oneOf`` and none of those that could hold beside it."""
        branches: Branches = []
        for i, branch in enumerate(node.one_of):
            only = self._unfold(branch)
            for other in self.beside(node, i):
                only = self._meet(only, self.negate(other), node)
            branches += only
        return self._reduced(branches, node)

    def beside(self, node: Node, place: int) -> list[Node]:
        """The branches of a ``oneOf`` that could hold beside the one at ``place``."""
        mine = self._unfold(node.one_of[place])
        return [
            other
            for i, other in enumerate(node.one_of)
            if i != place and not all(_disjoint(a, b) for a in mine for b in self._unfold(other))
        ]

    def check_number(self, branches: Sequence[object], node: Node, times: int = 1) -> None:
        """Raises TooComplex where a step would look at too many alternatives."""
        if len(branches) * times > MAX_PAIRS:
            raise self._too_many(node)

    def _choices(self, nodes: tuple[Node, ...]) -> Branches:
        found: dict[frozenset[Node], None] = {}
        for branch in nodes:
            found.update(dict.fromkeys(self._unfold(branch)))
        return list(found)

    def _meet(self, left: Branches, right: Branches, node: Node) -> Branches:
        if len(left) == 1 and not left[0]:
            return right
        if len(right) == 1 and not right[0]:
            return left
        self.check_number(left, node, len(right))
        return self._reduced([a | b for a in left for b in right], node)

    def _reduced(self, branches: Branches, node: Node) -> Branches:
        """Without contradictions, repetitions, and what another alternative includes."""
        found = list(dict.fromkeys(b for b in branches if not self.is_contradiction(b)))
        if 1 < len(found) <= MAX_COMPARED:
            found.sort(key=len)
            kept: Branches = []
            for branch in found:
                if not any(other <= branch for other in kept):
                    kept.append(branch)
            found = sorted(kept, key=_numbers) if len(kept) < len(found) else found
        if len(found) > self.limits.max_branches:
            raise self._too_many(node)
        return found

    def _too_many(self, node: Node) -> TooComplex:
        message = f"more than {self.limits.max_branches} alternatives"
        return TooComplex(message, node.pointer, "max_branches")

    def is_contradiction(self, nodes: frozenset[Node]) -> bool:
        """Whether plainly no value satisfies all of the nodes."""
        found = self._contradictions.get(nodes)
        if found is None:
            if len(self._contradictions) > MAX_PAIRS:
                self._contradictions.clear()
            found = self._contradictions[nodes] = _contradict(nodes)
        return found


def _numbers(branch: frozenset[Node]) -> list[int]:
    return sorted(node.number for node in branch)


def _contradict(nodes: frozenset[Node]) -> bool:
    types = ALL_TYPES
    for node in nodes:
        types &= node.types
    if types != OBJECT:
        return not types
    required = {name for node in nodes for name in node.required}
    return any(
        node.properties is not None and name in node.properties and not node.properties[name].types
        for node in nodes
        for name in required
    )


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
