"""Words for what may come next, read off the tables that make the masks.

Nothing is said that the automaton does not allow: the words come from the live bytes of a
position and from the lexemes they start; no place of a schema needs to describe itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from grammar import kernels
from grammar.arena import Arena, Config
from grammar.lexemes import KeyLexeme, Lexeme
from grammar.schema.node import FRACTION
from grammar.schema.places import LexemeReturn

MAX_WORDS = 8
MAX_TEXTS = 8  # a language with more texts is described, not listed
MAX_TEXT_BYTES = 60
MAX_SHOWN = 40  # characters of one text or key
MANY = 72  # live bytes of a state that reads almost anything
END = "end of text"
QUOTE = '`"`'

_QUOTE, _COMMA = 0x22, 0x2C
_DIGITS = frozenset(b"0123456789")
_HEXADECIMAL = frozenset(b"0123456789abcdefABCDEF")
_NAMED = {0x20: "a space", 0x09: "a tab", 0x0A: "a line break", 0x0D: "a carriage return"}
_ASCII = (*range(0x20, 0x7F), 0x09, 0x0A, 0x0D)
_OPENING = {0x7B: "an object", 0x5B: "an array"}


#: Whether a text may come, where the tables allow it.
May = Callable[[bytes], bool]


def expected(arena: Arena, config: Config, may: May = lambda _: True) -> tuple[str, ...]:
    """At most ``MAX_WORDS`` phrases such as "`,`", "a digit", "one of the keys a, b", "a string".

    Deterministic. A position where the text may end says so last. ``may``: see ``May``.
    """
    state = config & kernels.STATE_MASK
    if arena.graph is not None:
        words = _of_text(arena, config)
    elif arena.flags[state] & kernels.STRUCTURAL:
        words = _of_place(arena, config, may)
    else:
        words = _of_lexeme(arena, config, may)
    found = list(dict.fromkeys(words))[:MAX_WORDS]
    if arena.accepting(config):
        found = [*found[: MAX_WORDS - 1], END]
    return tuple(found)


# --- places -----------------------------------------------------------------------------------


def _live(arena: Arena, config: Config, may: May) -> Iterator[tuple[int, Config]]:
    return ((byte, after) for byte, after in arena.live_bytes(config) if may(bytes([byte])))


def _of_place(arena: Arena, config: Config, may: May) -> list[str]:
    """Between lexemes: the lexemes that may start, brackets and punctuation, whitespace."""
    row = (config & kernels.STATE_MASK) * 256
    started: dict[int, list[tuple[int, Config]]] = {}  # lexeme entry -> (first byte, after it)
    plain: list[int] = []
    for byte, after in _live(arena, config, may):
        code = int(arena.table[row + byte])
        if kernels.ENTER <= code < kernels.SPACE:
            started.setdefault(code - kernels.ENTER, []).append((byte, after))
        else:
            plain.append(byte)
    keys: list[str] = []
    texts: list[bytes] = []
    kinds: list[str] = []
    for act, firsts in started.items():
        entry, rp = arena.acts[act].tolist()
        found = arena.lexeme_of(entry)
        assert found is not None, "an entry that starts no lexeme"
        lexeme = found[0]
        if isinstance(lexeme, KeyLexeme):
            keys = _keys(arena, lexeme, rp, range(len(lexeme.names)), "a key")
            continue
        few = _few(arena, firsts)
        if few is None:
            kinds.append(_kind(arena, lexeme, rp))
        else:
            texts += filter(may, few)
    words = keys + ([_one_of(texts)] if texts else []) + kinds
    if len(plain) > MAX_WORDS or any(byte >= 0x80 for byte in plain):  # free text
        return words + _class(plain)
    words += [_OPENING[byte] for byte in plain if byte in _OPENING]
    return words + _punctuation(arena, config, [b for b in plain if b not in _OPENING])


def _kind(arena: Arena, lexeme: Lexeme, rp: int) -> str:
    if lexeme.is_closed:
        return "a string"
    owner = arena.owners[rp]
    types = 0
    if isinstance(owner, LexemeReturn):
        for member in owner.continuation.vector:
            types |= member.types
    return "an integer" if types and not types & FRACTION else "a number"


def _keys(
    arena: Arena, lexeme: KeyLexeme, rp: int, labels: Iterable[int], other: str
) -> list[str]:
    """The names among ``labels`` that are allowed now, and ``other`` where any key is."""
    offset = int(arena.rps[rp, kernels.OFFSET])
    allowed = arena.returns[offset : offset + lexeme.labels] != 0
    usable = sorted(label for label in labels if allowed[label])
    names = [_shown(lexeme.names[label]) for label in usable[:MAX_TEXTS]]
    words = []
    if len(names) == 1:
        words = [f"the key {names[0]}"]
    elif names:
        more = len(usable) - MAX_TEXTS
        listed = ", ".join(names) + (f" and {more} more" if more > 0 else "")
        words = [f"one of the keys {listed}"]
    if lexeme.is_open and allowed[len(lexeme.names) :].any():
        words.append(other.replace("a key", "another key") if names else other)
    return words


def _punctuation(arena: Arena, config: Config, live: Sequence[int]) -> list[str]:
    """Bytes that stand for themselves, whitespace last."""
    row = (config & kernels.STATE_MASK) * 256
    gap = [b for b in live if arena.table[row + b] == kernels.SPACE]
    words = [_byte(b) for b in live if b not in gap]
    return words + (["whitespace"] if gap else [])


# --- lexemes ----------------------------------------------------------------------------------


def _of_lexeme(arena: Arena, config: Config, may: May) -> list[str]:
    found = arena.lexeme_of(config & kernels.STATE_MASK)
    assert found is not None, "neither a place nor inside a lexeme"
    lexeme, base = found
    if isinstance(lexeme, KeyLexeme):
        return _of_key(arena, config, lexeme, base, may)
    inside: list[tuple[int, Config]] = []
    behind: list[int] = []  # what may follow a number
    for byte, after in _live(arena, config, may):
        is_over = arena.flags[after & kernels.STATE_MASK] & kernels.STRUCTURAL
        if is_over and not lexeme.is_closed:
            behind.append(byte)
        else:
            inside.append((byte, after))
    few = _few(arena, inside)
    few = few and list(filter(may, few))
    if few:
        words = [_one_of(few)]
    elif lexeme.is_closed:
        words = _of_string([byte for byte, _ in inside])
    else:
        words = _class([byte for byte, _ in inside])
    spaces = [b for b in behind if b in _NAMED]
    words += [_byte(b) for b in behind if b not in spaces]
    return words + (["whitespace"] if spaces else [])


def _of_key(arena: Arena, config: Config, lexeme: KeyLexeme, base: int, may: May) -> list[str]:
    local = (config & kernels.STATE_MASK) - base
    labels: list[int] = []
    if local >= lexeme.trie_base:
        low, high = lexeme.span[local - lexeme.trie_base].tolist()
        labels = lexeme.order[low:high].tolist()
    rp = (config >> kernels.RP_SHIFT) & kernels.RP_MASK
    words = _keys(arena, lexeme, rp, labels, "a character of a key")
    live = [byte for byte, _ in _live(arena, config, may)]
    if lexeme.is_open and len(live) < MANY:  # inside an escape or a character
        words = [word for word in words if word != "a character of a key"]
        words += _class([b for b in live if b != _QUOTE])
    return words + ([QUOTE] if _QUOTE in live else [])


def _of_string(live: Sequence[int]) -> list[str]:
    inside = [b for b in live if b != _QUOTE]
    words = ["a character of the string"] if len(inside) >= MANY else _class(inside)
    return words + ([QUOTE] if _QUOTE in live else [])


# --- regexes and choices ----------------------------------------------------------------------


def _of_text(arena: Arena, config: Config) -> list[str]:
    live = list(arena.live_bytes(config))
    few = _few(arena, live)
    if few:
        return [_one_of(few)]
    return _class([byte for byte, _ in live])


# --- few texts --------------------------------------------------------------------------------


def _few(arena: Arena, starts: Sequence[tuple[int, Config]]) -> list[bytes] | None:
    """Every text through one of ``starts`` to the end of the lexeme, or of the whole text where
    the grammar is one automaton; None when there are more than ``MAX_TEXTS``."""
    if len(starts) > MAX_TEXTS or any(0x80 <= byte < 0xC0 for byte, _ in starts):
        return None
    found: list[bytes] = []
    stack = [(bytes([byte]), after) for byte, after in reversed(starts)]
    while stack:
        text, config = stack.pop()
        if len(found) > MAX_TEXTS or len(text) > MAX_TEXT_BYTES:
            return None
        if arena.graph is None and arena.flags[config & kernels.STATE_MASK] & kernels.STRUCTURAL:
            found.append(text)
            continue
        row = (config & kernels.STATE_MASK) * 256
        if np.count_nonzero(arena.table[row : row + 256]) > 3 * MAX_TEXTS:
            return None
        ends, further = _next(arena, config, text)
        found += [text] if ends else []
        stack += reversed(further)
    return found if len(found) <= MAX_TEXTS else None


def _next(arena: Arena, config: Config, text: bytes) -> tuple[bool, list[tuple[bytes, Config]]]:
    """Whether ``text`` may end at ``config``, and the longer ones."""
    ends = arena.accepting(config)
    further = []
    lexeme = None if arena.graph is not None else arena.lexeme_of(config & kernels.STATE_MASK)
    for byte, after in arena.live_bytes(config):
        over = arena.flags[after & kernels.STATE_MASK] & kernels.STRUCTURAL
        if lexeme is not None and over and not lexeme[0].is_closed:
            ends = True  # a number ends before the byte that follows it
        else:
            further.append((text + bytes([byte]), after))
    return ends, further


def _one_of(texts: Sequence[bytes]) -> str:
    shown = [f"`{_shown(text)}`" for text in dict.fromkeys(texts)]
    if len(shown) == 1:
        return shown[0]
    more = len(shown) - MAX_TEXTS
    return f"one of {', '.join(shown[:MAX_TEXTS])}" + (f" and {more} more" if more > 0 else "")


# --- bytes ------------------------------------------------------------------------------------


def _class(live: Sequence[int]) -> list[str]:
    """A set of bytes in words, best first."""
    left = set(live)
    missing = [b for b in _ASCII if b not in left]
    if any(b >= 0xC0 for b in left) and len(missing) <= MAX_WORDS // 2:
        but = f" but {', '.join(map(_byte, missing))}" if missing else ""
        return [f"any character{but}"]
    if left == _HEXADECIMAL:
        return ["a hexadecimal digit"]
    if left >= {*b"eE"} and len(left) < MAX_TEXTS + len(_DIGITS):  # the exponent of a number
        left -= {*b"E"}
    words: list[str] = []
    printable = sorted(b for b in left if 0x20 <= b < 0x7F)
    if left >= _DIGITS and len(printable) <= len(_DIGITS) + MAX_WORDS // 2:
        words.append("a digit")
        printable = [b for b in printable if b not in _DIGITS]
    if len(printable) <= MAX_WORDS // 2:
        words += [_byte(b) for b in printable]
    else:
        words.append(f"a character in [{''.join(_ranges(printable))}]")
    return words + _beyond_printable(left)


def _beyond_printable(left: set[int]) -> list[str]:
    words = [_byte(b) for b in sorted(left) if b in _NAMED and b < 0x20]
    if any((b < 0x20 and b not in _NAMED) or b == 0x7F for b in left):
        words.append("a control character")
    if any(b >= 0xC0 for b in left):
        words.append("a character beyond ASCII")
    elif any(b >= 0x80 for b in left):
        words.append("the rest of a character")
    return words


def _ranges(sorted_bytes: Sequence[int]) -> Iterator[str]:
    """``a-z``, ``_`` ...: as in a class of a regular expression."""
    start = 0
    for i, byte in enumerate(sorted_bytes):
        if i + 1 < len(sorted_bytes) and sorted_bytes[i + 1] == byte + 1:
            continue
        first, size = sorted_bytes[start], i - start + 1
        if size <= 2:
            yield from (_escaped(b) for b in sorted_bytes[start : i + 1])
        else:
            yield f"{_escaped(first)}-{_escaped(byte)}"
        start = i + 1


def _escaped(byte: int) -> str:
    return ("\\" if byte in b"\\]^-[" else "") + chr(byte)


def _byte(byte: int) -> str:
    if byte in _NAMED:
        return _NAMED[byte]
    return "a backtick" if byte == 0x60 else f"`{_shown(bytes([byte]))}`"


def _shown(text: bytes) -> str:
    """A text on one line, cut where it is long."""
    decoded = text.decode("utf-8", "backslashreplace")
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in decoded)
    return shown if len(shown) <= MAX_SHOWN else shown[: MAX_SHOWN - 1] + "…"
