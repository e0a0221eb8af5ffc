"""JSON that is still being written, as the objects that it has come to so far.

What has ended is there as ``json.loads`` would give it; of what has begun, objects and lists are
there with what they have, and strings as far as they go. A number, ``true``, ``false`` or ``null``
is there once it has ended (``1`` may become ``12``), a key once its value has begun.

Text is looked at once, so a whole answer costs linear time; a snapshot copies the containers that
are still open and nothing else.
"""

from __future__ import annotations

import json
import re
from typing import Any

_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_SPACE = re.compile(r"[ \t\n\r]+")
_SCALAR = re.compile(r"[-+.0-9A-Za-z]+")  # a number or name, and whatever else json.loads refuses
# Two surrogates are one character: the first waits until it is clear what follows.
_HIGH, _LOW = "u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_NO_LOW = r"(?=[^\\]|\\[^u]|\\u[^dD]|\\u[dD][^c-fC-F])"
_ESCAPE = re.compile(
    rf'\\(?:["\\/bfnrt]|{_HIGH}(?:{_LOW}|{_NO_LOW})|u(?![dD][89abAB])[0-9a-fA-F]{{4}})'
)
_HALF_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,4}(?:\\(?:u[0-9a-fA-F]{0,3})?)?)?")
_NOTHING: Any = object()


class PartialJson:
    """``push`` pieces of the text, look at ``value``, and ``end`` it."""

    def __init__(self) -> None:
        self._rest = ""  # the beginning of something that is not whole yet
        self._offset = 0  # of ``_rest`` in the text, in characters
        self._open: list[dict[str, Any] | list[Any]] = []  # containers, the outermost first
        self._keys: list[str | None] = []  # of each: the key whose value comes
        self._string: list[str] | None = None  # parts of the string that is open
        self._is_key = False  # it is one
        self._expects = "value"  # or: "first", "comma", "key", "colon", "nothing"
        self._value: Any = _NOTHING
        self._has_changed = False

    @property
    def has_value(self) -> bool:
        """Whether there is anything yet."""
        return self._value is not _NOTHING

    @property
    def value(self) -> Any:
        """What there is: a value of its own, which later pieces do not change."""
        return self._snapshot()

    def push(self, text: str) -> bool:
        """Takes the next piece; whether there is more than before. Raises ValueError."""
        self._rest += text
        self._has_changed = False
        start = 0
        while start < len(self._rest):
            end = self._take(start)
            if end == start:
                break
            start = end
        self._rest = self._rest[start:]
        self._offset += start
        return self._has_changed and self.has_value

    def end(self) -> bool:
        """There is no more text; as ``push``. An unfinished text is no error."""
        if not self._open and _SCALAR.fullmatch(self._rest):
            return self.push(" ")  # a number that is all there is
        return False

    def _take(self, start: int) -> int:
        """Takes one thing; returns where the next begins, or ``start`` if it is not whole."""
        if self._string is not None:
            return self._take_of_string(self._string, start)
        if found := _SPACE.match(self._rest, start):
            return found.end()
        character = self._rest[start]
        if character in "]}":
            self._close(character, start)
        elif self._expects == "colon" and character == ":":
            self._expects = "value"
        elif self._expects == "comma" and character == ",":
            self._expects = "key" if isinstance(self._open[-1], dict) else "value"
        elif character == '"' and self._expects in ("value", "first", "key"):
            self._open_string()
        elif self._expects == "value" or (self._expects == "first" and self._in_list):
            return self._take_value(start)
        else:
            raise self._wrong(start)
        return start + 1

    @property
    def _in_list(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1], list)

    def _take_value(self, start: int) -> int:
        """One that is no string."""
        if self._rest[start] in "[{":
            self._put({} if self._rest[start] == "{" else [])
            return start + 1
        found = _SCALAR.match(self._rest, start)
        if found is None:
            raise self._wrong(start)
        if found.end() == len(self._rest):
            return start  # it may go on
        try:
            self._put(json.loads(found[0]))
        except ValueError:
            raise self._wrong(start) from None
        return found.end()

    def _take_of_string(self, parts: list[str], start: int) -> int:
        if found := _PLAIN.match(self._rest, start):
            parts.append(found[0])
        elif self._rest[start] == '"':
            self._close_string("".join(parts))
            return start + 1
        elif found := _ESCAPE.match(self._rest, start):
            parts.append(json.loads(f'"{found[0]}"'))
        elif _HALF_ESCAPE.fullmatch(self._rest, start):
            return start
        else:
            raise self._wrong(start)
        self._has_changed |= not self._is_key
        return found.end()

    def _open_string(self) -> None:
        inside = self._open and isinstance(self._open[-1], dict)
        self._is_key = bool(inside) and self._expects in ("first", "key")
        self._string = []
        if not self._is_key:
            self._has_changed = True
            self._place("")

    def _close_string(self, text: str) -> None:
        self._string = None
        if self._is_key:
            self._keys[-1] = text
            self._expects = "colon"
        else:
            self._replace(text)
            self._after_value()

    def _put(self, value: Any) -> None:
        """A value that has ended, or a container that begins."""
        self._has_changed = True
        self._place(value)
        if isinstance(value, dict | list):
            self._open.append(value)
            self._keys.append(None)
            self._expects = "first"
        else:
            self._after_value()

    def _place(self, value: Any) -> None:
        """Where a value is expected."""
        if not self._open:
            self._value = value
        elif isinstance(container := self._open[-1], dict):
            key = self._keys[-1]
            assert key is not None, "a value follows its key"
            container[key] = value  # of two with one key the last counts
        else:
            container.append(value)

    def _replace(self, value: Any) -> None:
        """In the place of the one that was put last."""
        if not self._open:
            self._value = value
        elif isinstance(container := self._open[-1], dict):
            key = self._keys[-1]
            assert key is not None, "the key of the open value"
            container[key] = value
        else:
            container[-1] = value

    def _close(self, character: str, start: int) -> None:
        closes_right = bool(self._open) and (character == "}") != self._in_list
        if not closes_right or self._expects not in ("first", "comma"):
            raise self._wrong(start)
        self._open.pop()
        self._keys.pop()
        self._after_value()

    def _after_value(self) -> None:
        self._expects = "comma" if self._open else "nothing"

    def _snapshot(self) -> Any:
        """Copies of the open containers; what has ended in them is never touched again."""
        inner: Any = _NOTHING
        if self._string is not None and not self._is_key:
            inner = "".join(self._string)
        for container, key in zip(reversed(self._open), reversed(self._keys), strict=True):
            if isinstance(container, dict):
                copy: Any = dict(container)
                if inner is not _NOTHING:
                    copy[key] = inner
            else:
                copy = list(container)
                if inner is not _NOTHING:
                    copy[-1] = inner
            inner = copy
        if inner is not _NOTHING:
            return inner
        return None if self._value is _NOTHING else self._value

    def _wrong(self, start: int) -> ValueError:
        return ValueError(f"no JSON from character {self._offset + start} on")
