"""Reading a text whose arrays take only different items: byte by byte, not by the tables alone.

The interface is that of the reader of ``grammar.check``.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from grammar import kernels
from grammar.errors import TooComplex
from grammar.item_search import is_viable
from grammar.matcher import Link, Matcher
from grammar.overlay import Position, items_in_progress, step_byte

if TYPE_CHECKING:
    from grammar.compiled import Grammar

SLICE = 256  # bytes read between two yields: about a millisecond


class ItemReader:
    """One pass over a text; ``offset`` is the number of bytes accepted."""

    def __init__(self, grammar: Grammar) -> None:
        self._matcher = grammar.matcher()  # first: it may renew the arena
        self._arena = grammar.arena
        self._estimate = grammar.bounds.in_bytes
        self._limit = grammar.limits.max_arena_bytes
        self._text = b""
        self.offset = 0
        self._position: Position = (grammar.root, (), None)
        #: The last position outside of the items of every such array: it is no dead end.
        self._safe: tuple[Position, int] = (self._position, 0)
        #: Where the key that is being written starts: its opening quote, and before it.
        self._key: tuple[Position, int] = (self._position, 0)

    def read(self, text: bytes) -> Generator[None, None, None]:
        """Read as far as possible. Raises TooComplex (max_arena_bytes)."""
        self._text = text
        while self.offset < len(text):
            if not self._read_byte():
                return
            if not items_in_progress(self._position[1]):
                self._safe = self._position, self.offset
            if self.offset % SLICE == 0:
                if self._arena.nbytes > self._limit:
                    message = f"checking this text takes more than {self._limit} bytes of tables"
                    raise TooComplex(message, f"@{self.offset}", "max_arena_bytes")
                yield

    def _read_byte(self) -> bool:
        before = self._position
        after = step_byte(self._arena, before, self._text[self.offset])
        if after is None:
            return False
        if before[2] is None and after[2] is not None:
            self._key = before, self.offset
        self._position = after
        self.offset += 1
        return True

    def leave_dead_end(self) -> None:
        """Back to before the byte after which nothing new could come."""
        if self._is_viable():
            return
        low, high = self._safe[1], self.offset  # no dead end at ``low``, one at ``high``
        while high - low > 1:
            middle = (low + high) // 2
            self._back_to(middle)
            low, high = (middle, high) if self._is_viable() else (low, middle)
        self._back_to(low)

    def _is_viable(self) -> bool:
        return is_viable(self._arena, self._position, self._estimate)

    def _back_to(self, offset: int) -> None:
        self._position, self.offset = self._safe
        while self.offset < offset:
            self._read_byte()

    def matcher(self) -> Matcher:
        """A matcher where the reading stopped, without a history to go back to."""
        config, frames, _ = self._position
        start, text = None, b""
        if self._arena.flags[config & kernels.STATE_MASK] & kernels.OPEN_KEY:
            (before, key_frames, _), at = self._key
            start = Link(None, b"", before, key_frames, ended=False, plan=None)
            text = self._text[at : self.offset]
        return self._matcher.at(Link(start, text, config, frames, ended=False, plan=None))
