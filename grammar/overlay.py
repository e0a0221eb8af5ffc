"""What one request knows beyond the shared tables: the additional keys it has used.

Declared keys are part of the states; additional ones are unbounded, so they live here, per open
object, and a key is refused at its closing quote when it was used before.
"""

from __future__ import annotations

from typing import NamedTuple

from grammar import kernels
from grammar.arena import Arena, Config


class Overlay(NamedTuple):
    """``frames``: (depth of an open object, its additional keys so far), outermost first.

    ``typed``: the bytes of the key being written, None outside of keys.
    """

    frames: tuple[tuple[int, frozenset[bytes]], ...]
    typed: bytes | None


EMPTY = Overlay((), None)


def step_byte(arena: Arena, config: Config, overlay: Overlay, byte: int) -> tuple[Config, Overlay] | None:
    """One byte with the overlay; None when it is not allowed."""
    after = arena.step(config, byte)
    if after < 0:
        return None
    open_before = arena.flags[config & kernels.STATE_MASK] & kernels.OPEN_KEY
    flags = arena.flags[after & kernels.STATE_MASK]
    if flags & kernels.OPEN_KEY:
        typed = (overlay.typed or b"") + bytes([byte]) if open_before else b""
        return after, Overlay(overlay.frames, typed)
    if open_before:
        assert overlay.typed is not None
        return _end_key(arena, after, overlay)
    if overlay is not EMPTY and flags & kernels.STRUCTURAL:
        return after, _leave(arena, after, overlay)
    return after, overlay


def _end_key(arena: Arena, after: Config, overlay: Overlay) -> tuple[Config, Overlay] | None:
    place = arena.places[after & kernels.STATE_MASK]
    depth = place.additional_depth
    if depth is None:
        return after, Overlay(overlay.frames, None) if overlay.frames else EMPTY
    key = overlay.typed or b""
    frames = tuple(f for f in overlay.frames if f[0] < depth)
    keys = next((k for d, k in overlay.frames if d == depth), frozenset[bytes]())
    if key in keys:
        return None
    return after, Overlay((*frames, (depth, keys | {key})), None)


def _leave(arena: Arena, after: Config, overlay: Overlay) -> Overlay:
    depth = arena.places[after & kernels.STATE_MASK].depth
    if depth is None or not overlay.frames or overlay.frames[-1][0] <= depth:
        return overlay
    frames = tuple(f for f in overlay.frames if f[0] <= depth)
    return Overlay(frames, overlay.typed) if frames or overlay.typed is not None else EMPTY


def seen_keys(arena: Arena, config: Config, overlay: Overlay) -> frozenset[bytes]:
    """The additional keys used in the object whose key is being written."""
    rp = (config >> kernels.RP_SHIFT) & kernels.RP_MASK
    depth = arena.owners[rp].depth
    return next((keys for d, keys in overlay.frames if d == depth), frozenset())
