"""Lexemes: the parts of a text that need no stack, as rows of transition codes.

A lexeme is shared by every place of every schema that uses it (one object per vocabulary); an
arena copies its rows in on first use. Its expensive masks are computed once, here, and are
*context-independent*: tokens that stay inside, plus the list of places where a token would leave.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from grammar import automata, kernels
from grammar.dfa import Dfa

if TYPE_CHECKING:
    from grammar.vocabulary import Vocabulary

QUOTE = 0x22
#: Bytes that may follow a JSON number.
AFTER_NUMBER = np.frombuffer(b" \t\n\r,]}", dtype=np.uint8)
#: A state with more live bytes than this gets a context-independent mask.
WIDE_ROW = 72


@dataclass(slots=True)
class InsideMask:
    """The context-independent part of one lexeme state's mask (see kernels.walk_lexeme).

    ``max_chars`` is the largest number of characters that an inside token starts.
    """

    words: npt.NDArray[np.uint32]
    chars: npt.NDArray[np.uint16]
    max_chars: int
    exits: npt.NDArray[np.int64]
    paths: npt.NDArray[np.uint8]  # bytes on the way to each exit, see kernels.exit_paths
    jobs: npt.NDArray[np.int64]  # scratch of kernels.exit_jobs
    end_states: list[int]
    narrowed: dict[int, npt.NDArray[np.uint32]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        per_mask = self.words.nbytes * (1 + len(self.narrowed)) + self.chars.nbytes
        return per_mask + self.exits.nbytes + self.paths.nbytes + self.jobs.nbytes

    def at_most(self, remaining: int) -> npt.NDArray[np.uint32]:
        """Words of the inside tokens that start at most ``remaining`` characters."""
        if remaining >= self.max_chars:
            return self.words
        words = self.narrowed.get(remaining)
        if words is None:
            bits = np.zeros(len(self.words) * 32, dtype=np.bool_)
            bits[: len(self.chars)] = self.chars <= remaining
            words = np.packbits(bits, bitorder="little").view(np.uint32) & self.words
            self.narrowed[remaining] = words
        return words


@dataclass(slots=True, eq=False)
class Lexeme:
    """``rows`` int32[n, 256] of codes with states numbered locally (0 dead, 1 the entry).

    ``flags`` int64[n]; ``distance`` int32[n]: fewest bytes from a state until the lexeme has
    ended, the closing byte included; ``shapes``: local state -> equivalent state of
    ``generic`` for key tries (else None).
    """

    rows: npt.NDArray[np.int32]
    flags: npt.NDArray[np.int64]
    labels: int  # number of labels
    distance: npt.NDArray[np.int32]
    wide: npt.NDArray[np.bool_]
    is_closed: bool  # a byte of its own ends it (not numbers)
    #: Most characters that any state of a bounded string still needs.
    max_need: int = 0
    #: A byte that is one whole character inside a counted string.
    filler: bytes = b"a"
    inside: dict[int, InsideMask | None] = field(default_factory=dict)

    #: Bytes that the lexeme can start with.
    starts: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.starts = np.flatnonzero(self.rows[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the tables and of the masks made so far."""
        masks = sum(mask.nbytes for mask in list(self.inside.values()) if mask is not None)
        return self.rows.nbytes + self.flags.nbytes + self.distance.nbytes + masks

    def inside_mask(self, state: int, vocabulary: Vocabulary) -> InsideMask | None:
        """The mask of a wide state, computed on first use; None for narrow states."""
        if state not in self.inside:
            self.inside[state] = self._walk(state, vocabulary) if self.wide[state] else None
        return self.inside[state]

    def shortest(self, state: int) -> bytes:
        """A shortest way out of ``state`` (the closing byte included, if it has one)."""
        out = bytearray()
        while True:
            left = int(self.distance[state])
            assert left >= 0, "state without a way out"
            row = self.rows[state]
            if left == 0:
                return bytes(out)
            if left == 1 and self.is_closed:
                out.append(int(np.flatnonzero(row < 0)[0]))
                return bytes(out)
            inside = np.flatnonzero(row > 0)
            byte = int(inside[np.flatnonzero(self.distance[row[inside]] == left - 1)[0]])
            out.append(byte)
            state = int(row[byte])

    def _walk(self, state: int, vocabulary: Vocabulary) -> InsideMask:
        words = np.zeros(vocabulary.words, dtype=np.uint32)
        chars = np.zeros(vocabulary.logit_size, dtype=np.uint16)
        capacity = 4096
        while True:
            exits = np.zeros((capacity, 5), dtype=np.int64)
            ends = np.zeros(1 + (1 << 12), dtype=np.int64)
            count = kernels.walk_lexeme(
                state, vocabulary.node, vocabulary.skip, vocabulary.duplicate,
                self.rows.reshape(-1), self.flags, words, chars, exits, ends,
            )  # fmt: skip
            if count >= 0:
                break
            capacity *= 4
        found = ends[1:][ends[1:] != 0] - 1 if ends[0] >= 0 else np.arange(1, len(self.rows))
        return InsideMask(
            words,
            chars,
            int(chars.max(initial=0)),
            exits[:count].copy(),
            kernels.exit_paths(exits[:count], vocabulary.node),
            np.zeros((count, 4), dtype=np.int64),
            [int(s) for s in found],
        )


