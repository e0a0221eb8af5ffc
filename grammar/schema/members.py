"""The members of a shortest object: the required ones, and what demands and counts add."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from grammar.schema.goal import Goal
from grammar.schema.keys import MAX_OF_CLASS, KeyClass, KeySpace

if TYPE_CHECKING:
    from grammar.schema.shape import ObjectSpec

INFINITE = 1 << 60


class Chosen(NamedTuple):
    """One member: its key as written (quotes included) and the goal of its value."""

    text: bytes
    goal: Goal


def supply(each: KeyClass) -> int:
    """How many keys of a class one object may write."""
    return MAX_OF_CLASS if each.count < 0 else min(each.count, MAX_OF_CLASS)


def choose(spec: ObjectSpec, space: KeySpace, price: Callable[[Goal], int]) -> list[Chosen] | None:
    """The cheapest members that satisfy ``spec``, in generation order; None when there are none.

    ``price(goal)``: bytes of a value, ``INFINITE`` where it has none. With several demands the
    choice need not be the cheapest there is, but it is one.
    """
    chosen: dict[int, Goal] = {}
    for name in spec.names:
        if name in spec.required:
            label = space.index.get(name)
            if label is None:
                return None
            chosen[label] = spec.goal(name, space.holds[label])
    others: list[Chosen] = []
    written = dict.fromkeys(range(len(space.names), space.num_labels), 0)
    for demand in spec.demands:
        ways = [
            (price(goal), label, goal)
            for label in range(space.num_labels)
            if label not in chosen and space.name(label) not in spec.names
            if spec.meets(demand, space.name(label), space.holds[label])
            if (goal := spec.goal(None, space.holds[label], demand))
        ]
        if not ways:
            return None
        _, label, goal = min(ways, key=_first_two)
        if label < len(space.names):
            chosen[label] = goal
        else:
            others.append(Chosen(space.fresh(label, written[label]), goal))
            written[label] += 1
    missing = spec.low - len(chosen) - len(others)
    if missing > 0:
        optional = _optional(spec, space, price, set(chosen), written)
        for _, label, goal, text in optional:
            if label < len(space.names):
                chosen[label] = goal
            else:
                others.append(Chosen(text, goal))
            missing -= 1
            if missing == 0:
                break
    if missing > 0 or len(chosen) + len(others) > spec.high:
        return None
    listed = [Chosen(space.texts[label], chosen[label]) for label in sorted(chosen)]
    found = [*listed, *others]
    return None if any(price(goal) >= INFINITE for _, goal in found) else found


def _first_two(way: tuple[int, int, Goal]) -> tuple[int, int]:
    return way[:2]


def _optional(
    spec: ObjectSpec,
    space: KeySpace,
    price: Callable[[Goal], int],
    taken: set[int],
    written: dict[int, int],
) -> Iterator[tuple[int, int, Goal, bytes]]:
    """Members that may be added, cheapest first: (price, label, goal, key)."""
    heap: list[tuple[int, int, Goal, bytes]] = []

    def offer(label: int, text: bytes) -> None:
        goal = spec.goal(space.name(label), space.holds[label])
        cost = price(goal)
        if cost < INFINITE:
            heapq.heappush(heap, (cost + len(text), label, goal, text))

    for label in range(len(space.names)):
        if label not in taken:
            offer(label, space.texts[label])
    for place, each in enumerate(space.classes):
        label = len(space.names) + place
        if written[label] < supply(each):
            offer(label, space.fresh(label, written[label]))
    while heap:
        way = heapq.heappop(heap)
        yield way
        label = way[1]
        if label >= len(space.names):
            written[label] += 1
            if written[label] < supply(space.classes[label - len(space.names)]):
                offer(label, space.fresh(label, written[label]))
