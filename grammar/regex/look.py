"""Removes lookaheads from an NFA: each becomes an obligation that a thread carries along.

A lookahead says that what follows does (not) begin with a text of its body. That is a regular
condition on the rest of the text, so a thread that passes one carries the state of a
deterministic automaton for "body, then anything", steps it with every character, dies when it is
lost and forgets it when it is won. The product of NFA states and sets of such obligations is a
plain NFA again, so a lookahead may stand anywhere: in branches, in loops, in lookaheads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from grammar.errors import TooComplex
from grammar.options import Limits
from grammar.regex.charset import LAST, Ranges, normalize
from grammar.regex.determinize import contexts, determinize
from grammar.regex.nfa import ASSERT, CHARS, FINAL, LOOK, SPLIT, Nfa, build
from grammar.regex.parse import TEXT_BEGIN, Alternate, Concat, Look, Op, Repeat
from grammar.regex.text import TextDfa, partition

#: (number of the automaton, its state)
Obligation = tuple[int, int]
Obligations = frozenset[Obligation]


@dataclass(slots=True)
class _Body:
    """Body-then-anything; ``won``: the state from which all is accepted, or -1."""

    negative: bool
    dfa: TextDfa
    won: int


def _universal(dfa: TextDfa) -> int:
    if -1 in dfa.parts.classes and any(
        kind < 0 and at <= LAST and not 0xD800 <= at < 0xE000
        for at, kind in zip(dfa.parts.starts, dfa.parts.classes, strict=True)
    ):
        return -1
    for state in range(1, len(dfa.accept)):
        if dfa.accept[state] >= 0 and (dfa.table[state] == state).all():
            return state
    return -1


def _class_ranges(dfa: TextDfa) -> list[Ranges]:
    ranges: list[list[tuple[int, int]]] = [[] for _ in range(dfa.table.shape[1])]
    ends = [*dfa.parts.starts[1:], LAST + 1]
    for at, end, kind in zip(dfa.parts.starts, ends, dfa.parts.classes, strict=True):
        if kind >= 0:
            ranges[kind].append((at, end - 1))
    return [tuple(r) for r in ranges]


def leading_looks(program: tuple[Op, ...], *, search: bool) -> tuple[list[Look], tuple[Op, ...]]:
    """The lookaheads that are tried only at the begin of the text, and the rest of the program.

    They are the usual ones (``^(?!this$|that$)...``), and cost least as an intersection of
    automata. In a search they must follow ``^``.
    """
    if not program or not isinstance(program[-1], Concat):
        return [], program
    begins: list[int] = []  # of the operands, each a run of ops
    for i, op in enumerate(program[:-1]):
        taken = op.operands if isinstance(op, Concat | Alternate) else isinstance(op, Repeat)
        begin = begins[-taken] if taken else i
        del begins[len(begins) - taken :]
        begins.append(begin)
    ends = [*begins, len(program) - 1][1:]
    leaves = [at for at, end in zip(begins, ends, strict=True) if end == at + 1]
    first = int(program[0] == TEXT_BEGIN)
    if search and not first:
        return [], program
    looks: list[Look] = []
    for at in range(first, len(program)):
        op = program[at]
        if at not in leaves or not isinstance(op, Look):
            break
        looks.append(op)
    rest = program[:first] + program[first + len(looks) : -1]
    return looks, (*rest, Concat(len(begins) - len(looks)))


def without_looks(nfa: Nfa, limits: Limits) -> Nfa:
    """The same language without LOOK states. Raises TooComplex."""
    return _Remover(nfa, limits).run() if nfa.looks else nfa


class _Remover:
    def __init__(self, nfa: Nfa, limits: Limits) -> None:
        self.old = nfa
        self.limits = limits
        self.new = Nfa()
        self.bodies: list[_Body] = []
        #: per lookahead: (mask of what stands before, automaton)
        self.variants: list[list[tuple[int, int]]] = [self.compile(look) for look in nfa.looks]
        self.sets = list(nfa.sets)
        self.classes()
        self.states: dict[tuple[int, Obligations], int] = {}
        self.todo: list[tuple[int, Obligations]] = []

    def compile(self, look: Look) -> list[tuple[int, int]]:
        body = build(look.body, before=False, after=True, nul=True, limits=self.limits)
        body = without_looks(body, self.limits)
        variants = []
        for mask, left in contexts(body):
            dfa = determinize(body, self.limits, before=left)
            self.bodies.append(_Body(look.negative, dfa, _universal(dfa)))
            variants.append((mask, len(self.bodies) - 1))
        return variants

    def classes(self) -> None:
        """Characters that no set and no body tells apart."""
        sets = list(self.sets)
        owners: list[tuple[int, int]] = []
        for number, body in enumerate(self.bodies):
            for kind, ranges in enumerate(_class_ranges(body.dfa)):
                sets.append(ranges)
                owners.append((number, kind))
        parts, signatures = partition(sets)
        count = len(self.sets)
        self.in_sets = [bits & ((1 << count) - 1) for bits in signatures]
        self.columns = []
        for bits in signatures:
            column = [-1] * len(self.bodies)
            for i, (number, kind) in enumerate(owners):
                if (bits >> (count + i)) & 1:
                    column[number] = kind
            self.columns.append(column)
        self.ranges: list[list[tuple[int, int]]] = [[] for _ in signatures]
        ends = [*parts.starts[1:], LAST + 1]
        for at, end, kind in zip(parts.starts, ends, parts.classes, strict=True):
            if kind >= 0:
                self.ranges[kind].append((at, end - 1))

    def settle(self, obligations: Iterable[Obligation]) -> Obligations | None:
        """Drop the won ones; None when one is lost."""
        open_ones = set()
        for number, state in obligations:
            body = self.bodies[number]
            lost, won = (body.won, 0) if body.negative else (0, body.won)
            if state == lost:
                return None
            if state != won:
                open_ones.add((number, state))
        return frozenset(open_ones)

    def step(self, obligations: Obligations, kind: int) -> Obligations | None:
        column = self.columns[kind]
        return self.settle(
            (number, int(self.bodies[number].dfa.table[state, column[number]]))
            if column[number] >= 0
            else (number, 0)
            for number, state in obligations
        )

    def at_end(self, obligations: Obligations) -> bool:
        return all(
            (self.bodies[number].dfa.accept[state] >= 0) != self.bodies[number].negative
            for number, state in obligations
        )

    def state(self, old: int, obligations: Obligations) -> int:
        """The new state of a thread, whose links are filled in later."""
        key = (old, obligations)
        if key not in self.states:
            if len(self.new.kind) > self.limits.max_nfa_states:
                message = f"the pattern needs more than {self.limits.max_nfa_states} positions"
                raise TooComplex(message, limit="max_nfa_states")
            self.states[key] = self.new.add(SPLIT)
            self.todo.append(key)
        return self.states[key]

    def run(self) -> Nfa:
        new, old = self.new, self.old
        new.start = self.state(old.start, frozenset())
        while self.todo:
            s, obligations = self.todo.pop()
            here = self.states[s, obligations]
            kind = old.kind[s]
            if kind == SPLIT:
                if old.out1[s] >= 0:
                    new.out1[here] = self.state(old.out1[s], obligations)
                if old.out2[s] >= 0:
                    new.out2[here] = self.state(old.out2[s], obligations)
            elif kind == ASSERT:
                new.kind[here] = ASSERT
                new.arg[here] = old.arg[s]
                new.out1[here] = self.state(old.out1[s], obligations)
            elif kind == FINAL:
                if self.at_end(obligations):
                    new.kind[here] = FINAL
            elif kind == CHARS:
                self.read(here, s, obligations)
            else:
                assert kind == LOOK
                self.look(here, s, obligations)
        if old.sink >= 0:
            new.sink = self.states.get((old.sink, frozenset()), -1)
        return new

    def fan(self, here: int, targets: list[int]) -> None:
        """Make ``here`` a split to all targets."""
        while len(targets) > 2:
            rest = self.new.add(SPLIT)
            self.new.out1[here] = targets.pop()
            self.new.out2[here] = rest
            here = rest
        if targets:
            self.new.out1[here] = targets[0]
        if len(targets) == 2:
            self.new.out2[here] = targets[1]

    def read(self, here: int, s: int, obligations: Obligations) -> None:
        ranges = self.sets[self.old.arg[s]]
        after: dict[Obligations, list[int]] = {}
        if obligations:
            for kind, bits in enumerate(self.in_sets):
                if (bits >> self.old.arg[s]) & 1:
                    rest = self.step(obligations, kind)
                    if rest is not None:
                        after.setdefault(rest, []).append(kind)
        else:
            new = self.new
            new.kind[here] = CHARS
            new.arg[here] = new.set_id(ranges)
            new.out1[here] = self.state(self.old.out1[s], obligations)
            return
        readers = []
        for rest, kinds in after.items():
            merged = normalize([r for kind in kinds for r in self.ranges[kind]])
            target = self.state(self.old.out1[s], rest)
            readers.append(self.new.add(CHARS, self.new.set_id(merged), target))
        self.fan(here, readers)

    def look(self, here: int, s: int, obligations: Obligations) -> None:
        targets = []
        for mask, number in self.variants[self.old.arg[s]]:
            rest = self.settle([*obligations, (number, self.bodies[number].dfa.start)])
            if rest is not None:
                target = self.state(self.old.out1[s], rest)
                targets.append(self.new.add(ASSERT, mask, target))
        self.fan(here, targets)
