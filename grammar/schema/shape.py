"""Object and array specifications: a conjunction's keywords for one container type, merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grammar.errors import GrammarError, TooComplex
from grammar.schema.array_spec import UNBOUNDED, ArraySpec
from grammar.schema.equality import json_key
from grammar.schema.evaluate import satisfies_own, type_of
from grammar.schema.goal import Conjunction, Goal, Goals
from grammar.schema.keys import Predicate
from grammar.schema.node import ARRAY, NUMBER, OBJECT, Node, Some

if TYPE_CHECKING:
    from grammar.schema.program import Program

#: (further schemas of listed names, groups of demands that other keys meet)
_Way = tuple[dict[str, tuple[Node, ...]], tuple[tuple[Some, ...], ...]]


class ObjectSpec:
    """What a conjunction says of objects.

    ``names``: declared then undeclared required ones, in generation order; ``required``: those
    that must come; ``low``/``high``: bounds on the count of members; ``demands``: groups of
    ``Some``, for each group one more key that is not listed must satisfy all of it.
    """

    __slots__ = (
        "_goals", "_nodes", "added", "closed", "demands", "goals", "high", "low", "names",
        "number", "predicates", "required",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        nodes: Sequence[Node],
        goals: Goals,
        *,
        closed: bool,
        added: Mapping[str, tuple[Node, ...]],
        demands: tuple[tuple[Some, ...], ...] = (),
    ) -> None:
        self.number = number
        self.goals = goals
        self.closed = closed
        self.demands = demands
        #: Further schemas of the values of listed names, which are then required.
        self.added = added
        self._nodes = nodes
        self.names = _names(nodes)
        self.required = frozenset([*(r for n in nodes for r in n.required), *added])
        self.low = max((n.min_properties for n in nodes), default=0)
        highs = [n.max_properties for n in nodes if n.max_properties is not None]
        self.high = min([*highs, UNBOUNDED])
        self.predicates = _predicates(nodes, demands)
        self._goals: dict[Any, Goal] = {}

    @property
    def may_be_empty(self) -> bool:
        """Whether ``{}`` satisfies it."""
        return not (self.required or self.low or self.demands)

    @property
    def is_plain(self) -> bool:
        """Whether a shortest object has the required members and no others."""
        return not (self.low or self.high < UNBOUNDED or self.demands or self.predicates)

    @property
    def is_counted(self) -> bool:
        """Whether the number of members matters."""
        return bool(self.low or self.high < UNBOUNDED or self.demands)

    def goal(
        self, name: str | None, holds: frozenset[Predicate], demand: tuple[Some, ...] = ()
    ) -> Goal:
        """The goal of the value under a key; () where the key is not allowed.

        ``name``: the key where it is listed; ``holds``: the predicates it satisfies;
        ``demand``: the group that the member is to satisfy besides.
        """
        listed = name if name in self.names else None
        key = (listed, holds, demand) if self.predicates or demand else listed
        found = self._goals.get(key)
        if found is None:
            parts = self._parts(listed, holds)
            if parts is None:
                found = ()
            else:
                found = self.goals.of([*parts, *(some.value for some in demand)])
            self._goals[key] = found
        return found

    def meets(
        self, demand: tuple[Some, ...], name: str | None, holds: frozenset[Predicate]
    ) -> bool:
        """Whether a key is of the kind that every member of a group asks for."""
        return all(
            name not in some.names
            and all(("pattern", text) in holds for text in some.matching)
            and not any(("pattern", text) in holds for text in some.missing)
            and (some.misnamed is None or ("names", some.misnamed) not in holds)
            for some in demand
        )

    def _parts(self, name: str | None, holds: frozenset[Predicate]) -> list[Node] | None:
        parts = list(self.added.get(name, ())) if name is not None else []
        matched = False
        for node in self._nodes:
            mine = []
            if node.properties is not None and name in node.properties:
                mine.append(node.properties[name])
            mine.extend(sub for text, sub in node.pattern_properties if ("pattern", text) in holds)
            matched |= bool(mine)
            if not mine and node.additional is not None:
                mine.append(node.additional)
            if node.property_names is not None and ("names", node.property_names) not in holds:
                return None
            parts.extend(mine)
        return None if self.closed and name is None and not matched else parts


def _names(nodes: Sequence[Node]) -> dict[str, None]:
    names: dict[str, None] = {}
    for node in nodes:
        names.update(dict.fromkeys(node.properties or ()))
    for node in nodes:
        names.update(dict.fromkeys(node.required))
    return names


def _predicates(
    nodes: Sequence[Node], demands: tuple[tuple[Some, ...], ...]
) -> tuple[Predicate, ...]:
    """What tells keys apart, each once."""
    found: dict[Predicate, None] = {}
    for node in nodes:
        found.update(dict.fromkeys(("pattern", text) for text, _ in node.pattern_properties))
        if node.property_names is not None:
            found["names", node.property_names] = None
    for some in (s for demand in demands for s in demand):
        found.update(dict.fromkeys(("pattern", t) for t in (*some.matching, *some.missing)))
        if some.misnamed is not None:
            found["names", some.misnamed] = None
    return tuple(found)


class Shapes:
    """Makes and keeps the specifications of one schema."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.goals = program.goals
        self.options = program.options
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
            conjunction.kinds["array"] = []
            try:
                if conjunction.types & ARRAY:
                    conjunction.kinds["array"] = self._arrays(conjunction)
            except GrammarError:
                if not self.goals.settled:
                    raise
                self.program.pruned += 1  # as where goals are made: another way is taken
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
            return [self._exactly(value) for value in self._listed(conjunction, OBJECT)]
        nodes = [n for n in conjunction.nodes if n.constrains_object]
        closed = (
            self.options.additional_properties_default != "allow"
            and any(n.properties for n in nodes if not n.is_made)
            and all(n.additional is None and not n.some for n in nodes)
            and max(n.min_properties for n in nodes) <= len(_names(nodes))
        )
        found = [
            ObjectSpec(
                self._next(), nodes, self.goals, closed=closed, added=added, demands=demands
            )
            for added, demands in self._demands(nodes)
        ]
        return [spec for spec in found if spec.low <= spec.high]

    def _exactly(self, value: dict[str, Any]) -> ObjectSpec:
        """One listed object."""
        node = Node(-1, "")
        node.properties = {name: self._constant(inner) for name, inner in value.items()}
        node.required = tuple(value)
        return ObjectSpec(self._next(), [node], self.goals, closed=True, added={})

    def _demands(self, nodes: Sequence[Node]) -> list[_Way]:
        """How the ``Some`` of the nodes can be met: by listed names, or by keys besides."""
        ways: list[_Way] = [({}, ())]
        names = _names(nodes)
        for some in (each for node in nodes for each in node.some):
            more: list[_Way] = []
            for added, groups in ways:
                more.extend(
                    ({**added, name: (*added.get(name, ()), some.value)}, groups)
                    for name in names
                    if self.program.is_of_kind(some, name)
                )
                more.append((added, (*groups, (some,))))
                more.extend(
                    (added, (*groups[:i], (*group, some), *groups[i + 1 :]))
                    for i, group in enumerate(groups)
                )
            ways = more
            if len(ways) > self.goals.limits.max_branches:
                message = f"more than {self.goals.limits.max_branches} alternatives"
                raise TooComplex(message, nodes[0].pointer, "max_branches")
        return ways

    def _arrays(self, conjunction: Conjunction) -> list[ArraySpec]:
        if conjunction.enum is not None:
            found = []
            for value in self._listed(conjunction, ARRAY):
                exact = Node(-1, "")
                exact.prefix = tuple(self._constant(v) for v in value)
                exact.min_items = exact.max_items = len(value)
                found.append(ArraySpec(self._next(), [exact], self.goals))
            return found
        nodes = [n for n in conjunction.nodes if n.constrains_array]
        spec = ArraySpec(self._next(), nodes, self.goals)
        return [spec] if spec.low <= spec.high else []
