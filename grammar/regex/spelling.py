"""How a character of a text is spelled in bytes: raw, or inside a JSON string.

Every code is decodable (no code is a prefix of another), so spelling a deterministic text
automaton gives a deterministic byte automaton.
"""

from __future__ import annotations

import enum
import functools

import numpy as np
import numpy.typing as npt

from grammar.automata import EMPTY, Ints, too_many_states, trim
from grammar.dfa import Dfa
from grammar.options import Limits
from grammar.regex import charset
from grammar.regex.charset import Ranges
from grammar.regex.text import Partition, TextDfa, of_length
from grammar.regex.utf8 import HEIGHTS, SPANS, code_kernel, expand_kernel


class Spelling(enum.Enum):
    """Which byte sequences stand for a character.

    RAW: UTF-8. JSON: everything legal inside a JSON string, any escape. PLAIN: non-ASCII as
    itself, escapes only where they must be (short ones if they exist, else ``\\u00xx``), U+0000
    only where a set has no other member. KEY: as PLAIN, with U+0000. ASCII: as PLAIN, but every
    non-ASCII character as ``\\uxxxx``. All but JSON have one spelling per character.
    """

    RAW = "raw"
    JSON = "json"
    PLAIN = "plain"
    KEY = "key"
    ASCII = "ascii"

    @property
    def keeps_nul(self) -> bool:
        """Whether sets with other members keep U+0000."""
        return self not in (Spelling.PLAIN, Spelling.ASCII)

    @property
    def universe(self) -> Ranges:
        """The characters of an unconstrained text."""
        return charset.ALL if self.keeps_nul else _NO_NUL


SHORT_ESCAPES = {
    '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip

_NO_NUL = charset.complement(((0, 0),))
_CONTROLS: Ranges = ((0, 0x1F),)
_BARE = charset.difference(charset.ALL, ((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)))
_LONG_CONTROLS = charset.difference(_CONTROLS, ((8, 10), (12, 13)))
_NOT_ASCII = charset.difference(charset.ALL, ((0, 0x7F),))
#: Characters spelled raw, and as \uXXXX.
_DOMAINS: dict[Spelling, tuple[Ranges, Ranges]] = {
    Spelling.RAW: (charset.ALL, charset.EMPTY),
    Spelling.JSON: (_BARE, charset.ALL),
    Spelling.PLAIN: (_BARE, _LONG_CONTROLS),
    Spelling.KEY: (_BARE, _LONG_CONTROLS),
    Spelling.ASCII: (
        charset.difference(_BARE, _NOT_ASCII),
        charset.union(_LONG_CONTROLS, _NOT_ASCII),
    ),
}


def _restricted(parts: Partition, domain: Ranges) -> tuple[Ints, Ints]:
    """The partition with every character outside ``domain`` in no class."""
    starts = [0]
    classes = [-1]
    ends = [*parts.starts[1:], charset.LAST + 1]
    i = 0
    for low, high in domain:
        while ends[i] <= low:
            i += 1
        at = low
        while True:
            end = min(ends[i], high + 1)
            if starts[-1] == at:
                classes[-1] = parts.classes[i]
            else:
                starts.append(at)
                classes.append(parts.classes[i])
            at = end
            if at > high:
                break
            i += 1
        starts.append(high + 1)
        classes.append(-1)
    return np.array(starts, dtype=np.int32), np.array(classes, dtype=np.int32)


def spell_dfa(
    text: TextDfa,
    spelling: Spelling,
    dead: npt.NDArray[np.bool_] | None = None,
    limits: Limits | None = None,
) -> Dfa:
    """The byte automaton of the spellings of the texts of ``text``; labels are kept.

    ``dead``: bool[256], bytes that cannot be spelled: what needs one is left out.
    Raises TooComplex (max_dfa_states).
    """
    limits = limits or Limits()
    if text.start == 0:
        return EMPTY
    rows, levels, owners, height = _codes(text.parts, text.table.shape[1], spelling)
    if dead is not None:
        rows[:, dead] = 0
    order = np.argsort(height[1:], kind="stable").astype(np.int32) + np.int32(1)
    table = expand_kernel(rows, levels, owners, order, text.table, limits.max_dfa_states)
    if len(table) == 0:
        raise too_many_states(limits, "the spelled pattern")
    accept = np.full(len(table), -1, dtype=np.int32)
    accept[: len(text.accept)] = text.accept
    return trim(Dfa(table, accept, text.start))


def _codes(
    parts: Partition, num_classes: int, spelling: Spelling
) -> tuple[Ints, Ints, Ints, Ints]:
    raw, hexadecimal = _DOMAINS[spelling]
    short = np.full(256, -1, dtype=np.int32)
    if spelling is not Spelling.RAW:
        for letter, char in SHORT_ESCAPES.items():
            if char != "/" or spelling is Spelling.JSON:
                short[ord(letter)] = parts.of(ord(char))
    starts, classes = _restricted(parts, raw)
    hex_starts, hex_classes = _restricted(parts, hexadecimal)
    any_case = spelling is Spelling.JSON
    return code_kernel(
        starts, classes, hex_starts, hex_classes, short, num_classes, any_case, SPANS, HEIGHTS
    )


def json_string_dfa(
    spelling: Spelling,
    min_length: int = 0,
    max_length: int | None = None,
    dead: npt.NDArray[np.bool_] | None = None,
    limits: Limits | None = None,
) -> Dfa:
    """All strings of so many characters (code points), without the quotes around them."""
    limits = limits or Limits()
    return spell_dfa(
        of_length(min_length, max_length, limits, spelling.universe), spelling, dead, limits
    )


@functools.lru_cache(maxsize=1 << 12)
def _spelled(char: str, spelling: Spelling) -> str:
    code = ord(char)
    if spelling is Spelling.RAW:
        return char
    for letter, meant in SHORT_ESCAPES.items():
        if char == meant and char != "/":
            return "\\" + letter
    if code < 0x20 or (spelling is Spelling.ASCII and 0x80 <= code < 0x10000):
        return f"\\u{code:04x}"
    if spelling is Spelling.ASCII and code >= 0x10000:
        high, low = divmod(code - 0x10000, 0x400)
        return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
    return char


def spell(text: str, spelling: Spelling) -> bytes:
    """The one spelling that generation prefers; ``text`` must not hold surrogates."""
    return "".join([_spelled(char, spelling) for char in text]).encode()
