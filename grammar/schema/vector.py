"""The vector of a child: the distinct conjunctions that several goals put on one value."""

from __future__ import annotations

from collections.abc import Sequence

from grammar.schema.goal import Conjunction, Goal

#: (alternative, bits of the vector of which one suffices)
Mapping = tuple[tuple[int, int], ...]


def vector_of(goals: Sequence[tuple[int, Goal]]) -> tuple[tuple[Conjunction, ...], Mapping]:
    """(alternative, its goal) -> (conjunctions, for each alternative the bits of its goal)."""
    if len(goals) == 1:
        index, goal = goals[0]
        return goal, ((index, (1 << len(goal)) - 1),)
    position: dict[int, int] = {}
    vector: list[Conjunction] = []
    mapping = []
    for index, goal in goals:
        bits = 0
        for conjunction in goal:
            at = position.setdefault(conjunction.number, len(vector))
            if at == len(vector):
                vector.append(conjunction)
            bits |= 1 << at
        mapping.append((index, bits))
    return tuple(vector), tuple(mapping)