def _finish(
    rows: npt.NDArray[np.int32], flags: npt.NDArray[np.int64], labels: int, *, closed: bool
) -> Lexeme:
    leaving = rows < 0
    plain = np.where(leaving, 0, rows).astype(np.int32)
    accept = np.where(leaving.any(axis=1), 0, -1).astype(np.int32)
    distance = automata.distances_kernel(plain, accept)
    distance = np.where(distance >= 0, distance + int(closed), -1).astype(np.int32)
    return Lexeme(rows, flags, labels, distance, (rows != 0).sum(axis=1) >= WIDE_ROW, closed)


def quoted(dfa: Dfa, labels: int, *, counted: bool = False) -> Lexeme:
    """A string: ``"``, the automaton's bytes, ``"``. Entry 1 is before the opening quote.

    ``counted``: the automaton accepts at every character boundary and only there; leaving
    such a state counts one character.
    """
    n = dfa.num_states
    rows = np.zeros((n + 1, 256), dtype=np.int32)
    rows[2:] = np.where(dfa.table[1:] > 0, dfa.table[1:] + 1, 0)
    rows[1, QUOTE] = dfa.start + 1
    accepting = np.flatnonzero(dfa.accept >= 0)
    rows[accepting + 1, QUOTE] = -1 - dfa.accept[accepting]
    flags = np.zeros(n + 1, dtype=np.int64)
    if counted:
        flags[accepting + 1] = kernels.COUNTED
    lexeme = _finish(rows, flags, labels, closed=True)
    if counted:
        boundary = rows[dfa.start + 1]
        simple = np.flatnonzero((boundary > 0) & np.isin(boundary, accepting + 1))
        lexeme.filler = bytes([0x61 if 0x61 in simple else int(simple[0])]) if len(simple) else b""
    return lexeme


def bounded(dfa: Dfa, boundary: Dfa) -> Lexeme | None:
    """Strings of ``dfa`` whose number of characters is bounded above by the return point.

    ``boundary``: the automaton of any string, accepting at character boundaries. No state is
    made per length: a state carries the least number of characters it still needs, and a
    step that would not leave room for them is dead. None where the product is empty.
    """
    both = automata.product([dfa, boundary], lambda bits: bits & 2 != 0, required=1)
    if both.is_empty:
        return None
    accept = np.where(both.accept == 3, 0, -1).astype(np.int32)
    lexeme = quoted(Dfa(both.table, accept, both.start), 1)
    at_boundary = np.concatenate([[False], both.accept >= 0])
    needed = _characters_needed(lexeme.rows, at_boundary)
    lexeme.flags |= np.where(at_boundary, kernels.COUNTED, 0)
    lexeme.flags |= np.where(needed > 0, needed, 0) << kernels.DEPTH_SHIFT
    lexeme.flags[1] = 0  # before the opening quote nothing is counted
    lexeme.max_need = int(needed.max(initial=0))
    return lexeme


