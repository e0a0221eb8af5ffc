"""Regular expressions as ECMA-262 reads them, through the module ``regex``.

Python's ``$`` matches before a final newline, its ``\\d`` and ``\\w`` are Unicode and its ``.``
matches U+2028. What ECMA-262 does not define (``(?i)``, ``(?P<name>...)``) is left to ``regex``.
"""

from __future__ import annotations

import functools
from re import Match
from typing import Any

import regex

_SPACE = r"\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_WORD = "A-Za-z0-9_"
_CLASSES = {"d": "0-9", "w": _WORD, "s": _SPACE}
_BOUNDARY = f"(?:(?<=[{_WORD}])(?![{_WORD}])|(?<![{_WORD}])(?=[{_WORD}]))"
_INSIDE = f"(?:(?<=[{_WORD}])(?=[{_WORD}])|(?<![{_WORD}])(?![{_WORD}]))"
_KEPT_ESCAPES = frozenset("nrtfvxu123456789")


def search(pattern: str, text: str) -> Match[str] | None:
    """As ``re.search``. Raises regex.error."""
    return compile(pattern).search(text)  # type: ignore[no-any-return]


@functools.lru_cache(1_000)
def compile(pattern: str) -> Any:  # noqa: A001 - stands in for re
    return regex.compile(translate(pattern), regex.V1)


def translate(pattern: str) -> str:
    """The same language in the syntax of ``regex``, version 1."""
    out: list[str] = []
    at = 0
    while at < len(pattern):
        piece, at = _next(pattern, at)
        out.append(piece)
    return "".join(out)


def _next(pattern: str, at: int) -> tuple[str, int]:
    char = pattern[at]
    if char == "\\":
        return _escape(pattern, at)
    if char == "[":
        return _class(pattern, at)
    if char == "{" and not regex.match(r"\{\d+(?:,\d*)?\}", pattern[at:]):
        return r"\{", at + 1
    fixed = {"$": r"\Z", ".": r"[^\n\r\u2028\u2029]"}
    return fixed.get(char, char), at + 1


def _escape(pattern: str, at: int) -> tuple[str, int]:
    """Outside a class; ``pattern[at]`` is the backslash."""
    char = pattern[at + 1 : at + 2]
    if char.lower() in _CLASSES:
        return f"[{'' if char.islower() else '^'}{_CLASSES[char.lower()]}]", at + 2
    if char in ("b", "B"):
        return (_BOUNDARY if char == "b" else _INSIDE), at + 2
    return _character(pattern, at)


def _character(pattern: str, at: int) -> tuple[str, int]:
    """Escapes that mean the same inside a class and outside."""
    char = pattern[at + 1 : at + 2]
    if char == "c" and pattern[at + 2 : at + 3].isalpha():
        return rf"\x{ord(pattern[at + 2]) % 32:02x}", at + 3
    if char == "0":
        return r"\x00", at + 2
    if char == "k":
        name = regex.match(r"<(\w+)>", pattern[at + 2 :])
        return (f"(?P={name[1]})", at + 2 + name.end()) if name else ("k", at + 2)
    if braces := regex.match(r"u\{([0-9A-Fa-f]+)\}", pattern[at + 1 :]):
        return rf"\U{int(braces[1], 16):08x}", at + 1 + braces.end()
    if property_name := regex.match(r"[pP]\{[^}]*\}", pattern[at + 1 :]):
        return "\\" + property_name[0], at + 1 + property_name.end()
    if char in _KEPT_ESCAPES:
        return "\\" + char, at + 2
    return regex.escape(char, special_only=False), at + 2  # stands for itself


def _class(pattern: str, at: int) -> tuple[str, int]:
    """A class in brackets; version 1 of ``regex`` would read set operations inside it."""
    at += 1
    negated = pattern[at : at + 1] == "^"
    at += negated
    out: list[str] = []
    while at < len(pattern) and pattern[at] != "]":
        piece, at = _member(pattern, at, out[-1:] == ["-"])
        out.append(piece)
    if not out:
        return (r"[\x00-\U0010ffff]" if negated else "(?!)"), at + 1
    return f"[{'^' * negated}{''.join(out)}]", at + 1


def _member(pattern: str, at: int, after_dash: bool) -> tuple[str, int]:
    char = pattern[at]
    if char == "\\":
        escaped = pattern[at + 1 : at + 2]
        if escaped.lower() in _CLASSES:
            members = _CLASSES[escaped.lower()]
            return (members if escaped.islower() else f"[^{members}]"), at + 2
        if escaped == "b":
            return r"\x08", at + 2
        return _character(pattern, at)
    if char in "[&|~" or (char == "-" and after_dash):
        return "\\" + char, at + 1
    return char, at + 1
