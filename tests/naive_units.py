"""Structural units by their obvious definitions: regexes, lines and a stack.

``first_end(name, text)`` is the end of the first unit (what is returned is ``text[:end]``), None
where it is not over; ``is_complete(name, text)`` whether a text that ends here has it complete.
"""

from __future__ import annotations

import re

import regex

S, W, C = r"[.!?…؟۔।॥]", "[。！？｡]", r"""["')\]}*_»”’›」』）】》〉]"""
ANY = f"(?:{S}|{W}|{C})"
SENTENCE = regex.compile(
    rf"\p{{L}}.*?(?:{S}(?:{S}|{C})*(?=[\t-\r ])|(?:{S}(?:{S}|{C})*)?{W}{ANY}*(?!{ANY})(?=.))",
    regex.DOTALL,
)
OPENER = re.compile(r" {0,3}(?:(`{3,8})(?!`)[^`]*|(~{3,8})(?!~).*)", re.DOTALL)
PAIRS = {"(": ")", "[": "]", "{": "}"}


def first_end(name: str, text: str) -> int | None:
    if name == "line":
        found = re.search(r"[^\t-\r ][^\n]*\n", text)
        return found.end() - 1 if found else None
    if name == "sentence":
        sentence = SENTENCE.search(text)
        return sentence.end() if sentence else None
    if name == "fence":
        end, over = _fence(text)
        return end if over else None
    if name == "brackets":
        return _brackets(text)[0]
    raise AssertionError(name)


def is_complete(name: str, text: str) -> bool:
    if first_end(name, text) is not None:
        return True
    if name == "sentence":
        return bool(regex.search(rf"\p{{L}}.*?(?:{S}|{W}){ANY}*\Z", text, regex.DOTALL))
    if name == "fence":
        return _fence(text)[0] is not None
    return False


def _fence(text: str) -> tuple[int | None, bool]:
    """The end of the first block, and whether a line break shows that it is one."""
    fence, at = "", 0
    for line in text.split("\n"):
        end = at + len(line)
        if fence:
            if re.fullmatch(f" {{0,3}}{re.escape(fence)}{re.escape(fence[0])}*[ \t]*", line):
                return end, end < len(text)
        elif (found := OPENER.fullmatch(line)) and end < len(text):
            fence = found[1] or found[2]
        at = end + 1
    return None, False


def _brackets(text: str) -> tuple[int | None, bool]:
    """The end of the first balanced pair, and whether the brackets up to there match."""
    stack: list[str] = []
    for at, char in enumerate(text):
        if char in PAIRS:
            stack.append(PAIRS[char])
        elif stack and char in PAIRS.values():
            if char != stack.pop():
                return None, False
            if not stack:
                return at + 1, True
    return None, True


def brackets_match(text: str) -> bool:
    """Whether no closing bracket is of the wrong kind."""
    return _brackets(text)[1]
