"""Inside an array: which alternatives are alive and how many items are done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from grammar.arena import Arena
from grammar.kernels import UNKNOWN
from grammar.schema.goal import Conjunction
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
from grammar.schema.shape import UNBOUNDED, ArraySpec
from grammar.schema.vector import Mapping, vector_of

if TYPE_CHECKING:
    from grammar.schema.program import Program

#: (bit of the outer vector, specification)
Alternatives = tuple[tuple[int, ArraySpec], ...]


def open_array(
    arena: Arena, continuation: Continuation, members: list[tuple[int, Conjunction]]
) -> int:
    """The state after ``[``."""
    shapes = continuation.program.shapes
    alternatives = tuple((bit, spec) for bit, m in members for spec in shapes.arrays(m))
    at = ArrayAt(arena, continuation, alternatives, (1 << len(alternatives)) - 1, 0)
    at = at.pruned(arena)
    return at.value(arena, first=True) if at.alive else 0


class ArrayAt:
    """A position between items: ``count`` items done (saturated where it cannot matter)."""

    def __init__(
        self, arena: Arena, outer: Continuation, alternatives: Alternatives, alive: int, count: int
    ) -> None:
        self.outer = outer
        self.alternatives = alternatives
        self.alive = alive
        self.count = count
        specs = tuple(s.number for _, s in alternatives)
        self.key = arena.number(("array", outer.key, alive, count, specs))

    @property
    def program(self) -> Program:
        return self.outer.program

    def living(self) -> list[tuple[int, int, ArraySpec]]:
        """(index, outer bit, specification) of the alternatives still alive."""
        return [(i, b, s) for i, (b, s) in enumerate(self.alternatives) if self.alive >> i & 1]

    def pruned(self, arena: Arena) -> ArrayAt:
        """The same position without the alternatives that cannot be completed."""
        kept = self.completable()
        if kept == self.alive:
            return self
        return ArrayAt(arena, self.outer, self.alternatives, kept, self.count)

    def completable(self) -> int:
        """The alive alternatives that can still reach their least count."""
        costs = self.program.costs
        kept = 0
        for i, _, spec in self.living():
            needed = range(self.count, min(spec.low, spec.positions + 1))
            if self.count <= spec.high and all(costs.satisfiable(spec.goal(k)) for k in needed):
                kept |= 1 << i
        return kept

    @property
    def close_bits(self) -> int:
        """Outer bits satisfied if the array ends here."""
        return sum_bits(b for _, b, s in self.living() if s.low <= self.count)

    def close(self, arena: Arena) -> int:
        return self.outer.then(arena, self.close_bits)

    def growing(self) -> list[tuple[int, int, ArraySpec]]:
        """The alive alternatives that allow one more item."""
        costs = self.program.costs
        deep = self.outer.depth >= self.program.limits.max_depth  # only what ends the array
        return [
            (i, b, s)
            for i, b, s in self.living()
            if self.count < (s.low if deep else s.high) and costs.satisfiable(s.goal(self.count))
        ]

    def value(self, arena: Arena, *, first: bool) -> int:
        """The state where the next item starts; ``first``: the array may also end."""
        growing = self.growing()
        goals = [(i, s.goal(self.count)) for i, _, s in growing]
        vector, mapping = vector_of(goals)
        element = Element(arena, self, vector, mapping)
        if not growing and not (first and self.close_bits):
            return 0
        closing = self if first else None
        return arena.place(
            ("value", element.key, first),
            lambda: Value(element, space=True, closing=closing),
        )

    def after_item(self, arena: Arena, alive: int) -> ArrayAt:
        count = self.count + 1
        cap = 0
        for _, spec in self.alternatives:
            high = spec.high if spec.high < UNBOUNDED else 0
            cap = max(cap, spec.low, spec.positions, high)
        after = ArrayAt(arena, self.outer, self.alternatives, alive, min(count, cap))
        return after.pruned(arena)


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
        alive = sum_bits(i for i, mine in self.mapping if mine & bits)
        after = self.at.after_item(arena, alive)
        if not after.alive:
            return 0
        return arena.place(("after item", after.key), lambda: AfterItem(after))


class AfterItem(BasePlace):
    """After an item: ``,`` or ``]``."""

    def __init__(self, at: ArrayAt) -> None:
        self.at = at
        self.depth = at.outer.depth + 1
        self.grows = bool(at.growing())

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
        if self.at.close_bits:
            return b"]", self.at.close(arena)
        program = self.at.program
        goals = [(i, s.goal(self.at.count)) for i, _, s in self.at.growing()]
        vector, mapping = vector_of(goals)
        bit, member = program.costs.cheapest(vector)
        state = Element(arena, self.at, vector, mapping).then(arena, 1 << bit)
        return program.comma + program.costs.text(member), state


def sum_bits(positions: object) -> int:
    """The set of bit positions as an integer."""
    bits = 0
    for position in positions:  # type: ignore[attr-defined]
        bits |= 1 << position
    return bits
