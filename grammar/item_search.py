"""How a text goes on while arrays of different items are open.

    completion(arena, position, ...)   bytes until the outermost of them is closed, and where
                                       they lead; None where none were found

A position inside an item can be a dead end although the tables know a way on: all values that the
item could still become may be there already. The shortest ways are tried first (A*, Hart, Nilsson
and Raphael 1968, with the length of the shared witness as the estimate), so that one fresh value
among the nearest few is soon found. Whoever follows a way that was found here finds it again from
each position on it, since a search from there visits a part of what this one has visited.
"""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from grammar import kernels
from grammar.arena import Arena, Config
from grammar.item_words import End, fresh_end
from grammar.items import ItemFrame, key_of, parse_first
from grammar.overlay import Frames, Position, has_items, items_in_progress, step_byte
from grammar.witness import private_witness, witness

MAX_EXPANDED = 2_000  # positions of one search, and
EXPANDED_PER_ITEM = 64  # more for each item that could be in the way
MANY = 72  # a state with more live bytes reads free text: there the plain ones are enough
IMPOSSIBLE = 1 << 40
_PLAIN = frozenset(b'"\\' + bytes(range(0x30, 0x3A)) + bytes(range(0x61, 0x7B)))
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)

#: Length of the witness of a config.
Estimate = Callable[[Config], int]


def is_viable(arena: Arena, position: Position, estimate: Estimate) -> bool:
    """Whether a position can still be completed with different items."""
    bound = num_bytes_left(arena, position, estimate)
    if bound is None:
        return completion(arena, position, estimate) is not None
    return bound < IMPOSSIBLE


def num_bytes_left(
    arena: Arena, position: Position, estimate: Estimate, more: bytes = b""
) -> int | None:
    """Bytes that complete the text, where that can be told without a search; else None.

    An upper bound, or IMPOSSIBLE. ``more``: how the innermost item went on up to the config of the
    position. The shared witness of an item that is new will do: the items that it goes on with are
    the longest of a shortest array's.
    """
    config, frames, _ = position
    writing = items_in_progress(frames)
    if not any(frame.seen.size for frame in writing):
        return estimate(config)
    item = writing[-1].text + more
    if _is_new_text(arena, config, item, writing) or (
        len(writing) == 1 and _is_new_by_witness(arena, config, frames, item)
    ):
        return estimate(config)
    end = fresh_end(arena, position, more)
    if isinstance(end, End):
        return len(end.text) + estimate(end.config)
    return IMPOSSIBLE if end == "none" else None


def _is_new_text(arena: Arena, config: Config, item: bytes, frames: Sequence[ItemFrame]) -> bool:
    """Whether inside a string or key that begins as none in any item so far does."""
    if arena.lexeme_of(config & kernels.STATE_MASK) is None:
        return False
    content = open_text(item)
    if content is None:
        return False
    begun = content.partition(b"\\")[0]
    return not any(text.startswith(begun) for frame in frames for text in frame.seen.strings())


def _is_new_by_witness(arena: Arena, config: Config, frames: Frames, item: bytes) -> bool:
    """Whether the shared witness makes a new value of the item that is being written."""
    frame = frames[-1]
    if not isinstance(frame, ItemFrame) or frame.rope is None:
        return False  # inside it are keys or items that the witness must not repeat
    value = parse_first(item + witness(arena, config))
    return value is not None and key_of(value) not in frame.seen


def open_text(item: bytes) -> bytes | None:
    """What an item that ends inside a string or key has of it; None where it does not."""
    end = 0
    for match in _STRING.finditer(item):
        end = match.end()
    start = item.find(b'"', end)
    return item[start + 1 :] if start >= 0 else None


def completion(
    arena: Arena, position: Position, estimate: Estimate
) -> tuple[bytes, Position] | None:
    """Bytes until no array of different items is open, and the position behind them."""
    if not has_items(position[1]):
        return b"", position
    short = _shared(arena, position)
    if short is not None:
        return short
    out = bytearray()
    while has_items(position[1]):
        if items_in_progress(position[1]):
            found = _fresh(arena, position) or _search(arena, position, estimate)
            if found is None:
                return None
            text, position = found
        else:
            text = arena.places[position[0] & kernels.STATE_MASK].way(arena)[0][:1]
            after = step_byte(arena, position, text[0])
            assert after is not None, "a way between items was refused"
            position = after
        out += text
    return bytes(out), position


def completed(arena: Arena, position: Position, estimate: Estimate) -> bytes:
    """A completion of the whole text that repeats nothing which this request has used."""
    found = completion(arena, position, estimate)
    assert found is not None, "a text without a completion"
    return found[0] + private_witness(arena, found[1])


def _fresh(arena: Arena, position: Position) -> tuple[bytes, Position] | None:
    """The way to a new string or number, and behind it."""
    end = fresh_end(arena, position)
    if not isinstance(end, End):
        return None
    text = end.text
    if place := arena.ended(end.config, 0x2C):  # a number ends before the byte that follows it
        text += arena.places[place].way(arena)[0][:1]
    for byte in text:
        after = step_byte(arena, position, byte)
        assert after is not None, "a new item was refused"
        position = after
    return text, position


def _shared(arena: Arena, position: Position) -> tuple[bytes, Position] | None:
    """The shared witness as far as needed, where it repeats nothing."""
    text = witness(arena, position[0])
    for at, byte in enumerate(text):
        after = step_byte(arena, position, byte)
        if after is None:
            return None
        position = after
        if not has_items(position[1]):
            return text[: at + 1], position
    return None


def _search(arena: Arena, start: Position, estimate: Estimate) -> tuple[bytes, Position] | None:
    """The shortest way to the end of the outermost item being written."""
    frames = items_in_progress(start[1])
    most = MAX_EXPANDED + EXPANDED_PER_ITEM * sum(frame.seen.size for frame in frames)
    ways = nearest(arena, start, estimate, most)
    return next(((t, p) for t, p in ways if t and _has_ended(p[1], frames[0])), None)


def nearest(
    arena: Arena, start: Position, estimate: Estimate, most: int
) -> Iterator[tuple[bytes, Position]]:
    """Texts that go on from a position and where they lead, by what they and the estimated rest
    take; of equals the longer one, which is nearer to an end. At most ``most`` of them.
    """
    order = itertools.count()
    heap: list[tuple[int, int, int, bytes, Position]] = [(0, 0, next(order), b"", start)]
    while heap and most:
        _, _, _, text, position = heapq.heappop(heap)
        yield text, position
        most -= 1
        for byte in _bytes_on(arena, position[0]):
            after = step_byte(arena, position, byte)
            if after is not None:
                longer = text + bytes([byte])
                total = len(longer) + estimate(after[0])
                heapq.heappush(heap, (total, -len(longer), next(order), longer, after))


def _has_ended(frames: Frames, outermost: ItemFrame) -> bool:
    for frame in frames:
        if isinstance(frame, ItemFrame) and frame.depth == outermost.depth:
            return frame.rope is None or frame.seen.size > outermost.seen.size
    return True


def _bytes_on(arena: Arena, config: Config) -> list[int]:
    """The live bytes, but no whitespace that nothing needs, and of many only the plain ones."""
    row = (config & kernels.STATE_MASK) * 256
    codes = arena.table[row : row + 256]
    live: list[int] = np.flatnonzero((codes != 0) & (codes != kernels.SPACE)).tolist()
    if len(live) <= MANY:
        return live
    return [byte for byte in live if byte in _PLAIN] or live
