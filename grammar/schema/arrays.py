"""Inside an array: which alternatives are alive and how many items are done."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from grammar.arena import Arena
from grammar.kernels import UNKNOWN
from grammar.schema.array_spec import ArraySpec, Counts
from grammar.schema.goal import Conjunction, Goal
from grammar.schema.places import (
    CLOSE_ARRAY,
    COMMA,
    BasePlace,
    Continuation,
    Taken,
    Value,
    Way,
    allow_space,
    spaced,
)
from grammar.schema.vector import Mapping, vector_of

if TYPE_CHECKING:
    from grammar.schema.program import Program


class Alternative(NamedTuple):
    """One way to satisfy the array's goal, for the bit ``bit`` of the array's own vector."""

    bit: int
    spec: ArraySpec
    counts: Counts


#: What becomes of an alternative after an item, and what the item must satisfy.
Move = tuple[Alternative, Goal]


def open_array(
    arena: Arena, continuation: Continuation, members: list[tuple[int, Conjunction]]
) -> int:
    """The state after ``[``."""
    shapes = continuation.program.shapes
    alive = tuple(
        Alternative(bit, spec, spec.start) for bit, m in members for spec in shapes.arrays(m)
    )
    at = ArrayAt(arena, continuation, alive, 0)
    kept = tuple(each for each in alive if at.is_completable(each, 0))
    if not kept:
        return 0
    at = at if len(kept) == len(alive) else ArrayAt(arena, continuation, kept, 0)
    return at.value(arena, first=True)


class ArrayAt:
    """A position between items: ``count`` items done (saturated where it cannot matter)."""

    def __init__(
        self, arena: Arena, outer: Continuation, alive: tuple[Alternative, ...], count: int
    ) -> None:
        self.outer = outer
        self.alive = alive
        self.count = count
        named = tuple((bit, spec.number, counts) for bit, spec, counts in alive)
        self.key = arena.number(("array", outer.key, count, named))
        self._moves: list[Move] | None = None

    @property
    def program(self) -> Program:
        return self.outer.program

    def is_completable(self, alternative: Alternative, count: int) -> bool:
        """Whether an alternative can still become a whole array after ``count`` items."""
        spec, costs = alternative.spec, self.program.costs
        if count > spec.high or (spec.is_distinct and not costs.distinct(spec)):
            return False
        if spec.contains:
            return spec.plan(count, alternative.counts, costs.of, kept=True) is not None
        needed = range(count, min(spec.low, spec.positions + 1))
        return all(costs.satisfiable(spec.goal(k)) for k in needed)

    @property
    def close_bits(self) -> int:
        """Outer bits satisfied if the array ends here."""
        return sum_bits({b for b, spec, held in self.alive if spec.may_end(self.count, held)})

    def close(self, arena: Arena) -> int:
        return self.outer.then(arena, self.close_bits)

    def moves(self) -> list[Move]:
        """The alternatives that allow one more item."""
        if self._moves is None:
            deep = self.outer.depth >= self.program.limits.max_depth  # only what ends the array
            self._moves = [
                move
                for each in self.alive
                if self.count < each.spec.high
                and not (deep and each.spec.may_end(self.count, each.counts))
                for move in self._options(each)
            ]
        return self._moves

    def _options(self, alternative: Alternative) -> list[Move]:
        costs = self.program.costs
        found = []
        for goal, counts in alternative.spec.options(self.count, alternative.counts):
            if costs.satisfiable(goal):
                after = alternative._replace(counts=counts)
                if not counts or self.is_completable(after, self.count + 1):
                    found.append((after, goal))
        return found

    def element(self, arena: Arena) -> Element:
        """The continuation of the next item."""
        moves = self.moves()
        vector, mapping = vector_of([(i, goal) for i, (_, goal) in enumerate(moves)])
        return Element(arena, self, vector, mapping)

    def value(self, arena: Arena, *, first: bool) -> int:
        """The state where the next item starts; ``first``: the array may also end."""
        element = self.element(arena)
        if not self.moves() and not (first and self.close_bits):
            return 0
        closing = self if first else None
        unique = any(each.spec.unique for each, _ in self.moves())
        return arena.place(
            ("value", element.key, first),
            lambda: Value(element, space=True, closing=closing, starts_item=unique),
        )

    def after_item(self, arena: Arena, alive: list[Alternative]) -> ArrayAt:
        cap = max(each.spec.cap for each in self.alive)
        kept = [each for each in alive if each.counts or self.is_completable(each, self.count + 1)]
        return ArrayAt(arena, self.outer, _undominated(kept), min(self.count + 1, cap))

    def repeating(self, arena: Arena) -> ArrayAt:
        """The same position when two items are the same."""
        kept = tuple(each for each in self.alive if not each.spec.unique)
        return ArrayAt(arena, self.outer, kept, self.count)

    @property
    def lead(self) -> Alternative | None:
        """The alternative that a certified completion follows, where it matters which one."""
        return self.alive[0] if any(each.spec.is_distinct for each in self.alive) else None

    def lead_item(self, lead: Alternative) -> bytes:
        """The next item of a shortest array of an alternative."""
        spec, costs = lead.spec, self.program.costs
        if spec.is_distinct and self.count < spec.low:
            texts = costs.distinct(spec)
            assert texts is not None, "an array without a shortest one"
            return texts[self.count]
        plan = spec.plan(self.count, lead.counts, costs.of, kept=True)
        if plan:
            return costs.goal_text(plan[0][0])
        further = (goal for goal, _ in spec.options(self.count, lead.counts))
        return costs.goal_text(next(goal for goal in further if costs.satisfiable(goal)))


def _undominated(alive: list[Alternative]) -> tuple[Alternative, ...]:
    """Without those that have counted less than another that is otherwise the same.

    More is better only where nothing bounds the number from above.
    """
    found = list(dict.fromkeys(alive))
    if len(found) == 1:
        return tuple(found)

    def is_worse(each: Alternative, other: Alternative) -> bool:
        return (
            other is not each
            and other[:2] == each[:2]
            and all(
                mine == theirs or (mine < theirs and kind.high is None)
                for mine, theirs, kind in zip(
                    each.counts, other.counts, each.spec.contains, strict=True
                )
            )
        )

    return tuple(e for e in found if not any(is_worse(e, other) for other in found))


class Element(Continuation):
    """After an item."""

    __slots__ = ("at", "mapping")

    def __init__(
        self, arena: Arena, at: ArrayAt, vector: tuple[Conjunction, ...], mapping: Mapping
    ) -> None:
        merged = len({bits for _, bits in mapping}) == 1
        key = arena.number(("element", at.key))
        super().__init__(at.program, key, vector, at.outer.depth + 1, merged=merged)
        self.at = at
        self.mapping = mapping

    def then(self, arena: Arena, bits: int) -> int:
        moves = self.at.moves()
        after = self.at.after_item(arena, [moves[i][0] for i, mine in self.mapping if mine & bits])
        if not after.alive:
            return 0
        return _after_item(arena, after)


def _after_item(arena: Arena, at: ArrayAt) -> int:
    return arena.place(("after item", at.key), lambda: AfterItem(at))


class AfterItem(BasePlace):
    """After an item: ``,`` or ``]``."""

    def __init__(self, at: ArrayAt) -> None:
        self.at = at
        self.depth = at.outer.depth + 1
        self.grows = bool(at.moves())
        self.ends_item = any(each.spec.unique for each in at.alive)

    def repeated(self, arena: Arena) -> int:
        again = self.at.repeating(arena)
        return _after_item(arena, again) if again.alive else 0

    def fill(self, arena: Arena, row: npt.NDArray[np.int32]) -> None:
        del arena
        if self.grows:
            row[COMMA] = UNKNOWN
        if self.at.close_bits:
            row[CLOSE_ARRAY] = UNKNOWN
        allow_space(self.at.program, row)

    def follow(self, arena: Arena, byte: int) -> int:
        if byte == CLOSE_ARRAY:
            return self.at.close(arena)
        return spaced(arena, self.at.program, self.at.value(arena, first=False))

    def way(self, arena: Arena, taken: Taken = ()) -> Way:
        del taken
        at = self.at
        if at.close_bits and (at.lead is None or at.lead.spec.may_end(at.count, at.lead.counts)):
            return b"]", at.close(arena)
        text, state = next_item(arena, at)
        return at.program.comma + text, state


def next_item(arena: Arena, at: ArrayAt) -> tuple[bytes, int]:
    """A certified next item and the state after it."""
    costs = at.program.costs
    if at.lead is not None:
        text = at.lead_item(at.lead)
        return text, arena.read(at.value(arena, first=False), text)
    element = at.element(arena)
    goal: Goal = element.vector
    plans = [
        plan
        for each in at.alive
        if each.spec.contains
        and (plan := each.spec.plan(at.count, each.counts, costs.of, kept=True))
    ]
    if plans:  # an item brings the array nearer to its end only where it is counted
        best = min(plans, key=lambda plan: sum(costs.of(goal) + 1 for goal, _ in plan))
        goal = best[0][0]
    _, member = costs.cheapest(goal)
    return costs.text(member), element.then(arena, 1 << element.vector.index(member))


def sum_bits(positions: object) -> int:
    """The set of bit positions as an integer."""
    bits = 0
    for position in positions:  # type: ignore[attr-defined]
        bits |= 1 << position
    return bits
