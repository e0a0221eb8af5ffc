"""Pattern text -> a postfix program over sets of characters.

The dialect is ECMA-262 (as JSON Schema's ``pattern``) plus what PCRE and Python add without
contradicting it. Where readers differ on ``\\d \\w \\s`` we take what all of them accept: ASCII
positively, everything but Unicode's negated. A postfix program needs no recursion, so nesting
costs no Python stack.

    program   a(b|c)*   ->   Chars(a) Chars(b) Chars(c) Alternate(2) Repeat(0, None) Concat(2)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, NoReturn

from grammar.errors import ConstraintSyntaxError, TooComplex, UnsupportedError
from grammar.options import Limits
from grammar.regex import charset
from grammar.regex.charset import Ranges


class Chars(NamedTuple):
    """One character of the set."""

    ranges: Ranges


class Assertion(NamedTuple):
    """Holds between two characters; ``mask``: bit 4 * before + after, see ``Context``."""

    mask: int


class Look(NamedTuple):
    """Lookahead: what follows does (not) begin with a text of ``body``."""

    negative: bool
    body: tuple[Op, ...]


class Concat(NamedTuple):
    """The last ``operands`` operands one after the other."""

    operands: int


class Alternate(NamedTuple):
    """One of the last ``operands`` operands."""

    operands: int


class Repeat(NamedTuple):
    """The last operand ``low`` to ``high`` times (None: without end)."""

    low: int
    high: int | None


Op = Chars | Assertion | Look | Concat | Alternate | Repeat

# What stands beside a position: the edge of the text, or a character of one of three kinds.
EDGE, NEWLINE, WORD, OTHER = range(4)


def _mask(holds: Callable[[int, int], bool]) -> int:
    return sum(
        1 << (4 * before + after)
        for before in range(4)
        for after in range(4)
        if holds(before, after)
    )


TEXT_BEGIN = Assertion(_mask(lambda before, _: before == EDGE))
TEXT_END = Assertion(_mask(lambda _, after: after == EDGE))
LINE_BEGIN = Assertion(_mask(lambda before, _: before in (EDGE, NEWLINE)))
LINE_END = Assertion(_mask(lambda _, after: after in (EDGE, NEWLINE)))
WORD_EDGE = Assertion(_mask(lambda before, after: (before == WORD) != (after == WORD)))
NO_WORD_EDGE = Assertion(_mask(lambda before, after: (before == WORD) == (after == WORD)))
ANY_CHAR = Chars(charset.ALL)

_DOT = charset.complement(charset.LINE_TERMINATORS)
_CONTROL = {"n": 0x0A, "r": 0x0D, "t": 0x09, "f": 0x0C, "v": 0x0B}
_REFUSED_GROUPS = (
    ("(?<=", "lookbehind"),
    ("(?<!", "lookbehind"),
    ("(?P=", "backreference"),
    ("(?P>", "recursion"),
    ("(?>", "atomic group"),
    ("(?|", "branch reset"),
    ("(?(", "conditional"),
    ("(?R", "recursion"),
    ("(?&", "recursion"),
    ("(*", "verb"),
)
_REFUSED_ESCAPES = {
    "k": "backreference", "g": "backreference", "G": "\\G", "K": "\\K", "R": "\\R", "X": "\\X",
    "h": "\\h", "H": "\\H", "N": "\\N", "Q": "\\Q", "E": "\\E", "C": "\\C", "a": "\\a",
    "e": "\\e", "o": "\\o", "U": "\\U", "L": "\\L", "l": "\\l",
}  # fmt: skip
_MAX_LOOK_DEPTH = 16
_HEX = frozenset("0123456789abcdefABCDEF")


@dataclass(frozen=True, slots=True)
class Flags:
    """Inline flags: i, m, s."""

    ignore_case: bool = False
    multiline: bool = False
    dot_all: bool = False


@dataclass(slots=True)
class _Group:
    """An open group: what to do at its end."""

    at: int
    flags: Flags
    wide: bool
    begin: int = 0  # length of the program when it opened
    look: bool | None = None  # lookahead: whether negative
    terms: int = 0
    branches: int = 0


def parse(pattern: str, limits: Limits) -> tuple[Op, ...]:
    """The postfix program of ``pattern``; exactly one operand is left at its end.

    Raises ConstraintSyntaxError, UnsupportedError (``keyword`` names the construct) and
    TooComplex, each located at ``@N``, a byte offset into the pattern's UTF-8.
    """
    size = len(pattern.encode("utf-8", "surrogatepass"))
    if size > limits.max_regex_bytes:
        message = f"the pattern has {size} bytes, more than {limits.max_regex_bytes}"
        raise TooComplex(message, "@0", limit="max_regex_bytes")
    return _Parser(pattern, limits).run()


class _Parser:
    def __init__(self, pattern: str, limits: Limits) -> None:
        self.pattern = pattern
        self.limits = limits
        self.at = 0
        self.program: list[Op] = []
        self.group = _Group(0, Flags(), wide=False)
        self.open: list[_Group] = []
        self.look_depth = 0
        # Where the operand that a quantifier would repeat begins; None: nothing to repeat.
        self.repeatable = False

    # --- Errors

    def offset(self, at: int) -> str:
        return f"@{len(self.pattern[:at].encode('utf-8', 'surrogatepass'))}"

    def malformed(self, message: str, at: int) -> NoReturn:
        raise ConstraintSyntaxError(message, self.offset(at))

    def unsupported(self, keyword: str, at: int) -> NoReturn:
        message = f"regular expressions with {keyword} are not supported"
        raise UnsupportedError(message, self.offset(at), keyword=keyword)

    # --- Structure

    def run(self) -> tuple[Op, ...]:
        pattern = self.pattern
        size = len(pattern)
        while self.at < size:
            char = pattern[self.at]
            if char == "(":
                self.open_group()
            elif char == ")":
                self.close_group()
            elif char == "|":
                self.at += 1
                self.end_branch()
            elif char in "*+?":
                self.quantifier(*{"*": (0, None), "+": (1, None), "?": (0, 1)}[char], self.at + 1)
            elif char == "{":
                self.brace()
            else:
                self.atom(char)
        if self.open:
            self.malformed("unterminated group", self.group.at)
        self.finish_alternatives()
        return tuple(self.program)

    def term(self, op: Op, *, repeatable: bool = True) -> None:
        self.program.append(op)
        self.group.terms += 1
        self.repeatable = repeatable

    def end_branch(self) -> None:
        """Close one alternative: its terms become one operand."""
        if self.group.terms != 1:
            self.program.append(Concat(self.group.terms))
        self.group.terms = 0
        self.group.branches += 1
        self.repeatable = False

    def finish_alternatives(self) -> None:
        self.end_branch()
        if self.group.branches > 1:
            self.program.append(Alternate(self.group.branches))

    def open_group(self) -> None:
        pattern, at = self.pattern, self.at
        for prefix, name in _REFUSED_GROUPS:
            if pattern.startswith(prefix, at):
                self.unsupported(name, at)
        if pattern.startswith("(?#", at):
            end = pattern.find(")", at)
            if end < 0:
                self.malformed("unterminated comment", at)
            self.at = end + 1
            return
        if len(self.open) >= self.limits.max_regex_depth:
            message = f"groups nest deeper than {self.limits.max_regex_depth}"
            raise TooComplex(message, self.offset(at), limit="max_regex_depth")
        group = _Group(at, self.group.flags, self.group.wide, len(self.program))
        if not pattern.startswith("(?", at):
            self.at = at + 1
        elif pattern.startswith("(?:", at):
            self.at = at + 3
        elif pattern.startswith(("(?=", "(?!"), at):
            self.open_look(group)
        elif pattern.startswith(("(?<", "(?P<"), at):
            self.group_name(at)
        else:
            flags, scoped = self.inline_flags(at)
            if not scoped:
                self.group.flags = flags
                self.repeatable = False
                return
            group.flags = flags
        self.open.append(self.group)
        self.group = group
        self.repeatable = False

    def open_look(self, group: _Group) -> None:
        self.at += 3
        group.look = self.pattern[self.at - 1] == "!"
        # What every reader rejects, under a negation, is what some reader accepts.
        group.wide = self.group.wide != group.look
        self.look_depth += 1
        if self.look_depth > _MAX_LOOK_DEPTH:
            message = f"lookaheads nest deeper than {_MAX_LOOK_DEPTH}"
            raise TooComplex(message, self.offset(group.at), limit="max_regex_depth")

    def group_name(self, at: int) -> None:
        begin = self.pattern.index("<", at) + 1
        end = self.pattern.find(">", begin)
        name = self.pattern[begin:end] if end >= 0 else ""
        if not name.replace("$", "_").isidentifier():
            self.malformed("bad group name", begin)
        self.at = end + 1

    def inline_flags(self, at: int) -> tuple[Flags, bool]:
        """``(?ims-ims)`` or ``(?ims-ims:``; whether the second."""
        flags = self.group.flags
        on = True
        i = at + 2
        while i < len(self.pattern) and self.pattern[i] not in "):":
            char = self.pattern[i]
            if char == "-" and on:
                on = False
            elif char == "i":
                flags = replace(flags, ignore_case=on)
            elif char == "m":
                flags = replace(flags, multiline=on)
            elif char == "s":
                flags = replace(flags, dot_all=on)
            elif char in "xuUaLnJ^":
                self.unsupported(f"flag {char}", i)
            elif char.isdigit() or char == "+":
                self.unsupported("recursion", at)
            else:
                self.malformed("unknown kind of group", at)
            i += 1
        if i == len(self.pattern):
            self.malformed("unterminated group", at)
        self.at = i + 1
        return flags, self.pattern[i] == ":"

    def close_group(self) -> None:
        if not self.open:
            self.malformed("unmatched )", self.at)
        self.finish_alternatives()
        group = self.group
        self.group = self.open.pop()
        self.at += 1
        if group.look is None:
            self.group.terms += 1
            self.repeatable = True
            return
        body = tuple(self.program[group.begin :])
        del self.program[group.begin :]
        self.look_depth -= 1
        self.term(Look(group.look, body), repeatable=False)

    # --- Quantifiers

    def brace(self) -> None:
        """``{m}``, ``{m,}``, ``{m,n}``; any other ``{`` is a literal, as in ECMA-262 annex B."""
        end = self.pattern.find("}", self.at)
        body = self.pattern[self.at + 1 : end] if end >= 0 else ""
        low, comma, high = body.partition(",")
        if comma and not low and high.isascii() and high.isdigit():
            self.unsupported("{,n}", self.at)  # a literal in ECMA-262, {0,n} in Python and PCRE
        if not (low.isascii() and low.isdigit()) or (
            high and not (high.isascii() and high.isdigit())
        ):
            self.at += 1
            self.term(self.literal(0x7B))
            return
        if max(len(low), len(high)) > 9:
            message = "a repetition count is too large"
            raise TooComplex(message, self.offset(self.at), limit="max_nfa_states")
        least = int(low)
        most = int(high) if high else (None if comma else least)
        if most is not None and most < least:
            self.malformed("a repetition's bounds are out of order", self.at)
        self.quantifier(least, most, end + 1)

    def quantifier(self, low: int, high: int | None, end: int) -> None:
        if not self.repeatable:
            self.malformed("nothing to repeat", self.at)
        follower = self.pattern[end : end + 1]
        if follower == "+":
            self.unsupported("possessive quantifier", end)
        self.at = end + (follower == "?")  # lazy: the same language
        if (low, high) != (1, 1):
            self.program.append(Repeat(low, high))
        self.repeatable = False

    # --- Atoms

    def literal(self, code: int) -> Chars:
        if 0xD800 <= code <= 0xDFFF:
            return Chars(charset.EMPTY)
        ranges: Ranges = ((code, code),)
        return Chars(charset.ignore_case(ranges) if self.group.flags.ignore_case else ranges)

    def atom(self, char: str) -> None:
        flags = self.group.flags
        if char == "\\":
            self.escape()
            return
        if char == "[":
            self.char_class()
            return
        self.at += 1
        if char == ".":
            self.term(Chars(charset.ALL if flags.dot_all else _DOT))
        elif char == "^":
            self.term(LINE_BEGIN if flags.multiline else TEXT_BEGIN, repeatable=False)
        elif char == "$":
            self.term(LINE_END if flags.multiline else TEXT_END, repeatable=False)
        else:
            code = ord(char)
            if 0xD800 <= code < 0xDC00 and self.at < len(self.pattern):
                low = ord(self.pattern[self.at])
                if 0xDC00 <= low < 0xE000:
                    self.at += 1
                    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
            self.term(self.literal(code))

    def escape(self) -> None:
        char = self.pattern[self.at + 1 : self.at + 2]
        if char in ("A", "z", "Z", "b", "B"):
            self.at += 2
            anchor = {
                "A": TEXT_BEGIN, "z": TEXT_END, "Z": TEXT_END, "b": WORD_EDGE, "B": NO_WORD_EDGE,
            }[char]  # fmt: skip
            self.term(anchor, repeatable=False)
            return
        pair = self.escaped_set()
        if pair is not None:
            narrow, wide = pair
            self.term(Chars(self.fold(wide if self.group.wide else narrow)))
        else:
            self.term(self.literal(self.escaped_char()))

    def fold(self, ranges: Ranges) -> Ranges:
        return charset.ignore_case(ranges) if self.group.flags.ignore_case else ranges

    def escaped_set(self) -> tuple[Ranges, Ranges] | None:
        """At ``\\``: the (narrow, wide) readings of a class escape, or None; moves past it."""
        char = self.pattern[self.at + 1 : self.at + 2]
        if char and char in "dDwWsS":
            self.at += 2
            narrow, wide = {
                "d": (charset.DIGIT, charset.unicode_digit()),
                "w": (charset.WORD, charset.unicode_word()),
                "s": (charset.SPACE, charset.unicode_space()),
            }[char.lower()]
            if char.isupper():
                return charset.complement(wide), charset.complement(narrow)
            return narrow, wide
        if char and char in "pP":
            ranges = self.property_name()
            if char == "P":
                ranges = charset.complement(ranges)
            return ranges, ranges
        return None

    def property_name(self) -> Ranges:
        at = self.at
        if self.pattern[at + 2 : at + 3] == "{":
            end = self.pattern.find("}", at)
            if end < 0:
                self.malformed("unterminated property name", at)
            name = self.pattern[at + 3 : end]
            self.at = end + 1
        else:
            name = self.pattern[at + 2 : at + 3]
            self.at = at + 3
        if not name:
            self.malformed("missing property name", at)
        ranges = charset.unicode_property(name)
        if ranges is None:
            self.unsupported(f"\\p{{{name}}}", at)
        return ranges

    def escaped_char(self) -> int:
        """At ``\\``: the code point of a character escape; moves past it."""
        at = self.at
        char = self.pattern[at + 1 : at + 2]
        self.at = at + 2
        if not char:
            self.malformed("nothing after \\", at)
        if char in _CONTROL:
            return _CONTROL[char]
        if char == "x":
            return self.hex_escape(at, 2)
        if char == "u":
            return self.unicode_escape(at)
        if char == "c":
            letter = self.pattern[at + 2 : at + 3]
            if not (letter.isascii() and letter.isalpha()):
                self.malformed("\\c needs a letter", at)
            self.at = at + 3
            return ord(letter) & 31
        if char == "0":
            if self.pattern[at + 2 : at + 3].isdigit():
                self.unsupported("octal escape", at)
            return 0
        if char.isascii() and char.isdigit():
            self.unsupported("backreference", at)
        if char in _REFUSED_ESCAPES:
            self.unsupported(_REFUSED_ESCAPES[char], at)
        if char.isascii() and char.isalpha():
            self.malformed(f"unknown escape \\{char}", at)
        return ord(char)

    def hex_escape(self, at: int, digits: int) -> int:
        """``\\xHH``, ``\\uHHHH`` or either with ``{H...}``."""
        if self.pattern[at + 2 : at + 3] == "{":
            end = self.pattern.find("}", at)
            text = self.pattern[at + 3 : end] if end >= 0 else ""
            self.at = end + 1
        else:
            text = self.pattern[at + 2 : at + 2 + digits]
            self.at = at + 2 + digits
            if len(text) != digits:
                self.malformed("too few hexadecimal digits", at)
        if not text or len(text) > 8 or not _HEX.issuperset(text) or int(text, 16) > charset.LAST:
            self.malformed("not a code point", at)
        return int(text, 16)

    def unicode_escape(self, at: int) -> int:
        code = self.hex_escape(at, 4)
        follower = self.pattern[self.at : self.at + 6]
        if 0xD800 <= code < 0xDC00 and follower[:2] == "\\u" and _HEX.issuperset(follower[2:]):
            low = int(follower[2:] or "0", 16)
            if len(follower) == 6 and 0xDC00 <= low < 0xE000:
                self.at += 6
                return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        return code

    # --- Classes

    def char_class(self) -> None:
        begin = self.at
        self.at += 1
        negated = self.pattern.startswith("^", self.at)
        self.at += negated
        narrow: list[tuple[int, int]] = []
        wide: list[tuple[int, int]] = []
        while not self.pattern.startswith("]", self.at):
            if self.at >= len(self.pattern):
                self.malformed("unterminated character class", begin)
            at = self.at
            item = self.class_item()
            if not isinstance(item, int):
                narrow += item[0]
                wide += item[1]
                continue
            low = high = item
            if self.range_follows():
                dash = self.at
                self.at += 1
                other = self.class_item()
                if isinstance(other, int):
                    high = other
                    if high < low:
                        self.malformed("a range is out of order", at)
                else:  # [a-\d]: a literal, as in ECMA-262 annex B
                    narrow += other[0]
                    wide += other[1]
                    narrow.append((0x2D, 0x2D))
                    wide.append((0x2D, 0x2D))
                    assert dash < self.at
            narrow.append((low, high))
            wide.append((low, high))
        self.at += 1
        if negated != self.group.wide:
            ranges = self.fold(charset.union(tuple(wide)))
        else:
            ranges = self.fold(charset.union(tuple(narrow)))
        self.term(Chars(charset.complement(ranges) if negated else ranges))

    def range_follows(self) -> bool:
        return (
            self.pattern.startswith("-", self.at)
            and self.at + 1 < len(self.pattern)
            and self.pattern[self.at + 1] != "]"
        )

    def class_item(self) -> int | tuple[Ranges, Ranges]:
        """A character, or the (narrow, wide) readings of a class escape."""
        char = self.pattern[self.at]
        if char == "[" and self.pattern[self.at + 1 : self.at + 2] in (":", ".", "="):
            mark = self.pattern[self.at + 1]
            if f"{mark}]" in self.pattern[self.at + 2 :]:
                self.unsupported("POSIX class", self.at)
        if char == "\\":
            if self.pattern.startswith("\\b", self.at):
                self.at += 2
                return 0x08
            escaped = self.escaped_set()
            return escaped if escaped is not None else self.escaped_char()
        self.at += 1
        code = ord(char)
        if 0xD800 <= code < 0xDC00 and self.at < len(self.pattern):
            low = ord(self.pattern[self.at])
            if 0xDC00 <= low < 0xE000:
                self.at += 1
                return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        return code
