"""Arrays of different items: what a request has written of them so far.

Which values an array has already is unbounded, so it lives beside the shared tables, in the
frames of the request (``grammar.overlay``): per open array the values so far and the text of the
item being written. An item is compared when it has ended, as a JSON value (1.0 is 1).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, NamedTuple

#: The bytes of an item, last ones first: (those before, some more); () where it starts.
Rope = tuple[Any, ...]
ONE = [bytes([byte]) for byte in range(256)]


class Seen:
    """The values of an array so far. Immutable; values share one dictionary while nobody forks.

    ``size``: how many of the dictionary's values count.
    """

    __slots__ = ("_values", "size")

    def __init__(self, values: dict[str, tuple[int, tuple[bytes, ...]]], size: int) -> None:
        self._values = values
        self.size = size

    def __contains__(self, key: str) -> bool:
        found = self._values.get(key)
        return found is not None and found[0] < self.size

    def added(self, key: str, strings: tuple[bytes, ...]) -> Seen:
        """With one more value, and the strings that occur in it."""
        values = self._values
        if len(values) > self.size:  # somebody else went on from here with another value
            values = {k: v for k, v in values.items() if v[0] < self.size}
        values[key] = (self.size, strings)
        return Seen(values, self.size + 1)

    def strings(self) -> Iterator[bytes]:
        """Every string and key in the values (UTF-8)."""
        for at, strings in self._values.values():
            if at >= self.size:
                return
            yield from strings


class ItemFrame(NamedTuple):
    """An open array of different items. ``rope``: the item being written, None between items."""

    depth: int
    seen: Seen
    rope: Rope | None

    @property
    def text(self) -> bytes:
        """The bytes of the item so far."""
        found: list[bytes] = []
        rope = self.rope
        while rope:
            rope, some = rope
            found.append(some)
        return b"".join(reversed(found))

    def longer(self, byte: int) -> ItemFrame:
        """With one more byte of the item."""
        return ItemFrame(self.depth, self.seen, (self.rope, ONE[byte]))

    def packed(self) -> ItemFrame:
        """The same with the bytes in one piece."""
        return ItemFrame(self.depth, self.seen, self.rope and ((), self.text))


def opened(depth: int) -> ItemFrame:
    """The frame of an array before its first item."""
    return ItemFrame(depth, Seen({}, 0), ())


def ended(frame: ItemFrame) -> ItemFrame | None:
    """The frame after its item has ended; None when it repeats an earlier one."""
    value = parse(frame.text)
    key = key_of(value)
    if key in frame.seen:
        return None
    return frame._replace(seen=frame.seen.added(key, tuple(_strings(value))), rope=None)


def parse(text: bytes) -> Any:
    """A JSON value, its numbers exact."""
    return json.loads(text, parse_int=_number, parse_float=_number)


def parse_first(text: bytes) -> Any:
    """The JSON value that a text begins with, its numbers exact; None where that is ``null``."""
    value, _ = _DECODER.raw_decode(text.decode("utf-8", "surrogatepass").lstrip(" \t\r\n"))
    return value


class _Huge(str):
    """A number with an exponent beyond 10 ** 18: the same only as it is spelled."""

    __slots__ = ()


def _number(text: str) -> Decimal | _Huge:
    try:
        return Decimal(text)
    except InvalidOperation:
        return _Huge(text.lower())


_DECODER = json.JSONDecoder(parse_int=_number, parse_float=_number)


def key_of(value: Any) -> str:
    """The same text exactly for equal JSON values, as ``json_key``, but without recursion."""
    done: list[str] = []
    stack = [(value, False)]
    while stack:
        top, has_parts = stack.pop()
        if not isinstance(top, list | dict):
            done.append(_scalar_key(top))
        elif not has_parts:
            stack.append((top, True))
            inner = top if isinstance(top, list) else top.values()
            stack.extend((part, False) for part in inner)
        else:  # the last part was finished first
            parts = [done.pop() for _ in top]
            if isinstance(top, dict):
                parts = sorted(map(":".join, zip(map(_quoted, top), parts, strict=True)))
            done.append(f"{'{' if isinstance(top, dict) else '['}{','.join(parts)}]")
    return done[0]


_quoted = partial(json.dumps, ensure_ascii=False)


def _scalar_key(value: Any) -> str:
    if isinstance(value, _Huge):
        return f"#{value}"
    if not isinstance(value, Decimal):
        return _quoted(value)
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "a number of JSON is finite"
    shown = "".join(map(str, digits)).lstrip("0")
    short = shown.rstrip("0")
    return f"{'-' * sign}{short}e{exponent + len(shown) - len(short)}" if short else "0"


def _strings(value: Any) -> Iterator[bytes]:
    stack = [value]
    while stack:
        top = stack.pop()
        if isinstance(top, str) and not isinstance(top, _Huge):
            yield top.encode("utf-8", "surrogatepass")
        elif isinstance(top, list):
            stack.extend(top)
        elif isinstance(top, dict):
            stack.extend(top)
            stack.extend(top.values())
