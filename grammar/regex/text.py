"""Automata over characters, before anything is said about how a character is spelled.

Patterns, formats and lengths are combined here, where an automaton is small (one column per
class of characters, one step per character); ``grammar.regex.spelling`` then turns the result
into bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from grammar.automata import (
    Ints,
    column_classes_kernel,
    distances_kernel,
    minimize_table,
    product_table,
    too_many_states,
    trim_table,
)
from grammar.options import Limits
from grammar.regex.charset import ALL, Ranges


@dataclass(frozen=True, slots=True)
class Partition:
    """Characters -> classes: the one at ``starts[i]`` and on, up to ``starts[i+1]``, is in
    class ``classes[i]`` (-1: in none, no automaton reads it). ``starts[0]`` is 0."""

    starts: list[int]
    classes: list[int]

    def of(self, code: int) -> int:
        """The class of a character."""
        return self.classes[int(np.searchsorted(self.starts, code, side="right")) - 1]


def partition(sets: Sequence[Ranges]) -> tuple[Partition, list[int]]:
    """The coarsest partition that each set is a union of classes of.

    Also, per class, the bit set of the sets it belongs to.
    """
    toggles: dict[int, int] = {0: 0}
    for i, ranges in enumerate(sets):
        bit = 1 << i
        for low, high in ranges:
            toggles[low] = toggles.get(low, 0) ^ bit
            toggles[high + 1] = toggles.get(high + 1, 0) ^ bit
    starts: list[int] = []
    classes: list[int] = []
    number: dict[int, int] = {0: -1}
    signatures: list[int] = []
    bits = 0
    for at in sorted(toggles):
        bits ^= toggles[at]
        found = number.get(bits)
        if found is None:
            found = number[bits] = len(signatures)
            signatures.append(bits)
        if not classes or classes[-1] != found:
            starts.append(at)
            classes.append(found)
    return Partition(starts, classes), signatures


@dataclass(frozen=True, slots=True)
class TextDfa:
    """``table``: int32[n, classes]; ``accept``: int32[n], -1 or a label; state 0 is dead."""

    parts: Partition
    table: Ints
    accept: Ints
    start: int

    @property
    def is_empty(self) -> bool:
        """Whether no text is accepted."""
        return self.start == 0

    def run(self, text: str) -> int:
        """The state after ``text`` (0 when rejected)."""
        state = self.start
        for char in text:
            kind = self.parts.of(ord(char))
            state = int(self.table[state, kind]) if kind >= 0 else 0
        return state

    def matches(self, text: str) -> bool:
        """Whether ``text`` is accepted."""
        return bool(self.accept[self.run(text)] >= 0)

    def merged(self) -> TextDfa:
        """The same with classes merged that no state tells apart, dead ones dropped."""
        classes, count = column_classes_kernel(self.table)
        if self.table.shape[1] == count and self.table.any(axis=0).all():
            return self
        firsts = np.zeros(count, dtype=np.int64)
        firsts[classes[::-1]] = np.arange(len(classes) - 1, -1, -1)
        used = self.table[:, firsts].any(axis=0)
        number = np.where(used, np.cumsum(used) - 1, -1)[classes].tolist()
        starts: list[int] = []
        kinds: list[int] = []
        for at, kind in zip(self.parts.starts, self.parts.classes, strict=True):
            new = number[kind] if kind >= 0 else -1
            if not kinds or kinds[-1] != new:
                starts.append(at)
                kinds.append(new)
        table = np.ascontiguousarray(self.table[:, firsts[used]])
        return TextDfa(Partition(starts, kinds), table, self.accept, self.start)

    def longest(self) -> int | None:
        """Characters of the longest accepted text; None when there is no longest."""
        table, _, start = trim_table(self.table, self.accept, self.start)
        if start == 0:
            return 0
        n = len(table)
        indegree = np.zeros(n, dtype=np.int64)
        edges = [np.unique(row[row > 0]) for row in table]
        for targets in edges:
            indegree[targets] += 1
        depth = np.zeros(n, dtype=np.int64)
        ready = [s for s in range(1, n) if indegree[s] == 0]
        done = 0
        while ready:
            s = ready.pop()
            done += 1
            for t in edges[s].tolist():
                depth[t] = max(depth[t], depth[s] + 1)
                indegree[t] -= 1
                if indegree[t] == 0:
                    ready.append(t)
        return int(depth.max()) if done == n - 1 else None

    def example(self) -> str | None:
        """A shortest accepted text of plain printable characters where possible; None if none."""
        if self.start == 0:
            return None
        distance = distances_kernel(self.table, self.accept)
        letters = self._letters()
        out = []
        state = self.start
        while distance[state] > 0:
            row = self.table[state]
            near = np.flatnonzero((row > 0) & (distance[row] == distance[state] - 1))
            kind = min(near.tolist(), key=lambda k: _plainness(letters[k]))
            out.append(chr(letters[kind]))
            state = int(row[kind])
        return "".join(out)

    def _letters(self) -> list[int]:
        """A member of each class, the plainest among the first of its runs."""
        found = [-1] * self.table.shape[1]
        starts = self.parts.starts
        for at, kind in zip(starts, self.parts.classes, strict=True):
            if kind < 0:
                continue
            for code in (at, at + 1, max(at, 0x20), max(at, 0x61)):
                if self.parts.of(code) != kind or 0xD800 <= code < 0xE000:
                    continue
                if found[kind] < 0 or _plainness(code) < _plainness(found[kind]):
                    found[kind] = code
        return found

    def shortest(self) -> int | None:
        """Characters of the shortest accepted text; None when there is none."""
        if self.start == 0:
            return None
        distance = int(distances_kernel(self.table, self.accept)[self.start])
        return distance if distance >= 0 else None


def _plainness(code: int) -> tuple[int, int]:
    """Order of characters by the bytes of their plain spelling."""
    if 0x20 <= code < 0x7F and code not in (0x22, 0x5C):
        return 1, code
    return (2 if code in (0x22, 0x5C) or (code < 0x800 and code >= 0x7F) else 3, code)


def of_length(low: int, high: int | None, limits: Limits, universe: Ranges = ALL) -> TextDfa:
    """Texts of ``low`` to ``high`` characters. Raises TooComplex (max_dfa_states)."""
    last = low if high is None else high
    if last + 2 > limits.max_dfa_states:
        raise too_many_states(limits, f"a length of {last} characters")
    parts, _ = partition([universe])
    if high is not None and high < low:
        return TextDfa(parts, np.zeros((1, 1), np.int32), np.full(1, -1, np.int32), 0)
    table = np.arange(1, last + 3, dtype=np.int32).reshape(-1, 1)
    table[0] = 0
    table[-1] = last + 1 if high is None else 0
    accept = np.where(np.arange(last + 2) > low, 0, -1).astype(np.int32)
    return TextDfa(parts, table, accept, 1)


def combine(
    members: Sequence[TextDfa],
    keep: Callable[[int], bool],
    *,
    required: int = 0,
    limits: Limits | None = None,
) -> TextDfa:
    """``grammar.automata.product`` for text automata: labels are bit sets of members."""
    assert 0 < len(members) <= 31
    limits = limits or Limits()
    starts = sorted({at for member in members for at in member.parts.starts})
    columns = []
    for member in members:
        index = np.searchsorted(member.parts.starts, starts, side="right") - 1
        columns.append(np.array(member.parts.classes)[index])
    number: dict[tuple[int, ...], int] = {(-1,) * len(members): -1}
    kinds: list[int] = []
    for key in zip(*(column.tolist() for column in columns), strict=True):
        if key not in number:
            number[key] = len(number) - 1
        kinds.append(number[key])
    keys = [key for key in number if number[key] >= 0]
    tables = []
    for j, member in enumerate(members):
        padded = np.append(member.table, np.zeros((len(member.table), 1), np.int32), axis=1)
        tables.append(padded[:, [key[j] for key in keys]])  # class -1 is the column of zeros
    sizes = [len(member.accept) for member in members]
    table, accept, start = product_table(
        np.ascontiguousarray(np.concatenate(tables)),
        np.concatenate([member.accept for member in members]),
        np.cumsum([0, *sizes[:-1]]).astype(np.int64),
        np.array([member.start for member in members], dtype=np.int32),
        keep,
        required=required,
        limits=limits,
    )
    return TextDfa(Partition(starts, kinds), table, accept, start).merged()


def _unlabelled(dfa: TextDfa) -> TextDfa:
    table, accept, start = minimize_table(dfa.table, np.minimum(dfa.accept, 0), dfa.start)
    return TextDfa(dfa.parts, table, accept, start).merged()


def intersect(a: TextDfa, b: TextDfa, limits: Limits | None = None) -> TextDfa:
    """Texts of both."""
    return _unlabelled(combine([a, b], lambda bits: bits == 3, required=3, limits=limits))


def union(a: TextDfa, b: TextDfa, limits: Limits | None = None) -> TextDfa:
    """Texts of at least one."""
    return _unlabelled(combine([a, b], lambda bits: bits != 0, limits=limits))


def subtract(a: TextDfa, b: TextDfa, limits: Limits | None = None) -> TextDfa:
    """Texts of ``a`` that are not of ``b``."""
    return _unlabelled(combine([a, b], lambda bits: bits == 1, required=1, limits=limits))


def bounded(dfa: TextDfa, low: int, high: int | None, limits: Limits) -> TextDfa:
    """The texts of ``low`` to ``high`` characters; bounds that say nothing cost nothing."""
    if low <= (dfa.shortest() or 0):
        low = 0
    if high is not None:
        longest = dfa.longest()
        if longest is not None and longest <= high:
            high = None
    if low == 0 and high is None:
        return dfa
    return intersect(dfa, of_length(low, high, limits), limits)
