"""The longest output: an upper bound in tokens, None where there is none.

Every byte of the language has a token of its own (``Vocabulary.dead_bytes``), so the most tokens
an output can take is its most bytes. Those are a longest path: over the states of the automaton
for regexes and choices; for schemas over places, with each lexeme as one edge. What can stand in
a value's place does not depend on the brackets around it, so it is looked at once per goal, and a
goal inside itself is a cycle, like a list without an end: no longest output.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from grammar import kernels
from grammar.arena import Arena
from grammar.automata import kernel
from grammar.dfa import Dfa
from grammar.lexemes import KeyLexeme, Lexeme
from grammar.schema.goal import Goal
from grammar.schema.places import CLOSE_ARRAY, Root, Value

MAX_PLACES = 2_000  # about 50 ms; where more are needed nothing is said
MAX_BYTES = 8 << 20  # of tables: places between thousands of keys take long each
MAX_CHARACTER_BYTES = 16  # a character of a string takes at most 12


@kernel
def longest_kernel(table: npt.NDArray[np.int32], depth: npt.NDArray[np.int64]) -> bool:
    """Fill ``depth`` with the most steps to each state (Kahn's topological order).

    ``table`` int32[n, m]: positive entries are steps, state 0 is none. False with a cycle.
    """
    n, width = table.shape
    indegree = np.zeros(n, dtype=np.int64)
    for s in range(1, n):
        for b in range(width):
            if table[s, b] > 0:
                indegree[table[s, b]] += 1
    ready = np.zeros(n, dtype=np.int64)
    size = 0
    for s in range(1, n):
        if indegree[s] == 0:
            ready[size] = s
            size += 1
    done = 0
    while done < size:
        s = ready[done]
        done += 1
        for b in range(width):
            t = table[s, b]
            if t > 0:
                depth[t] = max(depth[t], depth[s] + 1)
                indegree[t] -= 1
                if indegree[t] == 0:
                    ready[size] = t
                    size += 1
    return bool(done == n - 1)


def longest_of_dfa(dfa: Dfa) -> int | None:
    """Bytes of the longest text of a trimmed automaton; None when there is no longest."""
    depth = np.zeros(dfa.num_states, dtype=np.int64)
    return int(depth.max()) if longest_kernel(dfa.table, depth) else None


def longest_of_schema(arena: Arena, root: int) -> int | None:
    """Bytes of the longest text from the place ``root`` of a fresh arena.

    An upper bound: not every text within a length limit has the characters with the longest
    spelling. None when there is no longest, or when finding it takes too long.
    """
    return _Search(arena).longest(root)


@dataclass(slots=True)
class _Edges:
    """Ways out of a place. ``space``: bytes of whitespace that may stand in it."""

    space: int = 0
    #: (bytes, place whose longest text is added, 0 for none; the place after both)
    ways: list[tuple[int, int, int]] = field(default_factory=list)


class _Endless(Exception):  # noqa: N818 - names the verdict
    """There is no longest text, or finding it takes too long."""


class _Search:
    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._roots: set[int] = set()
        self._lexemes: dict[tuple[int, int], dict[int, int]] = {}

    def longest(self, root: int) -> int | None:
        self._roots.add(root)
        try:
            edges = self._explore(root)
            return _longest_way(edges, root)
        except _Endless:
            return None

    def _explore(self, root: int) -> dict[int, _Edges]:
        edges: dict[int, _Edges] = {}
        todo = [root]
        while todo:
            state = todo.pop()
            if state in edges:
                continue
            if len(edges) >= MAX_PLACES:
                raise _Endless
            found = edges[state] = self._ways(state)
            for _, inner, after in found.ways:
                todo.append(after)
                if inner:
                    todo.append(inner)
        return edges

    def _ways(self, state: int) -> _Edges:
        arena = self._arena
        found = _Edges()
        place = arena.places[state]
        closed = (
            isinstance(place, Value) and state not in self._roots and place.continuation.merged
        )
        entered: set[int] = set()
        for byte in np.flatnonzero(arena.table[state * 256 : state * 256 + 256]).tolist():
            code = int(arena.table[state * 256 + byte])
            if code == kernels.SPACE:
                found.space = arena.space_cap
                continue
            if closed and byte != CLOSE_ARRAY:
                continue
            if code == kernels.UNKNOWN:
                arena.resolve(kernels.MISS_ROW, state, byte)
                code = int(arena.table[state * 256 + byte])
            if kernels.ENTER <= code < kernels.SPACE:
                if code not in entered:
                    entered.add(code)
                    found.ways += self._through_lexeme(code - kernels.ENTER)
            elif code:
                found.ways.append((1, 0, code))
        if closed:
            assert isinstance(place, Value)
            after = place.continuation.then(arena, 1) if place.members else 0
            if after:
                found.ways.append((0, self._value(place), after))
        return found

    def _value(self, place: Value) -> int:
        """The place that starts a text which is only a value of the same goal."""
        goal: Goal = tuple(member for _, member in place.members)
        program = place.continuation.program
        key = ("longest", tuple(member.number for member in goal))
        root = Root(program, self._arena.number(key), goal, 0, merged=True)
        state = self._arena.place(key, lambda: Value(root, space=False))
        self._roots.add(state)
        return state

    def _through_lexeme(self, act: int) -> list[tuple[int, int, int]]:
        arena = self._arena
        entry, rp = arena.acts[act].tolist()
        found = arena.lexeme_of(entry)
        assert found is not None, "an entry that starts no lexeme"
        ways = []
        for label in range(int(arena.rps[rp, kernels.LENGTH])):
            at = int(arena.rps[rp, kernels.OFFSET]) + label
            if arena.nbytes > MAX_BYTES:
                raise _Endless
            if arena.returns[at] == kernels.UNKNOWN:
                arena.resolve(kernels.MISS_RETURN, rp, label)
            after = int(arena.returns[at])
            if after:
                size = self._size(found[0], label, int(arena.rps[rp, kernels.MAX]))
                ways.append((size, 0, after))
        return ways

    def _size(self, lexeme: Lexeme, label: int, high: int) -> int:
        """Most bytes of a lexeme that ends under ``label``."""
        if isinstance(lexeme, KeyLexeme):
            if label >= len(lexeme.names):  # other keys: however many a pattern leaves
                raise _Endless
            return len(lexeme.names[label]) + 2
        key = (id(lexeme), high)
        if key not in self._lexemes:
            self._lexemes[key] = _sizes(lexeme, high)
        return self._lexemes[key].get(label, 0)


def _sizes(lexeme: Lexeme, high: int) -> dict[int, int]:
    """Most bytes by label. ``high``: most characters, where they are counted."""
    counted = (lexeme.flags & kernels.COUNTED) != 0
    if counted.any() and high < kernels.MAX_COUNT:
        size = 2 + high * _character_bytes(lexeme, counted)
        return dict.fromkeys(range(lexeme.labels), size)
    depth = np.zeros(len(lexeme.rows), dtype=np.int64)
    if not longest_kernel(lexeme.rows, depth):
        raise _Endless
    sizes: dict[int, int] = {}
    states, columns = np.nonzero(lexeme.rows < 0)
    codes = lexeme.rows[states, columns]
    consumed = codes > kernels.REDO
    labels = np.where(consumed, -1 - codes, kernels.REDO - codes)
    for label, size in zip(labels.tolist(), (depth[states] + consumed).tolist(), strict=True):
        sizes[label] = max(size, sizes.get(label, 0))
    return sizes


def _character_bytes(lexeme: Lexeme, counted: npt.NDArray[np.bool_]) -> int:
    """Most bytes from one character boundary inside a string to the next."""
    targets = np.where(lexeme.rows > 0, lexeme.rows, 0)
    size = np.zeros(len(targets), dtype=np.int64)
    for _ in range(MAX_CHARACTER_BYTES):
        further = np.where(targets > 0, 1 + np.where(counted, 0, size)[targets], 0).max(axis=1)
        if (further == size).all():
            return int(size[counted].max())
        size = further
    raise _Endless


def _longest_way(edges: dict[int, _Edges], root: int) -> int:
    """Longest path, depth first without recursion; raises _Endless with a cycle."""
    longest: dict[int, int] = {}
    active: set[int] = set()
    stack = [root]
    while stack:
        state = stack[-1]
        here = edges[state]
        if state not in active:
            active.add(state)
            needed = {s for _, inner, after in here.ways for s in (inner, after) if s}
            needed -= longest.keys()
            if needed & active:
                raise _Endless
            stack.extend(needed)
            continue
        stack.pop()
        if state not in longest:
            longest[state] = here.space + max(
                (size + (longest[inner] if inner else 0) + longest[after])
                for size, inner, after in here.ways
            ) if here.ways else 0  # fmt: skip
    return longest[root]
