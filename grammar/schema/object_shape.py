"""Several specifications of one object side by side: what each says of every key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from grammar.lexemes import KeyLexeme
from grammar.schema.array_spec import UNBOUNDED
from grammar.schema.goal import Goal
from grammar.schema.members import choose, supply
from grammar.schema.shape import ObjectSpec

if TYPE_CHECKING:
    from grammar.schema.program import Program

Flags = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]


class Shape:
    """Labels of all keys (``space``) and what the specifications allow and require.

    ``permits`` bool[specifications, labels]: whether a key can have a value at all;
    ``required`` bool[specifications, names]; ``satisfiable``: whether any object is one.
    """

    def __init__(self, program: Program, number: int, specs: tuple[ObjectSpec, ...]) -> None:
        self.program = program
        self.number = number
        self.specs = specs
        names = dict.fromkeys(name for spec in specs for name in spec.names)
        predicates = dict.fromkeys(p for spec in specs for p in spec.predicates)
        self.space = program.key_space(tuple(names), tuple(predicates))
        self.num_names = n = len(self.space.names)
        self.num_labels = self.space.num_labels
        self.permits = np.zeros((len(specs), self.num_labels), dtype=np.bool_)
        self.required = np.zeros((len(specs), n), dtype=np.bool_)
        satisfiable = program.costs.satisfiable
        for row, spec in enumerate(specs):
            known: dict[int, bool] = {}  # labels that are not listed share their goals
            for label in range(self.num_labels):
                goal = self.goal(row, label)
                if id(goal) not in known:
                    known[id(goal)] = bool(goal) and satisfiable(goal)
                self.permits[row, label] = known[id(goal)]
            self.required[row] = [name in spec.required for name in self.space.names]
        self.satisfiable = [self._is_satisfiable(row) for row in range(len(specs))]
        #: Members that are counted one by one; beyond, their number no longer matters.
        self.cap = max((_cap(spec) for spec in specs), default=0)
        #: How often each class may still be written matters where its keys end.
        self.limited = [
            (n + place, supply(each))
            for place, each in enumerate(self.space.classes)
            if each.count >= 0
        ]
        self._demands: dict[tuple[int, int], tuple[int, ...]] = {}

    def _is_satisfiable(self, row: int) -> bool:
        spec = self.specs[row]
        index = self.space.index
        if any(n not in index or not self.permits[row, index[n]] for n in spec.required):
            return False
        if not spec.is_counted:
            return True
        return choose(spec, self.program.space_of(spec), self.program.costs.of) is not None

    def goal(self, row: int, label: int, demand: int = -1) -> Goal:
        """The goal of the value under a key for one specification.

        ``demand``: the group of the specification's demands that the member is to meet besides.
        """
        spec = self.specs[row]
        group = () if demand < 0 else spec.demands[demand]
        return spec.goal(self.space.name(label), self.space.holds[label], group)

    def demands(self, row: int, label: int) -> tuple[int, ...]:
        """The demands of a specification that a member with this key can meet."""
        key = (row, label)
        found = self._demands.get(key)
        if found is None:
            spec, name = self.specs[row], self.space.name(label)
            found = self._demands[key] = tuple(
                k
                for k, group in enumerate(spec.demands)
                if name not in spec.names
                and spec.meets(group, name, self.space.holds[label])
                and (goal := self.goal(row, label, k))
                and self.program.costs.satisfiable(goal)
            )
        return found

    def lexeme(self, allowed: Flags) -> KeyLexeme:
        """The lexeme of the keys whose labels are allowed; names are left out by return points."""
        return self.space.lexeme(frozenset(np.flatnonzero(allowed[self.num_names :]).tolist()))


def _cap(spec: ObjectSpec) -> int:
    high = spec.high if spec.high < UNBOUNDED else 0
    return max(spec.low, high, len(spec.demands))
