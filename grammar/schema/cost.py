"""Certified completion: the shortest text of every conjunction, or that it has none.

Least fixpoint over the goals reached through *required* edges only (optional subtrees of huge
schemas are never visited), by rounds until nothing improves: the costs are superior functions in
the sense of Knuth, "A generalization of Dijkstra's algorithm" (1977), so the values found are
the minima. A conjunction with a cost has a concrete text, ``text()``, which every automaton
state relies on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grammar.errors import TooComplex
from grammar.regex import Spelling, spell
from grammar.schema.distinct import shortest_texts
from grammar.schema.evaluate import satisfies_own
from grammar.schema.goal import Conjunction, Goal
from grammar.schema.keys import Predicate
from grammar.schema.members import INFINITE, Chosen, choose
from grammar.schema.node import ARRAY, BOOLEAN, INTEGER, NULL, NUMBER, OBJECT, STRING

if TYPE_CHECKING:
    from grammar.schema.array_spec import ArraySpec
    from grammar.schema.program import Program
    from grammar.schema.shape import ObjectSpec

#: (cost, type bit, index of the alternative within the type, containers inside each other)
Best = tuple[int, int, int, int]
NO_PREDICATES: frozenset[Predicate] = frozenset()
NONE: Best = (INFINITE, 0, 0, 0)
_LITERALS = ((NULL, None, b"null"), (BOOLEAN, True, b"true"), (BOOLEAN, False, b"false"))


class Costs:
    """Shortest texts of one schema."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._best: dict[int, Best] = {}
        self._scalar: dict[tuple[int, str], int] = {}
        self._texts: dict[int, bytes] = {}
        #: Items of shortest arrays of different items, by specification; those now looked for,
        #: and the costs found meanwhile, of which some may be missing only for that.
        self._distinct: dict[int, list[bytes] | None] = {}
        self._open: set[int] = set()
        self._inner: dict[int, Best] = {}
        self.steps = 0
        #: Whether compiling is over: from then on nothing raises (decision 6).
        self.settled = False
        #: A limit that left a goal without a text, "" when none did.
        self.exceeded = ""

    def of(self, goal: Goal) -> int:
        """Bytes of the shortest text of a goal; INFINITE when it has none."""
        return min((self.best(c)[0] for c in goal), default=INFINITE)

    def satisfiable(self, goal: Goal) -> bool:
        """Whether a goal has a text, without looking deeper than needed."""
        return any(self._obvious(c) or self.best(c)[0] < INFINITE for c in goal)

    def cheapest(self, goal: Goal) -> tuple[int, Conjunction]:
        """(index, conjunction) with the shortest text."""
        return min(enumerate(goal), key=lambda pair: self.best(pair[1])[0])

    def literals(self, conjunction: Conjunction) -> list[bytes]:
        """``null``, ``true``, ``false`` as far as the conjunction allows them."""
        return [
            text
            for bit, value, text in _LITERALS
            if conjunction.types & bit
            and self.program.spellable(text)
            and (not conjunction.is_listed or satisfies_own(value, conjunction.nodes))
        ]

    def best(self, conjunction: Conjunction) -> Best:
        """The cheapest way to write a value of the conjunction."""
        known = self._inner if self._open else self._best
        found = self._best.get(conjunction.number) or known.get(conjunction.number)
        if found is None:
            self.steps = 0
            try:
                known.update(self._solve(conjunction))
            except TooComplex:
                if not self.settled:
                    raise
                self.program.pruned += 1
                known[conjunction.number] = NONE
            found = known[conjunction.number]
        return found

    def _obvious(self, conjunction: Conjunction) -> bool:
        if conjunction.is_listed or not self.program.ascii_spellable:
            return False
        types = conjunction.types
        if types & (NULL | BOOLEAN):
            return True
        nodes = conjunction.nodes
        if types & STRING and not any(n.constrains_string for n in nodes):
            return True
        if types & ARRAY and not any(n.min_items or n.contains for n in nodes):
            return True
        if types & OBJECT and not any(n.required or n.min_properties or n.some for n in nodes):
            return True
        return bool(types & NUMBER and not any(n.constrains_number for n in nodes))

    def _obvious_zero(self, conjunction: Conjunction) -> bool:
        """Whether ``0`` is a value: nothing is shorter."""
        return bool(
            conjunction.types & INTEGER
            and self.program.ascii_spellable
            and conjunction.enum is None
            and not any(n.constrains_number for n in conjunction.nodes)
        )

    def _solve(self, root: Conjunction) -> dict[int, Best]:
        order = [root]
        reached = {root.number}
        for conjunction in order:  # grows while it is read
            for goal in self._required(conjunction):
                for member in goal:
                    if member.number not in reached and member.number not in self._best:
                        reached.add(member.number)
                        order.append(member)
            self._tick(root)
        table = dict.fromkeys(reached, NONE)
        changed = True
        while changed:
            changed = False
            for conjunction in reversed(order):
                best = self._evaluate(conjunction, table)
                self._tick(root)
                if best[0] < table[conjunction.number][0]:
                    table[conjunction.number] = best
                    changed = True
        return table

    def _tick(self, root: Conjunction) -> None:
        self.steps += 1
        if self.steps > self.program.limits.max_solver_steps:
            message = "finding a shortest text takes too long"
            where = root.nodes[0].pointer if root.nodes else ""
            raise TooComplex(message, where, "max_solver_steps")

    def _required(self, conjunction: Conjunction) -> list[Goal]:
        found: list[Goal] = []
        for spec in self.program.shapes.objects(conjunction):
            if spec.may_be_empty:
                continue
            if spec.is_plain:
                found.extend(spec.goal(n, NO_PREDICATES) for n in spec.names if n in spec.required)
                continue
            space = self.program.space_of(spec)
            needs_more = spec.low > len(spec.required)
            for label, holds in enumerate(space.holds):
                name = space.name(label)
                if needs_more or name in spec.required:
                    found.append(spec.goal(name, holds))
                found.extend(
                    spec.goal(None, holds, demand)
                    for demand in spec.demands
                    if name not in spec.names and spec.meets(demand, name, holds)
                )
        for array in self.program.shapes.arrays(conjunction):
            if array.contains:
                found.extend(array.all_goals())
            else:
                found.extend(array.goal(i) for i in range(min(array.low, array.positions + 1)))
        return found

    def _evaluate(self, conjunction: Conjunction, table: dict[int, Best]) -> Best:
        if self._obvious_zero(conjunction):
            return (1, NUMBER, 0, 0)
        options: list[Best] = [
            (len(text), BOOLEAN, i, 0) for i, text in enumerate(self.literals(conjunction))
        ]
        if conjunction.types & STRING:
            options.append((self._scalar_cost(conjunction, "string"), STRING, 0, 0))
        if conjunction.types & NUMBER:
            options.append((self._scalar_cost(conjunction, "number"), NUMBER, 0, 0))

        for i, spec in enumerate(self.program.shapes.objects(conjunction)):
            options.append(self._object(spec, i, table))
        for i, array in enumerate(self.program.shapes.arrays(conjunction)):
            options.append(self._array(array, i, table))
        return self._within_limits(min(options, default=NONE))

    def _known(self, goal: Goal, table: dict[int, Best]) -> Best:
        """The cheapest way of a goal so far."""
        return min(
            ((self._best.get(c.number) or table.get(c.number, NONE)) for c in goal),
            key=_price,
            default=NONE,
        )

    def _object(self, spec: ObjectSpec, index: int, table: dict[int, Best]) -> Best:
        gap = self.program.gap
        if spec.may_be_empty:
            return (2, OBJECT, index, 1)
        if spec.is_plain:
            members = self._required_members(spec)
        else:
            members = choose(
                spec, self.program.space_of(spec), lambda goal: self._known(goal, table)[0]
            )
        if members is None:
            return NONE
        values = [self._known(goal, table) for _, goal in members]
        total = 2 + max(0, len(members) - 1) * (1 + gap)
        total += sum(len(text) + 1 + gap for text, _ in members)
        total += sum(value[0] for value in values)
        return (total, OBJECT, index, 1 + max((value[3] for value in values), default=0))

    def _required_members(self, spec: ObjectSpec) -> list[Chosen] | None:
        """The required members in generation order; None when a key cannot be spelled."""
        found = []
        for name in spec.names:
            if name in spec.required:
                text = self.program.key_text(name)
                if text is None:
                    return None
                found.append(Chosen(text, spec.goal(name, NO_PREDICATES)))
        return found

    def _members(self, spec: ObjectSpec) -> list[Chosen]:
        """The members of the shortest object of a specification that has one."""
        if spec.may_be_empty:
            return []
        if spec.is_plain:
            members = self._required_members(spec)
        else:
            members = choose(spec, self.program.space_of(spec), self.of)
        assert members is not None, "asked for the members of an empty specification"
        return members

    def _array(self, array: ArraySpec, index: int, table: dict[int, Best]) -> Best:
        if array.contains:
            return self._counted_array(array, index, table)
        if array.is_distinct:
            return self._distinct_array(array, index, table)
        total = 2 + max(0, array.low - 1) * (1 + self.program.gap)
        height = 0
        for k in range(min(array.low, array.positions + 1)):
            item = self._known(array.goal(k), table)
            total += item[0] * (1 if k < array.positions else array.low - array.positions)
            height = max(height, item[3])
        return (total, ARRAY, index, height + 1)

    def _counted_array(self, array: ArraySpec, index: int, table: dict[int, Best]) -> Best:
        items = array.plan(0, array.start, lambda goal: self._known(goal, table)[0], kept=False)
        if items is None:
            return NONE
        values = [self._known(goal, table) for goal, _ in items]
        total = 2 + max(0, len(items) - 1) * (1 + self.program.gap)
        height = 1 + max((value[3] for value in values), default=0)
        return (total + sum(value[0] for value in values), ARRAY, index, height)

    def _distinct_array(self, array: ArraySpec, index: int, table: dict[int, Best]) -> Best:
        item = self._known(array.goal(0), table)
        if item[0] >= INFINITE:  # not yet known, or impossible
            return NONE
        texts = self.distinct(array)
        if texts is None:
            return NONE
        total = 1 + len(texts) * 1 + (len(texts) - 1) * self.program.gap + sum(map(len, texts))
        return (total, ARRAY, index, item[3] + 1)

    def distinct(self, array: ArraySpec) -> list[bytes] | None:
        """The items of a shortest array of different items; None where there are too few."""
        if array.number in self._distinct:
            return self._distinct[array.number]
        if array.number in self._open:  # an item that requires such an array inside itself
            return None
        self._open.add(array.number)
        try:
            texts = shortest_texts(self.program, array.goal(0), array.low, array.nodes[0].pointer)
        finally:
            self._open.discard(array.number)
            if not self._open:
                self._inner.clear()
        found = texts if len(texts) == array.low else None
        if not self._open:
            self._distinct[array.number] = found
        return found

    def _items(self, array: ArraySpec) -> list[Goal]:
        """The goals of the items of the shortest array of a specification that has one."""
        if array.contains:
            items = array.plan(0, array.start, self.of, kept=True)
            assert items is not None, "asked for the items of an empty specification"
            return [goal for goal, _ in items]
        if array.is_distinct:
            return [array.goal(0)]
        goals = [array.goal(i) for i in range(min(array.low, array.positions))]
        if array.low > array.positions:
            goals += [array.goal(array.positions)] * (array.low - array.positions)
        return goals

    def _within_limits(self, best: Best) -> Best:
        limits = self.program.limits
        if best[0] >= INFINITE:
            return NONE
        if best[3] > limits.max_depth:
            self.exceeded = "max_depth"
            return NONE
        if best[0] > limits.max_output_bytes:
            self.exceeded = "max_output_bytes"
            return NONE
        return best

    def _scalar_cost(self, conjunction: Conjunction, kind: str) -> int:
        key = (conjunction.number, kind)
        found = self._scalar.get(key)
        if found is None:
            try:
                found = self.program.scalar_cost(conjunction, kind)
            except TooComplex:
                self.program.pruned += 1
                found = INFINITE
            self._scalar[key] = found
        return found

    def text(self, conjunction: Conjunction) -> bytes:
        """The shortest text of a conjunction that has one."""
        found = self._texts.get(conjunction.number)
        if found is not None:
            return found
        stack = [conjunction]  # inner texts first: schemas nest deeper than Python may recurse
        while stack:
            top = stack[-1]
            if top.number in self._texts:
                stack.pop()
                continue
            inner = [c for c in self._inside(top) if c.number not in self._texts]
            if inner:
                stack.extend(inner)
            else:
                stack.pop()
                self._texts[top.number] = self._write(top)
        return self._texts[conjunction.number]

    def _inside(self, conjunction: Conjunction) -> list[Conjunction]:
        """What the shortest text of a conjunction is made of."""
        _, kind, index, _ = self.best(conjunction)
        if kind == OBJECT:
            spec = self.program.shapes.objects(conjunction)[index]
            goals = [goal for _, goal in self._members(spec)]
        elif kind == ARRAY:
            array = self.program.shapes.arrays(conjunction)[index]
            goals = list({id(goal): goal for goal in self._items(array)}.values())
        else:
            return []
        return [self.cheapest(goal)[1] for goal in goals]

    def goal_text(self, goal: Goal) -> bytes:
        """The shortest text of a goal that has one."""
        return self.text(self.cheapest(goal)[1])

    def _write(self, conjunction: Conjunction) -> bytes:
        cost, kind, index, _ = self.best(conjunction)
        assert cost < INFINITE, "asked for the text of an empty goal"
        program = self.program
        if kind == BOOLEAN:
            return self.literals(conjunction)[index]
        if kind in (STRING, NUMBER):
            return program.scalar_text(conjunction, "string" if kind == STRING else "number")
        if kind == OBJECT:
            spec = program.shapes.objects(conjunction)[index]
            members = [
                text + program.colon + self.goal_text(goal) for text, goal in self._members(spec)
            ]
            return b"{" + program.comma.join(members) + b"}"
        array = program.shapes.arrays(conjunction)[index]
        if array.is_distinct:
            items = self.distinct(array) or []
        else:
            items = [self.goal_text(goal) for goal in self._items(array)]
        return b"[" + program.comma.join(items) + b"]"


def _price(best: Best) -> int:
    return best[0]


def key_spelling(name: str) -> bytes:
    """The one spelling of a key, with its quotes."""
    return b'"' + spell(name, Spelling.KEY) + b'"'
