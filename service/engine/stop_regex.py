"""Stop regexes: patterns of strangers, compiled and searched for between two steps.

Three things bound them (decision 24). ``compile_stop_regex`` refuses what would take long to
compile: nested repetitions double, and counts multiply, what the matcher is built of. A match
spans at most ``MAX_SPAN`` characters, so that text is held back for no longer. And a search has a
time limit, its pattern an allowance: a pattern over it is *abandoned*, no longer searched for. To
end the request instead would break the promise of an answer that is whole.

The text is searched from the first place where a match can still begin (the matcher's *partial*
matches say where), so all searches together are linear in the text for usual patterns. They end at
each character in turn, so that what is found does not depend on how the tokens cut the text; where
a pattern cannot look ahead, one search of all that is new shows first that nothing is there.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator
from typing import Any

import regex

MAX_SPAN = 1024  # characters of a match
MAX_WEIGHT = 1_000  # see _weight; compiling that takes up to about 10 ms
# Seconds of processor time, so that a machine that does other things too changes nothing.
SEARCH_SECONDS = 0.01  # of one search: so long a step of the others may be delayed, once
ALLOWANCE_SECONDS = 0.02  # of all searches of a pattern together, beyond what each token adds
SECONDS_PER_PUSH = 0.0005  # a usual pattern takes a hundredth of it

# What may turn a match of a text into none of a longer one: it looks at the end, or is atomic.
_LOOKS = re.compile(r"\$|\\[ZbB]|\(\?[=!<>(]|[*+?}]\+")
_COUNT = re.compile(r"\{(\d*)(,?)(\d*)\}")
_PLACE = re.compile(r"at position (\d+)")
_FLAGS = re.compile(r"\(\?([a-zA-Z]*-?[a-zA-Z]+)[:)]")


class StopRegexError(ValueError):
    """A pattern that cannot be used; ``offset``: the byte of its UTF-8 where it goes wrong."""

    def __init__(self, message: str, pattern: str, place: int = 0) -> None:
        super().__init__(message)
        self.offset = len(pattern[:place].encode("utf-8", "surrogatepass"))


def compile_stop_regex(pattern: str) -> regex.Pattern[str]:
    """The pattern, in the syntax of Python's ``re``, ready to search. Raises StopRegexError."""
    _check_syntax(pattern)
    weight = _weight(pattern)
    if weight > MAX_WEIGHT:
        raise StopRegexError(
            f"repetitions make it {weight} parts, at most {MAX_WEIGHT}: nest them less, or count "
            "less",
            pattern,
        )
    try:
        compiled = regex.compile(pattern, regex.VERSION0)
        is_empty = compiled.search("", timeout=SEARCH_SECONDS) is not None
    except regex.error as error:
        raise StopRegexError(error.msg, pattern, error.pos or 0) from None
    except TimeoutError:
        raise StopRegexError("takes too long to match the empty text", pattern) from None
    if is_empty:
        raise StopRegexError("it matches the empty text, so nothing would be written", pattern)
    return compiled


