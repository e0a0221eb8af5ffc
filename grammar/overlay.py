"""What one request knows beyond the shared tables: additional keys used, items already there.

Declared keys are part of the states; additional ones are unbounded, so they live here, per open
object, and a key is refused at its closing quote when it was used before. So do the items of
arrays in which no two may be the same.
"""

from __future__ import annotations

from typing import NamedTuple

from grammar import items, kernels
from grammar.arena import Arena, Config
from grammar.items import ItemFrame
from grammar.lexemes import KeyLexeme


class KeyFrame(NamedTuple):
    """An open object and its additional keys so far."""

    depth: int
    keys: frozenset[bytes]


#: Of the open containers that need one, outermost first.
Frames = tuple[KeyFrame | ItemFrame, ...]

#: Config, frames, bytes of the key being written (None outside of open keys).
Position = tuple[Config, Frames, bytes | None]


def step_byte(arena: Arena, position: Position, byte: int) -> Position | None:
    """One byte; None when it is not allowed."""
    config, frames, _ = position
    # A number ends before the byte that follows it.
    if frames and arena.has_items and (place := arena.ended(config, byte)):
        moved = _settled(arena, (place, frames, None))
        if moved is None:
            return None
        position = moved
    after = _step(arena, position, byte)
    if after is None or not arena.has_items:
        return after
    config, frames, typed = after
    return _settled(arena, (config, _written(frames, byte), typed))


def _written(frames: Frames, byte: int) -> Frames:
    """The items being written are longer by a byte."""
    if not any(isinstance(f, ItemFrame) and f.rope is not None for f in frames):
        return frames
    return tuple(
        f.longer(byte) if isinstance(f, ItemFrame) and f.rope is not None else f for f in frames
    )


def packed(frames: Frames) -> Frames:
    """The same frames, to be read often: the items being written in one piece."""
    return tuple(f.packed() if isinstance(f, ItemFrame) else f for f in frames)


def _settled(arena: Arena, position: Position) -> Position | None:
    """Start or end the item that starts or ends here; None when it repeats an earlier one."""
    config, frames, typed = position
    flags = int(arena.flags[config & kernels.STATE_MASK])
    if not flags & kernels.STRUCTURAL or not flags >> kernels.DEPTH_SHIFT:
        return position
    depth = (flags >> kernels.DEPTH_SHIFT) - 1
    frame = frames[-1] if frames and frames[-1].depth == depth else None
    if flags & kernels.ITEM_START:
        if not isinstance(frame, ItemFrame):
            return config, (*frames, items.opened(depth)), typed
        return config, (*frames[:-1], frame._replace(rope=())), typed
    if not isinstance(frame, ItemFrame):
        return position
    if not flags & kernels.ITEM:  # what is left of the array's alternatives may repeat items
        return config, frames[:-1], typed
    if frame.rope is None:
        return position
    after = items.ended(frame)
    if after is not None:
        return config, (*frames[:-1], after), typed
    repeated = arena.places[config & kernels.STATE_MASK].repeated(arena)
    return (repeated, frames[:-1], typed) if repeated else None


def _step(arena: Arena, position: Position, byte: int) -> Position | None:
    """One byte, as far as keys are concerned."""
    config, frames, typed = position
    after = arena.step(config, byte)
    if after < 0:
        return None
    open_before = arena.flags[config & kernels.STATE_MASK] & kernels.OPEN_KEY
    flags = int(arena.flags[after & kernels.STATE_MASK])
    if flags & kernels.OPEN_KEY:
        assert typed is not None or not open_before, "a key of unknown beginning"
        written = (typed or b"") + bytes([byte]) if open_before else b""
        if arena.has_thin_keys and frames and is_used_up(arena, after, frames, written):
            return None
        return after, frames, written
    if flags & kernels.ADDITIONAL and open_before:
        kept = add_key(frames, (flags >> kernels.DEPTH_SHIFT) - 1, typed or b"")
        return None if kept is None else (after, kept, None)
    if flags & kernels.STRUCTURAL and flags >> kernels.DEPTH_SHIFT:
        frames = leave(frames, (flags >> kernels.DEPTH_SHIFT) - 1)
    return after, frames, None


def is_used_up(arena: Arena, config: Config, frames: Frames, typed: bytes) -> bool:
    """Whether every key that could come of ``typed`` has been used (patterns on keys)."""
    found = arena.lexeme_of(config & kernels.STATE_MASK)
    assert found is not None, "an open key is a lexeme"
    lexeme, base = found
    assert isinstance(lexeme, KeyLexeme), "an open key is a key"
    if lexeme.left is None:
        return False
    local = (config & kernels.STATE_MASK) - base
    left = int(lexeme.left[local])
    rp = (config >> kernels.RP_SHIFT) & kernels.RP_MASK
    keys = used_keys(frames, arena.owners[rp].depth)
    if left < 0 or len(keys) < left:
        return False
    if sum(key.startswith(typed) and lexeme.takes(key) for key in keys) < left:
        return False
    if local < lexeme.trie_base:
        return True
    low, high = lexeme.span[local - lexeme.trie_base].tolist()
    offset = int(arena.rps[rp, kernels.OFFSET])
    return not arena.returns[offset + lexeme.order[low:high]].any()


def add_key(frames: Frames, depth: int, key: bytes) -> Frames | None:
    """The frames with one more key of the object at ``depth``; None when it was used."""
    outer = tuple(f for f in frames if f.depth < depth)
    keys = used_keys(frames, depth)
    return None if key in keys else (*outer, KeyFrame(depth, keys | {key}))


def used_keys(frames: Frames, depth: int) -> frozenset[bytes]:
    """The additional keys used in the object at ``depth``."""
    found = (f.keys for f in frames if isinstance(f, KeyFrame) and f.depth == depth)
    return next(found, frozenset())


def num_used_keys(frames: Frames) -> int:
    """The additional keys of all open objects."""
    return sum(len(f.keys) for f in frames if isinstance(f, KeyFrame))


def has_items(frames: Frames) -> bool:
    """Whether an array of different items is open."""
    return any(isinstance(f, ItemFrame) for f in frames)


def items_in_progress(frames: Frames) -> list[ItemFrame]:
    """The arrays of different items of which an item is being written, outermost first."""
    return [f for f in frames if isinstance(f, ItemFrame) and f.rope is not None]


def leave(frames: Frames, depth: int) -> Frames:
    """The frames of the objects that are still open at ``depth``."""
    if not frames or frames[-1].depth <= depth:
        return frames
    return tuple(f for f in frames if f.depth <= depth)
