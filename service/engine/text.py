"""Token bytes to text: whole characters only, and nothing that may belong to a stop string.

A token may end inside a character, and a stop string may begin in one token and end three tokens
later; both are held back here until they are decided. Text that was given out is never taken back.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol


class Detokenizer:
    """Bytes in, whole UTF-8 characters out. Bytes that are no UTF-8 become U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, data: bytes) -> str:
        """The characters that ``data`` completes; an unfinished one waits (or never comes)."""
        return self._decoder.decode(data)


class Prefixed(Protocol):
    """The part of a matcher that judges whether a prefix of the output is a whole answer."""

    @property
    def is_complete(self) -> bool: ...

    def advance_bytes(self, data: bytes) -> int: ...


class Judge:
    """Answers whether the constraint accepts the output's first characters.

    Asked about ever longer prefixes it reads each byte once; about a shorter one, again from the
    start.
    """

    def __init__(self, start: Callable[[], Prefixed]) -> None:
        self._start = start
        self._matcher, self._num_read = start(), 0

    def accepts(self, text: str, length: int) -> bool:
        """Whether ``text[:length]`` is accepted."""
        if length < self._num_read:
            self._matcher, self._num_read = self._start(), 0
        data = text[self._num_read : length].encode()
        self._num_read = length
        return self._matcher.advance_bytes(data) == len(data) and self._matcher.is_complete


class StopHit(NamedTuple):
    """A stop string that ended the text; ``accepted``: the text as returned is a whole answer."""

    stop: str
    accepted: bool


class StopStrings:
    """Watches the text for stop strings (at least one) and holds back what may become one.

    ``judge`` is None without a constraint. With ``only_accepted`` a stop string counts only where
    the text as returned (without it, or with it if ``include``) is a whole answer (decision 24).
    """

    def __init__(
        self, stops: Sequence[str], *, include: bool, judge: Judge | None, only_accepted: bool
    ) -> None:
        self._stops = stops
        self._include = include
        self._judge = judge
        self._only_accepted = only_accepted
        self._text = ""  # all of it
        self._num_given = 0  # characters given out
        self._num_judged = 0  # stop strings that end up to here were judged

    def push(self, text: str, *, may_stop: bool = True) -> tuple[str, StopHit | None]:
        """What can be given out now, and the stop string that ends the text here, if one does."""
        self._text += text
        for start, end in self._occurrences():
            length = end if self._include else start
            accepted = self._judge is None or self._judge.accepts(self._text, length)
            if may_stop and (accepted or not self._only_accepted):
                # What precedes a possible stop string is all that was given out before.
                return self._give(length), StopHit(self._text[start:end], accepted)
        self._num_judged = len(self._text)
        return self._give(len(self._text) - self._num_held()), None

    def flush(self) -> str:
        """What was held back: the text ended, so no stop string will."""
        return self._give(len(self._text))

    def _give(self, length: int) -> str:
        given = self._text[self._num_given : length]
        self._num_given = max(self._num_given, length)
        return given

    def _occurrences(self) -> Iterator[tuple[int, int]]:
        """(start, end) of stop strings with their end in new text: first to end, then longest."""
        longest = max(map(len, self._stops))
        found = []
        for stop in self._stops:
            start = self._text.find(stop, max(0, self._num_judged - longest))
            while start >= 0:
                if start + len(stop) > self._num_judged:
                    found.append((start + len(stop), start))
                start = self._text.find(stop, start + 1)
        return ((start, end) for end, start in sorted(found))

    def _num_held(self) -> int:
        """Length of the longest end of the text that begins a stop string."""
        waiting = len(self._text) - self._num_given
        for length in range(min(max(map(len, self._stops)) - 1, waiting), 0, -1):
            tail = self._text[-length:]
            if any(len(stop) > length and stop.startswith(tail) for stop in self._stops):
                return length
        return 0
