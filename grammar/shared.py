"""What the schemas of one vocabulary share: lexemes and automata by value, bounded in bytes."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

#: Mostly transition rows, a kilobyte a state. Grammars keep what they use of it themselves.
DEFAULT_BYTES = 128 << 20
_FLAT = 512  # bytes of an entry's objects, roughly
_RECOUNT = 64  # entries after which sizes are asked for again: lexemes grow while they are used


class SharedCache:
    """Least recently used out first, when over ``max_bytes`` in all; the newest always stays.

    An entry is anything with ``nbytes``, None, or a tuple that begins with one of these. Used
    from several threads: every step is one operation on a dictionary, and a lost race only drops
    an entry early.
    """

    def __init__(self, max_bytes: int = DEFAULT_BYTES) -> None:
        self.max_bytes = max_bytes
        self._entries: OrderedDict[Hashable, Any] = OrderedDict()
        self._bytes = 0
        self._added = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def get(self, key: Hashable) -> Any:
        """The entry, None where there is none."""
        found = self._entries.get(key)
        if found is not None:
            with contextlib.suppress(KeyError):  # another thread dropped it just now
                self._entries.move_to_end(key)
        return found

    def __getitem__(self, key: Hashable) -> Any:
        return self._entries[key]

    def __setitem__(self, key: Hashable, value: Any) -> None:
        self._entries[key] = value
        self._bytes += _size(value)
        self._added += 1
        if self._added >= _RECOUNT:
            self._added = 0
            self._bytes = self.nbytes
        while self._bytes > self.max_bytes and len(self._entries) > 1:
            _, dropped = self._entries.popitem(last=False)
            self._bytes -= _size(dropped)

    @property
    def nbytes(self) -> int:
        """Bytes of all entries, as they are now."""
        return sum(_size(value) for value in list(self._entries.values()))


def _size(value: Any) -> int:
    if isinstance(value, tuple):  # (lexeme, members)
        value = value[0]
    return _FLAT + (0 if value is None else int(value.nbytes))
