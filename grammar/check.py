"""Checking a text against a grammar: how far it can be accepted, and how it could go on.

    for _ in check_steps(g, text): ...   the same as check_text, in slices of about a millisecond

The text is read once from left to right by the tables that make the masks, so the verdicts agree
with what is generated. Linear in the text: unlike a matcher nothing is kept for going back.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from grammar import kernels
from grammar.errors import TooComplex
from grammar.item_check import ItemReader
from grammar.matcher import Link, Matcher
from grammar.overlay import Frames, KeyFrame, is_used_up
from grammar.respell import respell

if TYPE_CHECKING:
    from grammar.compiled import Grammar

Verdict = Literal["complete", "incomplete", "rejected"]
SLICE = 32 << 10  # bytes read between two yields: well under a millisecond where tables exist
MISS_COST = SLICE // 64  # filling a missing entry of the tables takes Python as long as so many
MAX_KEYS = 64  # keys tried for a shorter completion


class Check(NamedTuple):
    """What a grammar says of a text.

    ``offset``: of the first byte that cannot be accepted, else the length of the text.
    ``expected``: words for what may come there (see ``grammar.expected``).
    ``completion``: a shortest completion known of an incomplete text, else None.
    ``spelling_only``: rejected, but only as it is spelled: the same JSON value, written the way
    we write it, is accepted (decision 16).
    """

    verdict: Verdict
    offset: int
    expected: tuple[str, ...]
    completion: bytes | None
    spelling_only: bool


def check_text(grammar: Grammar, text: bytes) -> Check:
    """Judges ``text``. Compile the grammar with ``JsonOptions.recognise()``.

    Raises TooComplex when the tables that the text needs exceed ``Limits.max_arena_bytes``.
    """
    steps = check_steps(grammar, text)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Check = end.value
            return found


def check_steps(grammar: Grammar, text: bytes) -> Generator[None, None, Check]:
    """As ``check_text``; yields between slices of work of about a millisecond."""
    reader = _reader(grammar)
    yield from reader.read(text)
    reader.leave_dead_end()
    matcher = reader.matcher()
    if reader.offset == len(text):
        if matcher.is_complete:
            return Check("complete", len(text), matcher.expected(), None, False)
        return Check("incomplete", len(text), matcher.expected(), _completion(matcher), False)
    offset, expected = reader.offset, matcher.expected()
    same = False
    if grammar.canonical is not None:
        respelled = yield from respell(text, grammar.canonical)
        if respelled is not None and respelled != text:
            again = _reader(grammar)
            yield from again.read(respelled)
            again.leave_dead_end()
            same = again.offset == len(respelled) and again.matcher().is_complete
    return Check("rejected", offset, expected, None, same)


def _reader(grammar: Grammar) -> _Reader | ItemReader:
    return ItemReader(grammar) if grammar.has_items else _Reader(grammar)


def _completion(matcher: Matcher) -> bytes:
    """A shortest completion known: also of the keys that go on from here, not only the nearest."""
    best = matcher.witness()
    for rest in matcher.key_endings(MAX_KEYS):
        after = matcher.fork()
        if len(rest) < len(best) and after.advance_bytes(rest) == len(rest):
            best = min(best, rest + after.witness(), key=len)
    return best


class _Reader:
    """One pass over a text. The additional keys of the open objects are kept in sets that grow."""

    def __init__(self, grammar: Grammar) -> None:
        self._matcher = grammar.matcher()  # first: it may renew the arena
        self._arena = grammar.arena
        self._limit = grammar.limits.max_arena_bytes
        self._config = grammar.root
        self._keys: list[tuple[int, set[bytes]]] = []  # (depth, keys), outermost first
        self._text = b""
        self._out = np.zeros(9, dtype=np.int64)
        self._out[6] = 1 << 40
        self.offset = 0

    def read(self, text: bytes) -> Generator[None, None, None]:
        """Read as far as possible; ``offset`` is the number of bytes accepted."""
        self._text = text
        data = np.frombuffer(text, dtype=np.uint8)
        arena, out = self._arena, self._out
        work = 0
        while self.offset < len(text):
            end = min(len(text), self.offset + SLICE)
            config = kernels.scan(self._config, data, self.offset, end, *arena.tables(), out)
            at = int(out[0])
            work += at - self.offset
            if config == kernels.MISS:
                self._config, self.offset = int(out[4]), at
                arena.resolve(int(out[1]), int(out[2]), int(out[3]))
                work += MISS_COST
            elif config == kernels.DEAD:
                self._config, self.offset = int(out[4]), at
                return
            elif out[5] and not self._take_key(config, text[int(out[7]) + 1 : at - 1]):
                self._reread(at - 1)
                return
            else:
                self._config, self.offset = int(config), at
            if work >= SLICE:
                work = 0
                self._check_memory()
                yield

    def _check_memory(self) -> None:
        if self._arena.nbytes > self._limit:
            message = f"checking this text takes more than {self._limit} bytes of tables"
            raise TooComplex(message, f"@{self.offset}", "max_arena_bytes")

    def _take_key(self, config: int, key: bytes) -> bool:
        """Remember an additional key; False when its object has it already."""
        flags = int(self._arena.flags[config & kernels.STATE_MASK])
        depth = (flags >> kernels.DEPTH_SHIFT) - 1
        self._leave(min(depth, int(self._out[6]) - 1))
        self._out[6] = depth + 1
        if not self._keys or self._keys[-1][0] < depth:
            self._keys.append((depth, set()))
        keys = self._keys[-1][1]
        if key in keys:
            return False
        keys.add(key)
        return True

    def _leave(self, depth: int) -> None:
        while self._keys and self._keys[-1][0] > depth:
            self._keys.pop()

    def _reread(self, offset: int) -> None:
        """Back to an offset in the last key."""
        config = int(self._out[8])
        for byte in self._text[int(self._out[7]) : offset]:
            config = self._arena.step(config, byte)
        self._config, self.offset = config, offset

    def leave_dead_end(self) -> None:
        """Back to before the part of a key after which all that could come has been used."""
        flags = self._arena.flags[self._config & kernels.STATE_MASK]
        if not self._arena.has_thin_keys or not flags & kernels.OPEN_KEY:
            return
        frames = self._frames()
        first, end = int(self._out[7]), self.offset
        for at in range(first + 1, end):
            self._reread(at)
            config = self._arena.step(self._config, self._text[at])
            if is_used_up(self._arena, config, frames, self._text[first + 1 : at + 1]):
                return
        self._reread(end)

    def _frames(self) -> Frames:
        self._leave(int(self._out[6]) - 1)
        return tuple(KeyFrame(depth, frozenset(keys)) for depth, keys in self._keys)

    def matcher(self) -> Matcher:
        """A matcher where the reading stopped, without a history to go back to."""
        frames = self._frames()
        start, text = None, b""
        if self._arena.flags[self._config & kernels.STATE_MASK] & kernels.OPEN_KEY:
            start = Link(None, b"", int(self._out[8]), frames, ended=False, plan=None)
            text = self._text[int(self._out[7]) : self.offset]
        link = Link(start, text, self._config, frames, ended=False, plan=None)
        return self._matcher.at(link)
