"""Writes grammar/_unicode.py: general categories and simple case classes of Unicode.

    python tools/unicode_tables.py > grammar/_unicode.py

From the standard library's ``unicodedata``, so that a pattern means the same whatever Python
runs the service later.
"""

from __future__ import annotations

import sys
import textwrap
import unicodedata
from collections import defaultdict

SURROGATES = range(0xD800, 0xE000)


def category_runs() -> list[tuple[int, str]]:
    """(first code point, category) of each maximal run of equal general category."""
    runs: list[tuple[int, str]] = []
    for code in range(0x110000):
        category = "Cs" if code in SURROGATES else unicodedata.category(chr(code))
        if not runs or runs[-1][1] != category:
            runs.append((code, category))
    return runs


def case_classes() -> list[str]:
    """Sets of characters equal under ECMA-262's Canonicalize without the flag u.

    That is: the one-character upper case; a non-ASCII character never equals an ASCII one.
    """
    classes: dict[str, list[str]] = defaultdict(list)
    for code in range(0x110000):
        if code in SURROGATES:
            continue
        char = chr(code)
        upper = char.upper()
        if len(upper) != 1 or (code >= 128 > ord(upper)):
            upper = char
        classes[upper].append(char)
    return ["".join(members) for members in classes.values() if len(members) > 1]


def escape(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode().replace("\\x", "\\u00")


def quoted(text: str) -> str:
    lines = textwrap.wrap(text, 90, break_long_words=False, break_on_hyphens=False)
    return "(\n" + "\n".join(f'    "{line} "' for line in lines) + "\n)"


def main() -> None:
    """Print the module."""
    out = sys.stdout.write
    out('"""Unicode tables; written by tools/unicode_tables.py, do not edit."""\n\n')
    out(f'VERSION = "{unicodedata.unidata_version}"\n\n')
    out("#: Runs of equal general category, in order: length (hexadecimal) and category.\n")
    runs = category_runs()
    ends = [code for code, _ in runs[1:]] + [0x110000]
    words = " ".join(
        f"{end - code:x}{category}" for (code, category), end in zip(runs, ends, strict=True)
    )
    out(f"CATEGORY_RUNS = {quoted(words)}\n\n")
    out("#: Sets of characters that are equal when case is ignored (ECMA-262, without flag u).\n")
    out(f"CASE_CLASSES = {quoted(' '.join(escape(members) for members in case_classes()))}\n")


if __name__ == "__main__":
    main()
