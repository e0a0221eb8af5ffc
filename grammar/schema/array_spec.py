"""What a conjunction says of arrays, and how one of its arrays can be completed."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence

from grammar.errors import TooComplex, UnsupportedError
from grammar.schema.goal import Goal, Goals
from grammar.schema.members import INFINITE
from grammar.schema.node import Contains, Node

UNBOUNDED = 1 << 31
MAX_CONTAINS = 4  # of one array: items are told apart by the set they belong to
MAX_STEPS = 20_000  # of one search for a completion

#: Items so far that each ``contains`` counts, saturated where more does not matter.
Counts = tuple[int, ...]


class ArraySpec:
    """``low``/``high``: bounds on the number of items; ``contains``: kinds that are counted;
    ``unique``: no two items are the same.

    Raises TooComplex (max_branches) for more than ``MAX_CONTAINS`` kinds, and UnsupportedError
    where distinct items could run out in a way that is not looked for.
    """

    __slots__ = (
        "_goals", "_plans", "contains", "goals", "high", "low", "nodes", "number", "positions",
        "start", "unique",
    )  # fmt: skip

    def __init__(self, number: int, nodes: Sequence[Node], goals: Goals) -> None:
        self.number = number
        self.nodes = nodes
        self.goals = goals
        self.low = max((n.min_items for n in nodes), default=0)
        highs = [n.max_items for n in nodes if n.max_items is not None]
        self.high = min([*highs, UNBOUNDED])
        self.contains = tuple(each for n in nodes for each in n.contains)
        if len(self.contains) > MAX_CONTAINS:
            message = f"{len(self.contains)} contains for one array, at most {MAX_CONTAINS}"
            raise TooComplex(message, nodes[0].pointer, "max_branches")
        #: From this index on every item has the same goal.
        self.positions = max(
            [0, *(len(n.prefix) for n in nodes), *(each.start for each in self.contains)]
        )
        self.start: Counts = (0,) * len(self.contains)
        self.unique = any(n.unique for n in nodes)
        self._check_unique()
        self._goals: dict[object, Goal] = {}
        self._plans: dict[object, list[tuple[Goal, Counts]] | None] = {}

    @property
    def is_distinct(self) -> bool:
        """Whether a shortest array has items that must differ from each other."""
        return self.unique and self.low > 1

    def _check_unique(self) -> None:
        """Refuse what would need to know which items are left for which position.

        Where at most one item has to come, or all that have to come are of one kind, any distinct
        items so far leave enough: the one that has to come is of a kind that none of them is, and
        of a kind with as many values as are needed some are left.
        """
        if not self.unique:
            return
        bounded = any(each.high is not None for each in self.contains)
        if (
            (self.low > 1 and (self.positions > 0 or self.contains))
            or any(each.low > 1 for each in self.contains)
            or (bounded and len(self.contains) > 1)
        ):
            where = next(n for n in self.nodes if n.unique).pointer
            message = "uniqueItems is not enforced beside minItems or contains that ask for "
            message += "several items of different kinds"
            raise UnsupportedError(message, f"{where}/uniqueItems", "uniqueItems")

    @property
    def cap(self) -> int:
        """Items beyond this number need not be counted."""
        return max(self.low, self.positions, self.high if self.high < UNBOUNDED else 0)

    def goal(self, index: int, *more: Node) -> Goal:
        """Of the item at ``index``, which is to satisfy ``more`` besides."""
        index = min(index, self.positions)
        key = (index, more)
        found = self._goals.get(key)
        if found is None:
            parts = [n.prefix[index] if index < len(n.prefix) else n.items for n in self.nodes]
            found = self.goals.of([*(p for p in parts if p is not None), *more])
            self._goals[key] = found
        return found

    def may_end(self, index: int, counts: Counts) -> bool:
        """Whether an array of ``index`` items is whole."""
        return index >= self.low and all(
            count >= each.low for count, each in zip(counts, self.contains, strict=True)
        )

    def options(self, index: int, counts: Counts) -> list[tuple[Goal, Counts]]:
        """What the item at ``index`` may be: its goal, and the counts after it."""
        if not self.contains:
            return [(self.goal(index), counts)]
        choices = [
            self._choices(index, count, each)
            for count, each in zip(counts, self.contains, strict=True)
        ]
        found = []
        for chosen in itertools.product(*choices):
            more = tuple(node for node, _ in chosen if node is not None)
            found.append((self.goal(index, *more), tuple(count for _, count in chosen)))
        return found

    def _choices(self, index: int, count: int, each: Contains) -> list[tuple[Node | None, int]]:
        """(what the item must be besides, count after it) for one ``contains``."""
        if index < each.start or (each.high is None and count >= each.low):
            return [(None, count)]
        if each.high is None:
            return [(each.value, count + 1), (None, count)]
        others = (self.goals.negations.negated(each.value), count)
        return [(each.value, count + 1), others] if count < each.high else [others]

    def all_goals(self) -> list[Goal]:
        """Every goal that an item of a shortest array can have."""
        found = {}
        for index in range(self.positions + 1):
            kinds = [
                [None] if index < each.start
                else [each.value, None if each.high is None else self._negated(each)]
                for each in self.contains
            ]  # fmt: skip
            for chosen in itertools.product(*kinds):
                goal = self.goal(index, *(node for node in chosen if node is not None))
                found[id(goal)] = goal
        return list(found.values())

    def _negated(self, each: Contains) -> Node:
        return self.goals.negations.negated(each.value)

    def plan(
        self, index: int, counts: Counts, price: Callable[[Goal], int], *, kept: bool
    ) -> list[tuple[Goal, Counts]] | None:
        """The cheapest further items (goal, counts after it) that make the array whole.

        None where there are none. Dijkstra's algorithm over (items, room, counts). ``kept``:
        prices are final, so the answer may be remembered. Raises TooComplex (max_solver_steps).
        """
        key = (*self._saturated(index), counts)
        if kept and key in self._plans:
            return self._plans[key]
        found = self._search(index, counts, price)
        if kept:
            self._plans[key] = found
        return found

    def _saturated(self, index: int) -> tuple[int, int]:
        """(items, room for more) as far as they can matter."""
        needed = self.low + self.positions + sum(each.low for each in self.contains) + 1
        return min(index, max(self.low, self.positions)), min(self.high - index, needed)

    def _search(
        self, index: int, counts: Counts, price: Callable[[Goal], int]
    ) -> list[tuple[Goal, Counts]] | None:
        order = itertools.count()
        heap: list[tuple[int, int, int, Counts, tuple[object, ...]]] = [
            (0, next(order), index, counts, ())
        ]
        seen = set()
        steps = 0
        while heap:
            cost, _, at, held, path = heapq.heappop(heap)
            if self.may_end(at, held):
                return _unrolled(path)
            state = (*self._saturated(at), held)
            if state in seen or at >= self.high:
                continue
            seen.add(state)
            steps += 1
            if steps > MAX_STEPS:
                message = "finding a shortest array takes too long"
                raise TooComplex(message, self.nodes[0].pointer, "max_solver_steps")
            for goal, after in self.options(at, held):
                more = price(goal)
                if more < INFINITE:
                    step = (goal, after)
                    heapq.heappush(
                        heap, (cost + more + 1, next(order), at + 1, after, (path, step))
                    )
        return None


def _unrolled(path: tuple[object, ...]) -> list[tuple[Goal, Counts]]:
    found = []
    while path:
        path, step = path  # type: ignore[assignment]
        found.append(step)
    return found[::-1]  # type: ignore[return-value]
