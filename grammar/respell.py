"""The same JSON value in the spelling that we generate.

For telling texts that mean something else from those that are only written otherwise (decision
16). A scanner with a stack of its own: nesting is bounded by the text alone, and numbers stay the
digits they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

from grammar.regex import Spelling, spell

SLICE = 1_000  # tokens between two yields
MAX_ZEROS = 400  # a number that would need more of them keeps its exponent
MAX_GROWTH = 8  # times the text: many numbers such as 1e400 are not worth more

_SPACE = re.compile(r"[ \t\n\r]*")
_TOKEN = re.compile(
    r'(?P<string>"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*")'
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
    r"|true|false|null|[{}\[\],:]"
)
_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")


class Canonical(NamedTuple):
    """How JSON is spelled when there is a choice.

    ``plain_integers``: an integer is known by its spelling (draft 4), 1.0 is none.
    """

    comma: bytes
    colon: bytes
    ascii_only: bool
    plain_integers: bool


@dataclass(slots=True)
class _Open:
    """An open container; ``keys`` of an object so far, None for an array."""

    keys: set[str] | None
    is_empty: bool = True

    @property
    def close(self) -> str:
        return "]" if self.keys is None else "}"


class _NotJson(Exception):  # noqa: N818 - names the verdict
    """The text is no JSON value, or none that can be respelled."""


def respell(text: bytes, canonical: Canonical) -> Generator[None, None, bytes | None]:
    """The value of ``text`` respelled; yields now and then.

    None when the text is not one JSON value (RFC 8259) in UTF-8, repeats a key in an object, has
    a lone surrogate, which no UTF-8 text can spell, or grows too long: see MAX_GROWTH.
    """
    out: list[bytes] = []
    stack: list[_Open] = []
    count, measured, room = 0, 0, MAX_GROWTH * len(text) + (1 << 16)
    try:
        source = text.decode()
        at = _value(source, _space(source, 0), stack, out, canonical)
        while stack:
            if source[at : at + 1] == stack[-1].close:
                out.append(stack.pop().close.encode())
                at = _space(source, at + 1)
            else:
                at = _member(source, at, stack[-1], out, canonical)
                at = _value(source, at, stack, out, canonical)
            count += 1
            if count % SLICE == 0:
                room -= sum(map(len, out[measured:]))
                measured = len(out)
                if room < 0:
                    return None
                yield
    except (_NotJson, UnicodeDecodeError):
        return None
    return b"".join(out) if at == len(source) else None


def _value(
    source: str, at: int, stack: list[_Open], out: list[bytes], canonical: Canonical
) -> int:
    """A scalar, or the opening of a container; returns what follows it."""
    token = _TOKEN.match(source, at)
    if token is None:
        raise _NotJson
    word = token[0]
    if word in ("{", "["):
        out.append(word.encode())
        stack.append(_Open(set() if word == "{" else None))
    else:
        out.append(_scalar(token, canonical))
    return _space(source, token.end())


def _member(source: str, at: int, container: _Open, out: list[bytes], canonical: Canonical) -> int:
    """What stands before the next value: a comma, a key; returns where the value starts."""
    if not container.is_empty:
        if source[at : at + 1] != ",":
            raise _NotJson
        out.append(canonical.comma)
        at = _space(source, at + 1)
    container.is_empty = False
    if container.keys is None:
        return at
    token = _TOKEN.match(source, at)
    if token is None or token["string"] is None:
        raise _NotJson
    name = json.loads(token[0])
    at = _space(source, token.end())
    if name in container.keys or source[at : at + 1] != ":":
        raise _NotJson
    container.keys.add(name)
    out += (_string(name, Spelling.KEY), canonical.colon)
    return _space(source, at + 1)


def _space(source: str, at: int) -> int:
    found = _SPACE.match(source, at)
    assert found is not None, "a run of no spaces matches"
    return found.end()


def _scalar(token: re.Match[str], canonical: Canonical) -> bytes:
    word = token[0]
    if token["string"] is not None:
        spelling = Spelling.ASCII if canonical.ascii_only else Spelling.KEY
        return _string(json.loads(word), spelling)
    if token["number"] is not None:
        return _number(word, canonical.plain_integers).encode()
    if word not in ("true", "false", "null"):
        raise _NotJson
    return word.encode()


def _string(value: str, spelling: Spelling) -> bytes:
    if any(0xD800 <= ord(c) < 0xE000 for c in value):
        raise _NotJson
    return b'"' + spell(value, spelling) + b'"'


def _number(word: str, plain_integers: bool) -> str:
    """The same number without exponent and superfluous zeros."""
    match = _NUMBER.fullmatch(word)
    assert match is not None, "a number token that is no number"
    sign, whole, fraction, exponent = match.groups()
    digits = whole + (fraction or "")
    if len(exponent or "") > 6:
        return word
    point = len(whole) + int(exponent or 0)  # digits before the point
    leading = len(digits) - len(digits.lstrip("0"))
    digits = digits[leading:].rstrip("0")
    point -= leading
    if not digits:
        sign, digits, point = "", "", 0
    if point > len(digits) + MAX_ZEROS or point < -MAX_ZEROS:
        return word
    whole = digits[: max(point, 0)].ljust(point, "0") or "0"
    fraction = (
        digits[max(point, 0) :].rjust(len(digits) - point, "0") if point < len(digits) else ""
    )
    is_plain = match[3] is None and match[4] is None
    if plain_integers and not is_plain and not fraction:
        fraction = "0"
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"
