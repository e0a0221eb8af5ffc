"""What one request knows beyond the shared tables: the additional keys it has used.

Declared keys are part of the states; additional ones are unbounded, so they live here, per open
object, and a key is refused at its closing quote when it was used before.
"""

from __future__ import annotations

from grammar import kernels
from grammar.arena import Arena, Config
from grammar.lexemes import KeyLexeme

#: (depth of an open object, its additional keys so far), outermost first.
Frames = tuple[tuple[int, frozenset[bytes]], ...]

#: Config, frames, bytes of the key being written (None outside of open keys).
Position = tuple[Config, Frames, bytes | None]


def step_byte(arena: Arena, position: Position, byte: int) -> Position | None:
    """One byte; None when it is not allowed."""
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
    outer = tuple(f for f in frames if f[0] < depth)
    keys = used_keys(frames, depth)
    return None if key in keys else (*outer, (depth, keys | {key}))


def used_keys(frames: Frames, depth: int) -> frozenset[bytes]:
    """The additional keys used in the object at ``depth``."""
    return next((keys for d, keys in frames if d == depth), frozenset())


def leave(frames: Frames, depth: int) -> Frames:
    """The frames of the objects that are still open at ``depth``."""
    if not frames or frames[-1][0] <= depth:
        return frames
    return tuple(f for f in frames if f[0] <= depth)
