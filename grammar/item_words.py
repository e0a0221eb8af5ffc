"""Fresh strings and numbers: how an item that is one could still end.

Of an item that is a string or a number the ways to end are the words of an automaton, shorter
ones first, whatever the request has written so far: they are listed once for a state, as far as
asked for. The first one that is no item yet is found by comparing, not by searching among bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from grammar import automata, kernels
from grammar.arena import Arena, Config
from grammar.items import ItemFrame, key_of, parse
from grammar.lexemes import KeyLexeme
from grammar.overlay import Position, items_in_progress

QUOTE = 0x22
SPARE_WORDS = 64  # tried beyond one for each item: a value may have several spellings


class Words:
    """The words of a state, listed as far as somebody asked for them."""

    def __init__(self, source: Iterator[bytes]) -> None:
        self._source = source
        self._known: list[bytes] = []

    def first(self, count: int) -> Iterator[bytes]:
        """The first ``count`` words, or all."""
        for i in range(count):
            if i == len(self._known):
                word = next(self._source, None)
                if word is None:
                    return
                self._known.append(word)
            yield self._known[i]

    def are_listed(self, count: int) -> bool:
        """Whether there are fewer than ``count``. Ask only behind ``first(count)``."""
        return len(self._known) < count


class End(NamedTuple):
    """A way to end an item and the config it leads to (of a number: still inside it)."""

    text: bytes
    config: Config


def fresh_end(
    arena: Arena, position: Position, more: bytes = b""
) -> End | Literal["none", "unknown"]:
    """The shortest way to end the innermost item as a new string or number.

    ``more``: how the item went on up to the config of the position. "none" where every way is an
    item already, "unknown" where another kind of search must tell.
    """
    frames = items_in_progress(position[1])
    frame = frames[-1]
    begun = frame.text.lstrip(b" \t\r\n") + more
    if len(frames) > 1 or begun[:1] in (b"{", b"["):
        return "unknown"
    most = frame.seen.size + SPARE_WORDS
    for config in [position[0]] if begun else _entries(arena, position[0]):
        words = _words(arena, config)
        if words is None or _is_short(arena, config):
            continue
        for word in words.first(most):
            if _is_new(frame, begun + word) and (end := arena.run(config, word)) >= 0:
                return End(word, end)
        if begun and words.are_listed(most):
            may_repeat = any(_may_repeat(arena, config, word) for word in words.first(most))
            return "unknown" if may_repeat else "none"
    return "unknown"


def _may_repeat(arena: Arena, config: Config, word: bytes) -> bool:
    """Whether an item may end so although there is one like it."""
    end = arena.run(config, word)
    if end < 0:
        return False
    state = arena.ended(end, 0x2C) or end & kernels.STATE_MASK
    place = arena.places[state]
    return not place.ends_item or place.repeated(arena) != 0


def _is_short(arena: Arena, config: Config) -> bool:
    """Whether a string lacks more characters than its shortest words have."""
    rp = (config >> kernels.RP_SHIFT) & kernels.RP_MASK
    return int(arena.rps[rp, kernels.MIN]) - (config >> kernels.COUNT_SHIFT) > 1


def _is_new(frame: ItemFrame, text: bytes) -> bool:
    if text[0] == QUOTE and b"\\" not in text:  # is its own key
        return text.decode("utf-8", "replace") not in frame.seen
    return key_of(parse(text)) not in frame.seen


def _entries(arena: Arena, config: Config) -> list[Config]:
    """Where the strings and numbers start that may come at a place."""
    row = (config & kernels.STATE_MASK) * 256
    codes = arena.table[row : row + 256]
    acts = np.unique(codes[(codes >= kernels.ENTER) & (codes < kernels.SPACE)]) - kernels.ENTER
    return [int(state) | int(rp) << kernels.RP_SHIFT for state, rp in arena.acts[acts].tolist()]


def _words(arena: Arena, config: Config) -> Words | None:
    """What ends the string or number that a config is in; None where it is neither."""
    state = config & kernels.STATE_MASK
    if state not in arena.words:
        found = arena.lexeme_of(state)
        arena.words[state] = None
        if found is not None and not isinstance(found[0], KeyLexeme):
            lexeme, base = found
            rows = lexeme.rows
            last = b'"' if lexeme.is_closed else b""
            ends = rows[:, QUOTE if lexeme.is_closed else 0x2C]
            accepting = (ends < 0) & (ends != kernels.UNKNOWN)
            if not accepting.any():  # null, true, false
                return None
            source = automata.shortest_words(rows, accepting, lexeme.distance, state - base)
            arena.words[state] = Words(word + last for word in source)
    words: Words | None = arena.words[state]
    return words
