"""Postfix program -> Thompson automaton over sets of characters, in flat lists.

A fragment is a contiguous run of states with one entry and one exit whose ``out1`` dangles
(-1), so a counted repetition is made by copying list slices.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from grammar.errors import TooComplex
from grammar.options import Limits
from grammar.regex import charset
from grammar.regex.charset import Ranges
from grammar.regex.parse import Alternate, Assertion, Chars, Concat, Look, Op, Repeat

CHARS, SPLIT, ASSERT, FINAL, LOOK = range(5)


@dataclass(slots=True)
class Nfa:
    """States are numbers; ``kind[s]`` decides what the rest means.

    CHARS: reads a character of ``sets[arg]``, then ``out1``. SPLIT: to ``out1`` and ``out2``
    (-1: none) at once. ASSERT: to ``out1`` where the mask ``arg`` holds. FINAL: accept.
    LOOK: to ``out1`` where ``looks[arg]`` holds (until ``grammar.regex.look`` removes it).
    ``sink``: a state that accepts whatever follows, or -1.
    """

    kind: list[int] = field(default_factory=list)
    arg: list[int] = field(default_factory=list)
    out1: list[int] = field(default_factory=list)
    out2: list[int] = field(default_factory=list)
    sets: dict[Ranges, int] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    start: int = 0
    sink: int = -1

    def add(self, kind: int, arg: int = -1, out1: int = -1, out2: int = -1) -> int:
        """A new state."""
        self.kind.append(kind)
        self.arg.append(arg)
        self.out1.append(out1)
        self.out2.append(out2)
        return len(self.kind) - 1

    def set_id(self, ranges: Ranges) -> int:
        """The number of a set of characters."""
        return self.sets.setdefault(ranges, len(self.sets))

    def copy(self, begin: int, end: int) -> int:
        """Append a copy of the states begin..end; returns by how much they moved."""
        moved = len(self.kind) - begin
        self.kind += self.kind[begin:end]
        self.arg += self.arg[begin:end]
        self.out1 += [s + moved if s >= 0 else s for s in self.out1[begin:end]]
        self.out2 += [s + moved if s >= 0 else s for s in self.out2[begin:end]]
        return moved


@dataclass(slots=True)
class _Fragment:
    begin: int  # its states are begin .. the begin of the next one
    entry: int
    exit: int


def build(program: tuple[Op, ...], *, before: bool, after: bool, nul: bool, limits: Limits) -> Nfa:
    """The automaton of a parsed pattern.

    ``before``/``after``: whether any text may stand there (both: a search). ``nul``: whether a
    set with other members keeps U+0000. Raises TooComplex (max_nfa_states).
    """
    nfa = Nfa()
    universe = charset.ALL if nul else _without_nul(charset.ALL)
    nfa.start = nfa.add(SPLIT)
    if before:
        nfa.out2[nfa.start] = nfa.add(CHARS, nfa.set_id(universe), nfa.start)
    body = _Builder(nfa, nul=nul, limits=limits).run(program)
    nfa.out1[nfa.start] = body.entry
    final = nfa.add(FINAL)
    nfa.out1[body.exit] = final
    if after:
        loop = nfa.add(SPLIT, out1=final)
        nfa.out2[loop] = nfa.add(CHARS, nfa.set_id(universe), loop)
        nfa.out1[body.exit] = loop
        if nul or ((0, 0),) not in nfa.sets:
            nfa.sink = loop
    return nfa


def _without_nul(ranges: Ranges) -> Ranges:
    if ranges and ranges[0][0] == 0 and ranges != ((0, 0),):
        return charset.difference(ranges, ((0, 0),))
    return ranges


class _Builder:
    def __init__(self, nfa: Nfa, *, nul: bool, limits: Limits) -> None:
        self.nfa = nfa
        self.nul = nul
        self.limits = limits
        self.stack: list[_Fragment] = []

    def run(self, program: tuple[Op, ...]) -> _Fragment:
        for op in program:
            if isinstance(op, Chars):
                ranges = op.ranges if self.nul else _without_nul(op.ranges)
                self.push(self.nfa.add(CHARS, self.nfa.set_id(ranges)))
            elif isinstance(op, Concat):
                self.concat(op.operands)
            elif isinstance(op, Alternate):
                self.alternate(op.operands)
            elif isinstance(op, Repeat):
                self.repeat(op.low, op.high)
            elif isinstance(op, Assertion):
                self.push(self.nfa.add(ASSERT, op.mask))
            else:
                self.nfa.looks.append(op)
                self.push(self.nfa.add(LOOK, len(self.nfa.looks) - 1))
        assert len(self.stack) == 1
        self.check(0)
        return self.stack.pop()

    def check(self, more: int) -> None:
        if len(self.nfa.kind) + more > self.limits.max_nfa_states:
            message = f"the pattern needs more than {self.limits.max_nfa_states} positions"
            raise TooComplex(message, limit="max_nfa_states")

    def push(self, state: int) -> None:
        self.stack.append(_Fragment(state, state, state))

    def concat(self, count: int) -> None:
        if count == 0:
            self.push(self.nfa.add(SPLIT))
            return
        parts = self.stack[-count:]
        del self.stack[-count:]
        for left, right in itertools.pairwise(parts):
            self.nfa.out1[left.exit] = right.entry
        self.stack.append(_Fragment(parts[0].begin, parts[0].entry, parts[-1].exit))

    def alternate(self, count: int) -> None:
        nfa = self.nfa
        parts = self.stack[-count:]
        del self.stack[-count:]
        join = nfa.add(SPLIT)
        entry = parts[-1].entry
        for part in reversed(parts[:-1]):
            entry = nfa.add(SPLIT, out1=part.entry, out2=entry)
        for part in parts:
            nfa.out1[part.exit] = join
        self.stack.append(_Fragment(parts[0].begin, entry, join))

    def star(self, part: _Fragment) -> _Fragment:
        split = self.nfa.add(SPLIT, out2=part.entry)
        self.nfa.out1[part.exit] = split
        return _Fragment(part.begin, split, split)

    def optional(self, part: _Fragment) -> _Fragment:
        join = self.nfa.add(SPLIT)
        split = self.nfa.add(SPLIT, out1=join, out2=part.entry)
        self.nfa.out1[part.exit] = join
        return _Fragment(part.begin, split, join)

    def repeat(self, low: int, high: int | None) -> None:
        part = self.stack.pop()
        if high == 0:
            self.concat(0)
        elif (low, high) == (0, None):
            self.stack.append(self.star(part))
        elif (low, high) == (1, None):
            split = self.nfa.add(SPLIT, out2=part.entry)
            self.nfa.out1[part.exit] = split
            self.stack.append(_Fragment(part.begin, part.entry, split))
        elif (low, high) == (0, 1):
            self.stack.append(self.optional(part))
        else:
            self.counted(part, low, high)

    def counted(self, part: _Fragment, low: int, high: int | None) -> None:
        """low copies in a row, then a star or nested optional copies that all skip to the end."""
        nfa = self.nfa
        end = len(nfa.kind)
        copies = low + 1 if high is None else high
        self.check((end - part.begin + 1) * (copies - 1))
        parts = [part]
        for _ in range(copies - 1):
            moved = nfa.copy(part.begin, end)
            parts.append(_Fragment(part.begin, part.entry + moved, part.exit + moved))
        if high is None:
            parts[-1] = self.star(parts[-1])
            join = parts[-1].exit
        else:
            join = nfa.add(SPLIT)
            for i in range(low, copies):
                split = nfa.add(SPLIT, out1=join, out2=parts[i].entry)
                parts[i] = _Fragment(part.begin, split, parts[i].exit)
            nfa.out1[parts[-1].exit] = join
        for left, right in itertools.pairwise(parts):
            nfa.out1[left.exit] = right.entry
        self.stack.append(_Fragment(part.begin, parts[0].entry, join))
