"""Prompt lookup: what followed the last time that the text was where it is now.

Extraction copies its input, and lists repeat themselves: where the end of the text occurred
before, what came next there is a good guess of what comes next here (Saxena 2023, prompt lookup
decoding). It is looked for in bytes, because the same word is other tokens after a quote than
after a space; the guess is the tokens that stand there.

    text     ... born in | Oslo | , on ...        ... "city":" | Os
                            ^^ found                             ^^ the end of the text
    guess    what is left of the token there ("lo"), then the tokens after it
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

_LEAST = 4  # bytes that must agree: fewer occur by chance
_MOST = 32  # bytes that are compared: more say nothing new
_PLACES = 8  # that are compared, the latest first
_WINDOW = 1 << 16  # bytes that are searched

Spell = Callable[[bytes], Sequence[int]]


class Match(NamedTuple):
    """``length`` bytes before ``position`` are the end of the text too."""

    position: int
    length: int


class Lookup:
    """The text of one request: its prompt and what was said so far.

    ``token_bytes(id)`` is the text of a token, ``spell(text)`` gives tokens for a piece of one,
    none where there are none.
    """

    def __init__(self, token_bytes: Callable[[int], bytes], spell: Spell) -> None:
        self._token_bytes = token_bytes
        self._spell = spell
        self._text = bytearray()
        self._token_ids: list[int] = []
        self._ends: list[int] = []  # of the tokens, in bytes

    def __len__(self) -> int:
        """Tokens."""
        return len(self._token_ids)

    def extend(self, token_ids: Iterable[int]) -> None:
        """The text goes on."""
        for token in token_ids:
            self._text += self._token_bytes(token)
            self._token_ids.append(token)
            self._ends.append(len(self._text))

    def truncate(self, num_tokens: int) -> None:
        """Only the first ``num_tokens`` were said."""
        del self._token_ids[num_tokens:]
        del self._ends[num_tokens:]
        del self._text[self._ends[-1] if self._ends else 0 :]

    def find(self) -> Match | None:
        """Where most of the end of the text occurred before; of several, the latest."""
        text, end = self._text, len(self._text)
        tail = bytes(text[-_LEAST:])
        if len(tail) < _LEAST:
            return None
        best = None
        low, high = max(0, end - _WINDOW), end - 1
        for _ in range(_PLACES):
            at = text.rfind(tail, low, high)
            if at < 0:
                break
            length = self._agreeing(at + _LEAST)
            if best is None or length > best.length:
                best = Match(at + _LEAST, length)
            high = at + _LEAST - 1
        return best

    def following(self, position: int) -> Iterator[int]:
        """Tokens that spell the text from ``position`` on."""
        index = bisect_right(self._ends, position)
        start = self._ends[index - 1] if index else 0
        if start < position and index < len(self._ends):
            pieces = self._spell(bytes(self._text[position : self._ends[index]]))
            if not pieces:
                return
            yield from pieces
            index += 1
        while index < len(self._token_ids):  # grows while it is read
            yield self._token_ids[index]
            index += 1

    def _agreeing(self, position: int) -> int:
        """Bytes before ``position`` that are the end of the text too."""
        text, end = self._text, len(self._text)
        length = _LEAST
        while length < min(_MOST, position) and text[position - length - 1] == text[-length - 1]:
            length += 1
        assert position < end
        return length
