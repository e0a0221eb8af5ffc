"""Watches a text for what the caller stops at, and holds back what may become that.

A stop may begin in one token and end three tokens later; text that was given out is never taken
back. Several kinds of stops are asked in turn for what new text completes (``Finder``); the first
to be complete ends the text, unless the constraint's ``Judge`` says that the text as returned is
no whole answer (decision 24).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from service.engine.stop_regex import MAX_SPAN, StopRegex
from service.engine.types import StopDetail, Stopping

# Characters kept: what may still be searched or judged, with context for look-behind.
_KEPT = 2 * MAX_SPAN


class Prefixed(Protocol):
    """The part of a matcher that judges whether a prefix of the output is a whole answer."""

    @property
    def is_complete(self) -> bool: ...

    def advance_bytes(self, data: bytes) -> int: ...


class Judge:
    """Answers whether the constraint accepts the text's first characters.

    Reads each character once, as it comes, and remembers the verdicts of the last ones.
    """

    def __init__(self, matcher: Prefixed) -> None:
        self._matcher = matcher
        self._can_go_on = True
        self._verdicts = deque([matcher.is_complete], maxlen=_KEPT + 1)
        self._num_read = 0

    def read(self, text: str) -> None:
        """The text goes on."""
        for char in text:
            data = char.encode()
            self._can_go_on &= self._matcher.advance_bytes(data) == len(data)
            self._verdicts.append(self._can_go_on and self._matcher.is_complete)
        self._num_read += len(text)

    def accepts(self, num_dropped: int) -> bool:
        """Whether the text without its last characters, so many, is accepted."""
        return self._verdicts[-1 - num_dropped] if num_dropped < len(self._verdicts) else False


class Finder(Protocol):
    """One kind of stop."""

    @property
    def num_open(self) -> int:
        """Characters at the end of the text that may belong to a stop."""
        ...

    def scan(self, text: str) -> Iterator[tuple[int, int, int]]:
        """(characters read, start, end) of stops that new text completes, in that order.

        Asking for the next one rejects the one before. ``text`` is all that is kept, the new
        part at its end.
        """
        ...

    def shift(self, count: int) -> None:
        """The first ``count`` characters are no longer kept."""
        ...


class StopStrings:
    """Plain texts."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._longest = max(map(len, stops))
        self._read = 0
        self._num_open = 0

    def scan(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Those that end first come first; of these the longest."""
        found = []
        for stop in self._stops:
            start = text.find(stop, max(0, self._read - self._longest))
            while start >= 0:
                end = start + len(stop)
                if end > self._read:
                    found.append((end, start, end))
                start = text.find(stop, start + 1)
        yield from sorted(found)
        num_new = len(text) - self._read
        self._num_open = self._open_after(text, self._num_open + num_new)
        self._read = len(text)

    def _open_after(self, text: str, at_most: int) -> int:
        """Length of the longest end of the text that begins a stop string."""
        for length in range(min(self._longest - 1, at_most), 0, -1):
            tail = text[-length:]
            if any(len(stop) > length and stop.startswith(tail) for stop in self._stops):
                return length
        return 0

    @property
    def num_open(self) -> int:
        """See ``Finder``."""
        return self._num_open

    def shift(self, count: int) -> None:
        """See ``Finder``."""
        self._read -= count


class StopHit(NamedTuple):
    """What ended the text; ``accepted``: the text as returned is a whole answer."""

    detail: StopDetail
    accepted: bool


class Stops:
    """All stop texts of one request. ``judge`` is None without a constraint.

    With ``only_accepted`` a stop counts only where the text as returned (without it, or with it
    if it is to be included) is a whole answer.
    """

    def __init__(self, stopping: Stopping, judge: Judge | None, *, only_accepted: bool) -> None:
        self._include = stopping.include_stop_in_output
        self._judge = judge
        self._only_accepted = only_accepted
        self._regexes = [
            StopRegex(pattern, include=self._include) for pattern in stopping.stop_regex
        ]
        self._finders: list[Finder] = [*self._regexes]
        if stopping.stop:
            self._finders.append(StopStrings(stopping.stop))
        self._text = ""  # the last of it
        self._num_given = 0  # characters of it given out

    @classmethod
    def wanted(cls, stopping: Stopping) -> bool:
        """Whether there is anything to watch for."""
        return bool(stopping.stop or stopping.stop_regex)

    @property
    def abandoned(self) -> tuple[int, ...]:
        """The stop regexes, by place, that took too long and are no longer searched for."""
        return tuple(place for place, each in enumerate(self._regexes) if each.abandoned)

    def push(self, text: str, *, may_stop: bool = True) -> tuple[str, StopHit | None]:
        """What can be given out now, and the stop that ends the text here, if one does."""
        self._text += text
        if self._judge is not None:
            self._judge.read(text)
        for (_, start, end), finder in self._found():
            length = end if self._include else start
            num_dropped = len(self._text) - length
            accepted = self._judge is None or self._judge.accepts(num_dropped)
            if may_stop and (accepted or not self._only_accepted):
                # What precedes a possible stop is all that was given out before.
                return self._give(length), StopHit(self._detail(finder, start, end), accepted)
        given = self._give(len(self._text) - max(each.num_open for each in self._finders))
        self._trim()
        return given, None

    def flush(self) -> str:
        """What was held back: the text ended, so no stop will."""
        return self._give(len(self._text))

    def _found(self) -> Iterator[tuple[tuple[int, int, int], Finder]]:
        """From all finders, in the order in which the text completes them."""
        streams = [self._found_by(finder) for finder in self._finders]
        if len(streams) == 1:
            return streams[0]
        return heapq.merge(*streams, key=lambda found: found[0][:2])

    def _found_by(self, finder: Finder) -> Iterator[tuple[tuple[int, int, int], Finder]]:
        for place in finder.scan(self._text):
            yield place, finder

    def _detail(self, finder: Finder, start: int, end: int) -> StopDetail:
        if isinstance(finder, StopRegex):
            return StopDetail(stop_regex=finder.pattern)
        return StopDetail(stop_string=self._text[start:end])

    def _give(self, length: int) -> str:
        given = self._text[self._num_given : length]
        self._num_given = max(self._num_given, length)
        return given

    def _trim(self) -> None:
        """Forgets the beginning now and then, so that a push costs what is new."""
        count = min(len(self._text) - _KEPT, self._num_given)
        if count < _KEPT:
            return
        self._text = self._text[count:]
        self._num_given -= count
        for finder in self._finders:
            finder.shift(count)