def _characters_needed(
    rows: npt.NDArray[np.int32], at_boundary: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """int64[n]: fewest characters to start before the closing quote (Bellman-Ford rounds)."""
    far = 1 << 20
    need = np.full(len(rows), far, dtype=np.int64)
    need[rows[:, QUOTE] < 0] = 0
    targets = np.where(rows > 0, rows, 0)
    while True:
        need[0] = far
        better = np.minimum(need, need[targets].min(axis=1) + at_boundary)
        if (better == need).all():
            need[0] = 0
            return need
        need = better


def literal(text: bytes) -> Lexeme:
    """Exactly ``text``."""
    rows = np.zeros((len(text) + 1, 256), dtype=np.int32)
    for i, byte in enumerate(text):
        rows[i + 1, byte] = i + 2 if i + 1 < len(text) else -1
    return _finish(rows, np.zeros(len(rows), dtype=np.int64), 1, closed=True)


def number(dfa: Dfa, labels: int) -> Lexeme:
    """A number: ends before a byte that may follow a value. ``dfa.start`` must be 1."""
    assert dfa.start == 1
    rows = dfa.table.copy()
    for state in np.flatnonzero(dfa.accept >= 0):
        rows[state, AFTER_NUMBER] = kernels.REDO - int(dfa.accept[state])
    return _finish(rows, np.zeros(len(rows), dtype=np.int64), labels, closed=False)


@dataclass(slots=True, eq=False)
class KeyLexeme(Lexeme):
    """A key: one of ``names`` (label = index) or, when open, another one (label = len(names) +
    label of the automaton of other keys).

    Each name has exactly one spelling. ``span`` int32[nodes, 2]: names at or below a trie node
    (indices into ``sorted_names``); ``trie_base``: local state of trie node 0 (inside the quote).
    """

    names: tuple[bytes, ...] = ()
    order: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    span: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros((1, 2), dtype=np.int32))
    generic_state: npt.NDArray[np.int32] = field(
        default_factory=lambda: np.zeros(1, dtype=np.int32)
    )
    trie_base: int = 0
    is_open: bool = False
    #: The lexeme without names, whose masks serve every open one of this vocabulary.
    shared: KeyLexeme | None = None
    #: Where patterns tell keys apart: int64[n], how many keys besides the names can be written
    #: from a state, -1 = no end to them. None: any key, so there is no end anywhere.
    left: npt.NDArray[np.int64] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the tables and masks; those of ``shared`` with patterns are its own."""
        own = Lexeme.nbytes.fget(self)  # type: ignore[attr-defined]
        if self.left is not None and self.shared is not None:
            own += self.shared.nbytes
        return int(own) + self.span.nbytes + self.generic_state.nbytes

    def takes(self, key: bytes) -> bool:
        """Whether a spelled key is one of the others."""
        assert self.shared is not None
        rows, state = self.shared.rows, self.shared.trie_base
        for byte in key:
            state = int(rows[state, byte])
            if state <= 0:
                return False
        return bool(rows[state, QUOTE] < 0)

    def endings(self, state: int) -> Iterator[bytes]:
        """Ways to end another key from a local state, the quote included, shorter ones first."""
        assert self.shared is not None
        if state >= self.trie_base:
            state = int(self.generic_state[state - self.trie_base])
        rows = self.shared.rows
        words = automata.shortest_words(rows, rows[:, QUOTE] < 0, self.shared.distance - 1, state)
        return (word + b'"' for word in words)


def key(names: Sequence[bytes], generic: Dfa | None, num_labels: int) -> KeyLexeme:
    """``names``: spelled interiors, distinct. ``generic``: automaton of others, None = closed.

    Label w of ``names[w]``; ``len(names)`` + label of ``generic`` of others.
    """
    order = sorted(range(len(names)), key=lambda i: names[i])
    blob = np.frombuffer(b"".join(names[i] for i in order), dtype=np.uint8)
    offsets = np.zeros(len(names) + 1, dtype=np.int64)
    np.cumsum([len(names[i]) for i in order], out=offsets[1:])
    if generic is None:
        table = np.zeros((2, 256), dtype=np.int32)
        start = 0
    else:
        table, accepting = _shifted(generic)
        table = table.copy()
        labels = generic.accept[accepting - 1]
        table[accepting, QUOTE] = -1 - len(names) - labels
        start = generic.start + 1
    base = len(table)
    rows, shape, span = kernels.key_trie(blob, offsets, table, start, generic is None, base)
    # exits carry the sorted position: turn it into the caller's label
    tail = rows[base:]
    codes = tail[:, QUOTE]
    listed = np.flatnonzero((codes < 0) & (codes > -1 - len(names)))
    tail[listed, QUOTE] = -1 - np.array(order, dtype=np.int32)[-1 - codes[listed]]
    rows[1, QUOTE] = base
    flags = np.zeros(len(rows), dtype=np.int64)
    flags[base:] |= kernels.TRIE
    if generic is not None:
        flags[2:] |= kernels.OPEN_KEY
    nothing = np.zeros(0, dtype=np.int32)  # distances and masks are those of ``shared``
    return KeyLexeme(
        rows, flags, num_labels, nothing, nothing.astype(np.bool_), True,
        names=tuple(names), order=np.array(order, dtype=np.int64), span=span,
        generic_state=shape, trie_base=base, is_open=generic is not None,
    )  # fmt: skip


@functools.lru_cache(maxsize=8)
def _shifted(generic: Dfa) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Rows of an automaton behind an entry row 1, and its accepting states in that numbering."""
    table = np.zeros((generic.num_states + 1, 256), dtype=np.int32)
    table[2:] = np.where(generic.table[1:] > 0, generic.table[1:] + 1, 0)
    return table, np.flatnonzero(generic.accept >= 0) + 1


def other_keys(lexeme: KeyLexeme, words: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """int64[n]: keys besides the names that can be written from each state, -1 = no end.

    ``words``: int64[states of the automaton of others], how many it accepts from each.
    """
    left = np.zeros(len(lexeme.rows), dtype=np.int64)
    base = lexeme.trie_base
    left[2:base] = words[1:]
    left[base:] = left[lexeme.generic_state]
    named = np.array([lexeme.takes(lexeme.names[i]) for i in lexeme.order], dtype=np.int64)
    before = np.concatenate([[0], np.cumsum(named)])
    below = before[lexeme.span[:, 1]] - before[lexeme.span[:, 0]]
    left[base:] = np.where(left[base:] < 0, -1, left[base:] - below)
    left[1] = left[base]
    return left


def any_key(generic: Dfa) -> KeyLexeme:
    """The open key lexeme without names, with the masks and distances of every other."""
    lexeme = key((), generic, 1 + int(generic.accept.max(initial=0)))
    plain = _finish(lexeme.rows, lexeme.flags, lexeme.labels, closed=True)
    lexeme.distance, lexeme.wide = plain.distance, plain.wide
    lexeme.shared = lexeme
    return lexeme