def _check_syntax(pattern: str) -> None:
    """What ``re`` refuses is refused; so are the few things that ``regex`` reads differently."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # about sets that ``regex`` may read as nested ones
        try:
            re.compile(pattern)
        except re.error as error:
            raise StopRegexError(error.msg, pattern, error.pos or 0) from None
        except (FutureWarning, DeprecationWarning) as warning:
            place = _PLACE.search(str(warning))
            message = f"{warning}: escape it"
            raise StopRegexError(message, pattern, int(place[1]) if place else 0) from None
        except (OverflowError, RecursionError) as error:
            raise StopRegexError(str(error), pattern) from None
    for found in _FLAGS.finditer(pattern):
        if "x" in found[1]:
            raise StopRegexError("the flag x is not supported", pattern, found.start())


def _weight(pattern: str) -> int:
    """An upper bound on the parts of the compiled matcher, with repetitions written out.

    ``pattern`` is valid for ``re`` without its flag x. Raises StopRegexError for a bare brace,
    which ``regex`` might take for a count of errors.
    """
    groups = [[0, 0]]  # of each open group: the weight so far, that of its last item
    at = 0
    while at < len(pattern):
        here = groups[-1]
        char = pattern[at]
        count = _COUNT.match(pattern, at) if char == "{" else None
        if char in "*+?" or count:
            least = int(count[1] or 0) if count else 0  # so often it is written out
            times = max(2, least)
            here[0] += here[1] * (times - 1)
            here[1] *= times
            at = count.end() if count else at + 1
            at += at < len(pattern) and pattern[at] in "?+"  # lazy, possessive
            continue
        if char == "{":
            raise StopRegexError('a brace that is no count: write "\\{"', pattern, at)
        if pattern.startswith("(?#", at):
            at = pattern.index(")", at) + 1
            continue
        if char == "(":
            groups.append([1, 0])
            at += 2 if pattern.startswith("(?", at) else 1
            continue
        if char == ")":
            total = groups.pop()[0]
            here = groups[-1]
            here[0], here[1] = here[0] + total, total
            at += 1
            continue
        at = _end_of_item(pattern, at)
        here[0], here[1] = here[0] + 1, 1
    return groups[0][0]


def _end_of_item(pattern: str, at: int) -> int:
    """Where the character, escape or set that starts at ``at`` ends."""
    if pattern[at] == "\\":
        return at + 2
    if pattern[at] != "[":
        return at + 1
    at += 2 if pattern.startswith("[^", at) else 1
    at += pattern.startswith("]", at)  # a member, where it is the first one
    while pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at + 1


class StopRegex:
    """Searches a growing text for one pattern.

    ``pattern``: one that ``compile_stop_regex`` has accepted. ``include``: whether the text as
    returned ends with the match (else before it).
    """

    def __init__(self, pattern: str, *, include: bool) -> None:
        self.pattern = pattern
        self.abandoned = False
        self._compiled = regex.compile(pattern, regex.VERSION0)
        self._include = include
        self._looks = _LOOKS.search(pattern) is not None
        self._start = 0  # no match begins before
        self._read = 0  # characters read
        self._rejected: set[int] = set()  # ends of returned texts that do not count
        self._seconds = ALLOWANCE_SECONDS

    def scan(self, text: str) -> Iterator[tuple[int, int, int]]:
        """(characters read, start, end) of matches that new characters complete.

        Whoever asks for the next one has rejected this one: it does not count.
        """
        if self.abandoned:
            return
        self._seconds = min(self._seconds + SECONDS_PER_PUSH, ALLOWANCE_SECONDS)
        try:
            if not self._looks and self._has_none(text):
                return
            for read in range(self._read + 1, len(text) + 1):
                self._start = max(self._start, read - MAX_SPAN)
                yield from self._scan_one(text, read)
                self._read = read
        except TimeoutError:
            self.abandoned = True
        self._read = len(text)

    def _has_none(self, text: str) -> bool:
        """Whether one search shows that the new text completes no match."""
        if len(text) - self._start > MAX_SPAN:
            return False
        found = self._look(self._compiled.search, text, self._start, len(text))
        if found is not None and not found.partial:
            return False
        self._start = len(text) if found is None else found.start()
        self._read = len(text)
        return True

    def _scan_one(self, text: str, read: int) -> Iterator[tuple[int, int, int]]:
        """The matches in ``text[:read]`` that count if nobody rejects them."""
        at, any_rejected = self._start, False
        while at <= read:
            found = self._look(self._compiled.search, text, at, read)
            if found is None or found.partial:
                at = read if found is None else found.start()
                break
            start, end = found.span()
            cut = end if self._include else start
            if cut not in self._rejected:
                yield read, start, end
                self._rejected.add(cut)
            any_rejected = True
            at = start + 1
        last = min(at, read)
        self._start = self._first_open(text, read, last) if any_rejected else last
        if self._rejected:
            self._rejected = {cut for cut in self._rejected if cut >= self._start}

    def _first_open(self, text: str, read: int, last: int) -> int:
        """The first place, ``last`` at the latest, where a match can still begin.

        A search prefers whole matches, so what is open before rejected ones is looked for place
        by place.
        """
        for start in range(self._start, last):
            found = self._look(self._compiled.match, text, start, read)
            if found is None:
                continue
            if found.partial or (self._include and found.end() == read):  # may grow
                return start
        return last

    def _look(self, how: Any, text: str, start: int, read: int) -> Any:
        """A search or match in ``text[start:read]``, its time counted. Raises TimeoutError."""
        began = time.thread_time()
        found = how(text, start, read, partial=True, timeout=SEARCH_SECONDS)
        self._seconds -= time.thread_time() - began
        if self._seconds < 0:
            raise TimeoutError
        return found

    @property
    def num_open(self) -> int:
        """Characters at the end of the text that may belong to a match."""
        return 0 if self.abandoned else self._read - self._start

    def shift(self, count: int) -> None:
        """The first ``count`` characters of the text are no longer part of it."""
        self._start -= count
        self._read -= count
        self._rejected = {cut - count for cut in self._rejected}
