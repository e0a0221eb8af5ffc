"""Which tokens of a mask arrays of different items forbid.

Few tokens need a look of their own: inside a string those that leave it, and those after which it
still begins as one that is there already; elsewhere every allowed one, of which there are few.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from grammar import kernels
from grammar.arena import Arena, Config
from grammar.item_search import IMPOSSIBLE, Estimate, completion, num_bytes_left, open_text
from grammar.overlay import Frames, Position, items_in_progress, step_byte
from grammar.witness import witness

if TYPE_CHECKING:
    from grammar.vocabulary import Vocabulary

Tokens = npt.NDArray[np.int64]

_ESCAPE = re.compile(rb'\\(?:(["\\/bfnrt])|u([0-9a-fA-F]{4}))')
_SHORT = dict(zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True))


def openers_of(vocabulary: Vocabulary) -> Tokens:
    """Tokens that could open an array and write two items of it."""
    return np.intersect1d(vocabulary.with_byte(0x5B), vocabulary.with_byte(0x2C))


def tokens_to_check(
    arena: Arena, vocabulary: Vocabulary, position: Position, allowed: Tokens
) -> Sequence[int]:
    """The allowed tokens that could make an item repeat another, or leave it no other way."""
    frames = items_in_progress(position[1])
    if frames and not any(frame.seen.size for frame in frames):  # the first: takes two to repeat
        commas = vocabulary.with_byte(0x2C)
        return list(np.intersect1d(allowed, commas, assume_unique=True).tolist())
    content = open_text(frames[-1].text) if frames else None
    if content is None or arena.lexeme_of(position[0] & kernels.STATE_MASK) is None:
        return list(allowed.tolist())
    typed, tail = unescaped(content)
    rests = _rests(position[1], typed)
    quoted = np.intersect1d(allowed, vocabulary.with_byte(0x22), assume_unique=True).tolist()
    others = [token for token in quoted if _may_repeat(vocabulary.token_bytes(token), tail, rests)]
    return [*others, *_alike(vocabulary, tail, rests, allowed)]


def _rests(frames: Frames, typed: bytes) -> set[bytes]:
    """How the strings in the items so far go on that begin so."""
    return {
        text[len(typed) :]
        for frame in items_in_progress(frames)
        for text in frame.seen.strings()
        if text.startswith(typed)
    }


def _may_repeat(token: bytes, tail: bytes, rests: set[bytes]) -> bool:
    """Whether a token that ends the open string could make it one of the known ones, or goes on
    to another item."""
    if tail or b"\\" in token or b"," in token:
        return True
    return token[: token.index(b'"')] in rests


def _alike(
    vocabulary: Vocabulary, tail: bytes, rests: set[bytes], allowed: Tokens
) -> Iterator[int]:
    """Tokens after which the open string still begins as a known one."""
    starts = {
        rest[:end]
        for rest in rests
        for end in range(min(len(rest), vocabulary.max_token_bytes) + 1)
    }
    if not starts:
        return
    may = np.zeros(vocabulary.logit_size, dtype=np.bool_)
    may[allowed] = True
    escaped = vocabulary.with_byte(0x5C)
    if tail:
        escaped = allowed
    else:
        for start in starts:
            yield from (token for token in vocabulary.spelling(start) if may[token])
    for token in escaped[may[escaped]].tolist():
        text = vocabulary.token_bytes(token)
        if b'"' not in text and unescaped(tail + text)[0] in starts:
            yield token


def unescaped(raw: bytes) -> tuple[bytes, bytes]:
    """The inside of a JSON string as UTF-8, and what is left where an escape is not finished."""
    out = bytearray()
    at = 0
    while True:
        start = raw.find(b"\\", at)
        if start < 0:
            return bytes(out) + raw[at:], b""
        out += raw[at:start]
        match = _ESCAPE.match(raw, start)
        if match is None:
            return bytes(out), raw[start:]
        at = match.end()
        if match[1] is not None:
            out.append(_SHORT[match[1][0]])
            continue
        code = int(match[2], 16)
        if 0xD800 <= code < 0xDC00:
            low = _ESCAPE.match(raw, at)
            if low is None and len(raw) - at < 6:
                return bytes(out), raw[start:]
            if low is not None and low[2] is not None and 0xDC00 <= int(low[2], 16) < 0xE000:
                code = 0x10000 + ((code - 0xD800) << 10) + int(low[2], 16) - 0xDC00
                at = low.end()
        out += chr(code).encode("utf-8", "surrogatepass")


def num_needed(
    arena: Arena,
    vocabulary: Vocabulary,
    position: Position,
    token: int,
    estimate: Estimate,
    most: int | None,
) -> int:
    """Tokens that complete the text behind a token: an upper bound, or IMPOSSIBLE.

    Good enough to compare with ``most``.
    """
    text = vocabulary.token_bytes(token)
    frames = items_in_progress(position[1])
    config = arena.run_inside(position[0], text, frames[-1].depth) if frames else None
    if config is not None:
        bound = num_bytes_left(arena, (config, position[1], None), estimate, text)
        if bound is not None and (bound >= IMPOSSIBLE or most is None or bound <= most):
            return bound
    end = after(arena, position, text)
    if end is None:
        return IMPOSSIBLE
    bound = num_bytes_left(arena, end, estimate)
    if bound is not None and (bound >= IMPOSSIBLE or most is None or bound <= most):
        return bound
    found = completion(arena, end, estimate)
    if found is None:
        return IMPOSSIBLE
    text, (config, _, _) = found
    bound = len(text) + estimate(config)
    if most is None or bound <= most:
        return bound
    return vocabulary.count_tokens(text + witness(arena, config))


def goes_on(arena: Arena, position: Position) -> bool:
    """Whether the shared witness writes another item of an array that is open."""
    depths = {frame.depth for frame in position[1]}
    config: Config = position[0]
    least = min(depths)
    for byte in witness(arena, config):
        config = arena.step(config, byte)
        flags = int(arena.flags[config & kernels.STATE_MASK])
        depth = (flags >> kernels.DEPTH_SHIFT) - 1
        if not flags & kernels.STRUCTURAL or depth < 0:
            continue
        if depth < least:
            return False
        if flags & kernels.ITEM_START and depth in depths:
            return True
    return False


def after(arena: Arena, position: Position, text: bytes) -> Position | None:
    """The position behind a text; None where the text is not allowed."""
    for byte in text:
        moved = step_byte(arena, position, byte)
        if moved is None:
            return None
        position = moved
    return position
