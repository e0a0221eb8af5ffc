"""Sets of characters: sorted, disjoint, non-adjacent inclusive ranges of Unicode scalar values.

Surrogates are in no set: text has none.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

Ranges = tuple[tuple[int, int], ...]

LAST = 0x10FFFF
EMPTY: Ranges = ()
ALL: Ranges = ((0, 0xD7FF), (0xE000, LAST))
LINE_TERMINATORS: Ranges = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
DIGIT: Ranges = ((0x30, 0x39),)
WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
SPACE: Ranges = ((0x09, 0x0D), (0x20, 0x20))

_MAJOR = {
    "L": ("Lu", "Ll", "Lt", "Lm", "Lo"),
    "LC": ("Lu", "Ll", "Lt"),
    "M": ("Mn", "Mc", "Me"),
    "N": ("Nd", "Nl", "No"),
    "P": ("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"),
    "S": ("Sm", "Sc", "Sk", "So"),
    "Z": ("Zs", "Zl", "Zp"),
    "C": ("Cc", "Cf", "Cn", "Co"),
}
#: Long names of general categories (PropertyValueAliases.txt).
_LONG = {
    "Letter": "L", "Cased_Letter": "LC", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll",
    "Titlecase_Letter": "Lt", "Modifier_Letter": "Lm", "Other_Letter": "Lo",
    "Mark": "M", "Combining_Mark": "M", "Nonspacing_Mark": "Mn", "Spacing_Mark": "Mc",
    "Enclosing_Mark": "Me", "Number": "N", "Decimal_Number": "Nd", "digit": "Nd",
    "Letter_Number": "Nl", "Other_Number": "No", "Punctuation": "P", "punct": "P",
    "Connector_Punctuation": "Pc", "Dash_Punctuation": "Pd", "Open_Punctuation": "Ps",
    "Close_Punctuation": "Pe", "Initial_Punctuation": "Pi", "Final_Punctuation": "Pf",
    "Other_Punctuation": "Po", "Symbol": "S", "Math_Symbol": "Sm", "Currency_Symbol": "Sc",
    "Modifier_Symbol": "Sk", "Other_Symbol": "So", "Separator": "Z", "Space_Separator": "Zs",
    "Line_Separator": "Zl", "Paragraph_Separator": "Zp", "Other": "C", "Control": "Cc",
    "cntrl": "Cc", "Format": "Cf", "Private_Use": "Co", "Unassigned": "Cn",
}  # fmt: skip


def normalize(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sort and merge."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            if high > merged[-1][1]:
                merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return tuple(merged)


def union(*sets: Ranges) -> Ranges:
    """Characters in at least one set, surrogates removed."""
    merged = normalize([r for ranges in sets for r in ranges])
    if any(low <= 0xDFFF and high >= 0xD800 for low, high in merged):
        return intersection(merged, ALL)
    return merged


def intersection(a: Ranges, b: Ranges) -> Ranges:
    """Characters in both."""
    result = []
    i = j = 0
    while i < len(a) and j < len(b):
        low, high = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if low <= high:
            result.append((low, high))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return tuple(result)


@functools.lru_cache(maxsize=512)
def complement(ranges: Ranges) -> Ranges:
    """Every other character."""
    gaps = []
    at = 0
    for low, high in ranges:
        if low > at:
            gaps.append((at, low - 1))
        at = high + 1
    if at <= LAST:
        gaps.append((at, LAST))
    return intersection(tuple(gaps), ALL)


def difference(a: Ranges, b: Ranges) -> Ranges:
    """Characters of ``a`` that are not in ``b``."""
    return intersection(a, complement(b))


def contains(ranges: Ranges, code: int) -> bool:
    """Whether the character is in the set."""
    return any(low <= code <= high for low, high in ranges)


@functools.cache
def _categories() -> dict[str, Ranges]:
    from grammar._unicode import CATEGORY_RUNS  # 30 kB that few patterns need

    found: dict[str, list[tuple[int, int]]] = {}
    at = 0
    for run in CATEGORY_RUNS.split():
        size = int(run[:-2], 16)
        found.setdefault(run[-2:], []).append((at, at + size - 1))
        at += size
    del found["Cs"]
    sets = {name: tuple(ranges) for name, ranges in found.items()}
    for name, parts in _MAJOR.items():
        sets[name] = union(*(sets[part] for part in parts))
    return sets


@functools.lru_cache(maxsize=64)
def unicode_property(name: str) -> Ranges | None:
    """``\\p{name}``: a general category (``Lu``, ``Letter``, ``gc=L``), Any, ASCII, Assigned.

    None when the property is not known here.
    """
    key, separator, value = name.partition("=")
    if separator:
        if key not in ("gc", "General_Category"):
            return None
        name = value
    elif name == "Any":
        return ALL
    elif name == "ASCII":
        return ((0, 0x7F),)
    elif name == "Assigned":
        return complement(_categories()["Cn"])
    return _categories().get(_LONG.get(name, name))


@functools.cache
def unicode_digit() -> Ranges:
    """What a Unicode-aware ``\\d`` matches."""
    return _categories()["Nd"]


@functools.cache
def unicode_word() -> Ranges:
    """What a Unicode-aware ``\\w`` matches in any reading: letters, marks, numbers, connectors."""
    sets = _categories()
    # Python's \w is str.isalnum() or "_"; UTS #18 adds marks, connectors and joiners; circled
    # letters (So) are Alphabetic.
    letters = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))
    return union(sets["L"], sets["M"], sets["N"], sets["Pc"], letters, ((0x200C, 0x200D),))


@functools.cache
def unicode_space() -> Ranges:
    """What ``\\s`` matches in any reading: Python's, ECMA-262's and Unicode's White_Space."""
    python = ((0x1C, 0x1F), (0x85, 0x85))
    return union(SPACE, python, _categories()["Z"], ((0xFEFF, 0xFEFF), (0x180E, 0x180E)))


@functools.cache
def _case_classes() -> dict[int, Ranges]:
    from grammar._unicode import CASE_CLASSES

    classes = {}
    for members in CASE_CLASSES.split():
        ranges = normalize([(ord(char), ord(char)) for char in members])
        for char in members:
            classes[ord(char)] = ranges
    return classes


@functools.lru_cache(maxsize=512)
def ignore_case(ranges: Ranges) -> Ranges:
    """The set and every character equal to a member when case is ignored."""
    classes = _case_classes()
    if sum(high - low + 1 for low, high in ranges) <= len(classes):
        members = (code for low, high in ranges for code in range(low, high + 1))
    else:
        members = (code for code in classes if contains(ranges, code))
    more = [r for code in members for r in classes.get(code, ())]
    return union(ranges, tuple(more))
