"""String and number values of a goal -> lexemes with one label per set of satisfied members."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from grammar import automata, lexemes
from grammar.dfa import Dfa
from grammar.errors import TooComplex
from grammar.formats import format_text
from grammar.lexemes import Lexeme
from grammar.numbers import number_dfa
from grammar.options import JsonOptions, Limits
from grammar.regex import (
    Spelling,
    TextDfa,
    compile_regex,
    compile_text,
    json_string_dfa,
    spell,
    spell_dfa,
)
from grammar.regex.text import bounded, intersect, of_length, subtract
from grammar.schema.goal import Conjunction
from grammar.schema.node import FRACTION, INTEGER, NUMBER, STRING
from grammar.vocabulary import Vocabulary

MAX_PRODUCT = 31  # members that one product of automata tells apart

#: Keys are shared by value, so that equal strings of different schemas share one lexeme.
StringSpec = tuple[Any, ...]
#: (kind, text): "pattern" or "format", with "not " before it the opposite; or "not values".
TextKey = tuple[str, "str | tuple[str, ...]"]


class Scalars:
    """Builds the string and number lexemes of one schema; shares them per vocabulary."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        options: JsonOptions,
        limits: Limits,
        shipped: dict[str, Dfa],
        *,
        plain_integers: bool = False,
    ) -> None:
        self.vocabulary = vocabulary
        self.options = options
        self.limits = limits
        self.shipped = shipped
        #: Lexemes that a limit reduced to examples.
        self.pruned = 0
        self.built: dict[str, Dfa] = {}
        if options.numbers == "any":
            self.spelling = Spelling.JSON
        else:
            self.spelling = Spelling.ASCII if options.ascii_only else Spelling.PLAIN
        #: Draft 4 knows integers by their spelling: 1.0 is none.
        self.plain_integers = plain_integers
        self._counted: dict[StringSpec, bool] = {}
        self._texts: dict[TextKey, TextDfa] = {}

    # --- strings ----------------------------------------------------------------------------

    def string_spec(self, conjunction: Conjunction) -> StringSpec | None:
        """What a conjunction says of strings, by value; None when it allows none."""
        if "string" not in conjunction.kinds:
            conjunction.kinds["string"] = self._string_spec(conjunction)
        found: StringSpec | None = conjunction.kinds["string"]
        return found

    def _string_spec(self, conjunction: Conjunction) -> StringSpec | None:
        if not conjunction.types & STRING:
            return None
        texts: list[TextKey] = [
            *sorted({(kind, text) for n in conjunction.nodes for kind, text, _ in n.texts})
        ]
        for node in conjunction.nodes:
            for kind, text, compiled in node.texts:
                if compiled is not None:
                    self._texts[kind, text] = compiled
        excluded = {
            v for n in conjunction.nodes for each in n.excluded for v in each if isinstance(v, str)
        }
        if excluded and conjunction.enum is None:
            texts.append(("not values", tuple(sorted(excluded))))
        low = max((n.min_length for n in conjunction.nodes), default=0)
        highs = [n.max_length for n in conjunction.nodes if n.max_length is not None]
        high = min(highs, default=None)
        if high is not None and low > high:
            return None
        if conjunction.enum is not None:
            values = [v for v in conjunction.enum if isinstance(v, str)]
            kept = tuple(
                v for v in values if v not in excluded and self._fits(v, texts, low, high)
            )
            return ("enum", kept) if kept else None
        spec = ("text", tuple(texts), low, high)
        if not texts:
            return spec
        if self._short_key(spec) in self.shipped:
            return spec
        shortest = self._without_high(spec).shortest()
        return None if shortest is None or (high is not None and shortest > high) else spec

    def _without_high(self, spec: StringSpec) -> TextDfa:
        """The texts without the upper bound: it can be large, and mostly need not be built in."""
        return self._text_dfa((*spec[:3], None))

    def _short_key(self, spec: StringSpec) -> str:
        return f"short:{self.spelling.name}:{spec!r}"

    def _string_key(self, spec: StringSpec) -> str:
        return f"string:{self.spelling.name}:{spec!r}"

    def _fits(self, value: str, texts: Sequence[TextKey], low: int, high: int | None) -> bool:
        if len(value) < low or (high is not None and len(value) > high):
            return False
        if any(0xD800 <= ord(c) < 0xE000 for c in value):
            return False  # a lone surrogate has no UTF-8: it is never generated
        return all(self._text(key).matches(value) for key in texts)

    def _text(self, key: TextKey) -> TextDfa:
        found = self._texts.get(key)
        if found is None:
            found = self._texts[key] = self._made_text(*key)
        return found

    def _made_text(self, kind: str, text: str | tuple[str, ...]) -> TextDfa:
        if isinstance(text, tuple):
            return self._others(literals(text, self.limits))
        if kind == "format":
            return format_text(text, self.spelling.keeps_nul, self.limits)
        if kind == "not format":
            return self._others(format_text(text, nul=True, limits=self.limits))
        if kind == "not pattern":
            return self._others(compile_text(text, search=True, limits=self.limits))
        return compile_text(text, search=True, nul=False, limits=self.limits)

    def _others(self, text: TextDfa) -> TextDfa:
        """Every text that is not one of ``text``."""
        everything = of_length(0, None, self.limits, self.spelling.universe)
        return subtract(everything, text, self.limits)

    def text_of_key(self, pattern: str) -> TextDfa:
        """The keys that a pattern matches; unlike in values, U+0000 is a character of them."""
        key = ("key pattern", pattern)
        if key not in self._texts:
            self._texts[key] = compile_text(pattern, search=True, limits=self.limits)
        return self._texts[key]

    def text_dfa(self, spec: StringSpec) -> TextDfa:
        """The texts of one specification."""
        if spec[0] == "enum":
            return literals(spec[1], self.limits)
        return self._text_dfa(spec) if spec[1] else of_length(spec[2], spec[3], self.limits)

    def _text_dfa(self, spec: StringSpec) -> TextDfa:
        _, texts, low, high = spec
        combined = self._text(texts[0])
        for key in texts[1:]:
            combined = intersect(combined, self._text(key), self.limits)
        if low or high is not None:
            combined = bounded(combined, low, high, self.limits)
        return combined

    def is_plain(self, spec: StringSpec) -> bool:
        """Whether only the length is bounded: the shared string lexeme with counters serves."""
        return spec[0] == "text" and not spec[1]

    def plain_string(self) -> Lexeme:
        """Any string, counted by characters."""
        key = ("string", self.spelling)
        lexeme = self.vocabulary.lexemes.get(key)
        if lexeme is None:
            dfa = json_string_dfa(
                self.spelling, dead=self.vocabulary.dead_bytes, limits=self.limits
            )
            lexeme = self.vocabulary.lexemes[key] = lexemes.quoted(dfa, 1, counted=True)
        assert isinstance(lexeme, Lexeme)
        return lexeme

    def string_dfa(self, spec: StringSpec) -> Dfa:
        """The interior of the strings of one specification (start 0 when none can be spelled)."""
        return self.kept(self._string_key(spec), lambda: self._string_dfa(spec))

    def _string_dfa(self, spec: StringSpec) -> Dfa:
        dead = self.vocabulary.dead_bytes
        if spec[0] == "enum":
            return self._enum_dfa([spell(v, self._enum_spelling()) for v in spec[1]])
        if spec[1]:
            return spell_dfa(self._text_dfa(spec), self.spelling, dead, self.limits)
        return json_string_dfa(self.spelling, spec[2], spec[3], dead=dead, limits=self.limits)

    def kept(self, key: str, make: Callable[[], Dfa]) -> Dfa:
        """An automaton of this vocabulary, made once and remembered for shipping."""
        dfa = self.shipped.get(key) or self.vocabulary.lexemes.get(key)
        if dfa is None:
            dfa = self.vocabulary.lexemes[key] = make()
        assert isinstance(dfa, Dfa)
        self.built[key] = dfa
        return dfa

    def bounded_string(self, spec: StringSpec) -> tuple[Lexeme, int] | None:
        """(lexeme, upper bound to count) of texts with a length that matters; else None.

        The lower bound is built in (it is small), the upper one is counted.
        """
        if spec[0] != "text" or not spec[1] or spec[3] is None:
            return None
        if spec not in self._counted:
            self._counted[spec] = self._is_counted(spec)
        if not self._counted[spec]:
            return None
        key = ("bounded", self.spelling, spec[:3])
        known = self.vocabulary.lexemes.get(key)
        if known is None:
            try:
                known = (self._bounded(spec),)
            except TooComplex:
                known = (None,)  # ``lexeme`` falls back on an example
            self.vocabulary.lexemes[key] = known
        lexeme: Lexeme | None = known[0]
        return None if lexeme is None else (lexeme, spec[3])

    def _is_counted(self, spec: StringSpec) -> bool:
        """Whether texts could be longer than the upper bound."""
        if self._string_key(spec) in self.shipped:
            return False
        if self._string_key((*spec[:3], None)) in self.shipped:
            return True
        longest = self._without_high(spec).longest()
        return longest is None or longest > spec[3]

    def build(self, conjunction: Conjunction) -> None:
        """Build now what states of this conjunction would build when first visited."""
        string = self.string_spec(conjunction)
        if string is not None and not self.is_plain(string):
            self.short_string(string)
            if self.bounded_string(string):
                self.string_dfa((*string[:3], None))
            elif self.lexeme("string", [(0, string)], merge=True):
                self.string_dfa(string)
        number = self.number_spec(conjunction)
        if number is not None and self.lexeme("number", [(0, number)], merge=True):
            self.number_dfa(number)
        for node in conjunction.nodes:
            for kind, text, _ in node.texts:
                if kind == "pattern":
                    self.built[f"checked:{text}"] = automata.EMPTY

    def _bounded(self, spec: StringSpec) -> Lexeme | None:
        boundary = json_string_dfa(
            self.spelling, dead=self.vocabulary.dead_bytes, limits=self.limits
        )
        return lexemes.bounded(self.string_dfa((*spec[:3], None)), boundary)

    def _enum_spelling(self) -> Spelling:
        return Spelling.ASCII if self.options.ascii_only else Spelling.KEY

    def _enum_dfa(self, spelled: list[bytes]) -> Dfa:
        trie = automata.from_strings(sorted(set(spelled)), self.limits)
        return automata.remove_bytes(
            Dfa(trie.table, np.minimum(trie.accept, 0).astype(np.int32), trie.start),
            self.vocabulary.dead_bytes,
        )

    def short_string(self, spec: StringSpec) -> bytes | None:
        """A shortest string of a specification with texts or listed values."""
        if spec[0] == "enum":
            spelled = [spell(v, self._enum_spelling()) for v in spec[1]]
            usable = [t for t in spelled if not self.vocabulary.dead_bytes[list(t)].any()]
            return b'"' + min(usable, key=len) + b'"' if usable else None
        if self.is_plain(spec):
            return b'"' + self.plain_string().filler * int(spec[2]) + b'"'
        key = self._short_key(spec)
        shipped = self.shipped.get(key)
        if shipped is None:
            found = self._without_high(spec).example()  # a shortest one: it is within the bound
            if found is None:
                return None
            shipped = automata.from_strings([spell(found, self.spelling)])
        self.built[key] = shipped
        return lexemes.quoted(shipped, 1).shortest(1)

    # --- numbers ----------------------------------------------------------------------------

    def number_spec(self, conjunction: Conjunction) -> tuple[Any, ...] | None:
        """What a conjunction says of numbers, by value; None when it allows none."""
        if "number" not in conjunction.kinds:
            conjunction.kinds["number"] = self._number_spec(conjunction)
        found: tuple[Any, ...] | None = conjunction.kinds["number"]
        return found

    def _number_spec(self, conjunction: Conjunction) -> tuple[Any, ...] | None:
        types = conjunction.types & NUMBER
        if not types:
            return None
        low, low_out, high, high_out = _bounds(conjunction)
        steps = sorted({Fraction(m) for n in conjunction.nodes for m in n.multiples})
        spec = (
            types & FRACTION == 0, low, high, low_out, high_out, _common_step(steps),
            _holes(conjunction),
        )  # fmt: skip
        if conjunction.enum is not None:
            values = [Fraction(v) for v in conjunction.enum if _is_number(v)]
            kept = tuple(sorted({v for v in values if _in_set(v, spec)}))
            return ("enum", kept, spec[0]) if kept else None
        return spec if low is None or high is None or low <= high else None

    def short_number(self, spec: tuple[Any, ...] | None) -> bytes | None:
        """The shortest literal, where it is plainly an integer."""
        if spec is None or spec[0] == "enum":
            return None
        _, low, high, low_out, high_out, step, _ = spec
        if step is not None:
            return None
        least = 0 if low is None or low < 0 else math.floor(low) + 1 if low_out else math.ceil(low)
        most = (
            0
            if high is None or high > 0
            else math.ceil(high) - 1
            if high_out
            else math.floor(high)
        )
        if low is not None and low >= 0 and (low > 0 or low_out):
            value = least
        elif high is not None and high <= 0 and (high < 0 or high_out):
            value = most
        else:
            value = 0
        if abs(value) > 10**15 or not _in_set(Fraction(value), spec):
            return None
        return str(value).encode()

    def number_dfa(self, spec: tuple[Any, ...]) -> Dfa:
        """The literals of one specification."""
        return self.kept(
            f"number:{self.options.numbers}:{self.plain_integers}:{spec!r}",
            lambda: self._number_dfa(spec),
        )

    def _number_dfa(self, spec: tuple[Any, ...]) -> Dfa:
        style = self.options.numbers
        if spec[0] == "enum":
            integer = spec[2]
            dfa = self._union([self._point(value) for value in spec[1]])
        else:
            integer, low, high, low_out, high_out, step, holes = spec
            dfa = number_dfa(
                integer=integer, minimum=low, maximum=high, exclusive_minimum=low_out,
                exclusive_maximum=high_out, multiple_of=step, style=style, limits=self.limits,
            )  # fmt: skip
            if holes:
                dfa = self._without(dfa, *holes)
        if integer and self.plain_integers:
            dfa = automata.intersect(dfa, compile_regex("-?(0|[1-9][0-9]*)"), self.limits)
        if (
            self.vocabulary.dead_bytes[0x2B]
            or self.vocabulary.dead_bytes[[*b"0123456789-.eE"]].any()
        ):
            dfa = automata.remove_bytes(dfa, self.vocabulary.dead_bytes)
        return dfa

    def _without(self, dfa: Dfa, points: Sequence[Fraction], steps: Sequence[Fraction]) -> Dfa:
        """The plain literals (no exponent) of other values than points and multiples."""
        plain = compile_regex(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
        dfa = automata.intersect(dfa, plain, self.limits)
        for value in points:
            dfa = automata.subtract(dfa, self._point(value, "any"), self.limits)
        for step in steps:
            multiples = number_dfa(multiple_of=step, style="any", limits=self.limits)
            dfa = automata.subtract(dfa, multiples, self.limits)
        return Dfa(dfa.table, dfa.accept, dfa.start)

    def _point(self, value: Fraction, style: Literal["readable", "any"] | None = None) -> Dfa:
        return number_dfa(
            integer=value.denominator == 1, minimum=value, maximum=value,
            style=style or self.options.numbers, limits=self.limits,
        )  # fmt: skip

    # --- lexemes ----------------------------------------------------------------------------

    def lexeme(
        self, kind: str, specs: Sequence[tuple[int, Any]], merge: bool
    ) -> tuple[Lexeme, list[int]] | None:
        """One lexeme for several members: (bit, specification) -> (lexeme, bits of each label).

        ``merge``: nobody needs to tell the members apart, one label carries all bits. None when
        nothing can be spelled.
        """
        key = (kind, self.spelling, self.options.numbers, self._enum_spelling(), merge,
               self.plain_integers,
               tuple((i, repr(spec)) for i, (_, spec) in enumerate(specs)))  # fmt: skip
        cached = self.vocabulary.lexemes.get(key)
        if cached is None:
            wanted = [spec for _, spec in specs]
            try:
                cached = self._build(kind, wanted, merge)
            except TooComplex:
                self.pruned += 1
                cached = self._examples(kind, wanted)
            self.vocabulary.lexemes[key] = cached
        lexeme, members = cached
        if lexeme is None:
            return None
        bits = [sum(1 << specs[i][0] for i in range(len(specs)) if m >> i & 1) for m in members]
        return lexeme, bits

    def _examples(self, kind: str, specs: list[Any]) -> tuple[Lexeme | None, list[int]]:
        """Only one text of each member: what is left where a limit is exceeded (decision 6)."""
        members: dict[bytes, int] = {}
        room = self.limits.max_dfa_states - 2
        texts = [(self._example(kind, spec), i) for i, spec in enumerate(specs)]
        for text, i in sorted(((t, i) for t, i in texts if t is not None), key=_length):
            if text not in members:
                room -= len(text)
                if room < 0:
                    break
            members[text] = members.get(text, 0) | 1 << i
        if not members:
            return None, []
        interiors = [t[1:-1] if kind == "string" else t for t in members]
        wrap = lexemes.quoted if kind == "string" else lexemes.number
        trie = automata.remove_bytes(automata.from_strings(interiors), self.vocabulary.dead_bytes)
        return (None, []) if trie.is_empty else (wrap(trie, len(members)), list(members.values()))

    def _example(self, kind: str, spec: Any) -> bytes | None:
        if kind == "string":
            return self.short_string(spec)
        text = self.short_number(spec)
        if text is None:
            try:
                dfa = self.number_dfa(spec)
            except TooComplex:
                return None
            text = None if dfa.is_empty else lexemes.number(dfa, 1).shortest(1)
        return text

    def _build(self, kind: str, specs: list[Any], merge: bool) -> tuple[Lexeme | None, list[int]]:
        make = self.string_dfa if kind == "string" else self.number_dfa
        wrap = lexemes.quoted if kind == "string" else lexemes.number
        members: dict[Any, int] = {}  # equal specifications count once
        for i, spec in enumerate(specs):
            members[spec] = members.get(spec, 0) | 1 << i
        listed = len(members) > 1 and all(spec[0] == "enum" for spec in members)
        if listed and (kind == "string" or len(members) > MAX_PRODUCT) and not merge:
            return self._listed(kind, members)
        dfas = [make(spec) for spec in members]
        if len(dfas) == 1 or merge:
            dfa = self._union(dfas)
            return (None, []) if dfa.is_empty else (wrap(dfa, 1), [(1 << len(specs)) - 1])
        if len(dfas) > MAX_PRODUCT:
            message = f"{len(dfas)} alternatives to tell apart, at most {MAX_PRODUCT}"
            raise TooComplex(message, "", "max_branches")
        product = automata.product(dfas, lambda bits: bits != 0, limits=self.limits)
        if product.is_empty:
            return None, []
        used: dict[int, int] = {}
        labels = np.full(len(product.accept), -1, dtype=np.int32)
        for q in np.flatnonzero(product.accept >= 0).tolist():
            labels[q] = used.setdefault(int(product.accept[q]), len(used))
        of = list(members.values())
        held = [sum(of[k] for k in range(len(of)) if bits >> k & 1) for bits in used]
        return wrap(Dfa(product.table, labels, product.start), len(used)), held

    def _union(self, dfas: list[Dfa]) -> Dfa:
        """Pairwise, so that the work on many small ones stays near linear."""
        while len(dfas) > 1:
            pairs = zip(dfas[::2], dfas[1::2], strict=False)
            rest = dfas[len(dfas) - len(dfas) % 2 :]
            dfas = [automata.union(a, b, self.limits) for a, b in pairs] + rest
        return dfas[0]

    def _listed(self, kind: str, members: dict[Any, int]) -> tuple[Lexeme | None, list[int]]:
        """Listed values, each in one spelling: a trie with a label for each set of members."""
        holders: dict[Any, int] = {}
        for spec, bits in members.items():
            for value in spec[1]:
                holders[value] = holders.get(value, 0) | bits
        if kind == "string":
            texts = {spell(v, self._enum_spelling()): bits for v, bits in holders.items()}
        else:
            self.pruned += 1  # other spellings of the numbers
            texts = {_plain_number(v): bits for v, bits in holders.items()}
        order = sorted(texts)
        sets = list(dict.fromkeys(texts.values()))
        label = np.array([sets.index(texts[t]) for t in order], dtype=np.int32)
        trie = automata.from_strings(order, self.limits)
        accept = np.where(trie.accept >= 0, label[trie.accept], -1).astype(np.int32)
        dfa = Dfa(trie.table, accept, trie.start)
        dfa = automata.remove_bytes(dfa, self.vocabulary.dead_bytes)
        wrap = lexemes.quoted if kind == "string" else lexemes.number
        return (None, []) if dfa.is_empty else (wrap(dfa, len(sets)), sets)


def literals(values: Sequence[str], limits: Limits) -> TextDfa:
    """Exactly these texts."""
    escaped = ("".join(f"\\u{{{ord(c):x}}}" for c in value) for value in values)
    return compile_text("|".join(escaped), limits=limits)


def _length(example: tuple[bytes, int]) -> int:
    return len(example[0])


def _plain_number(value: Fraction) -> bytes:
    """Digits and at most one point."""
    if value.denominator == 1:
        return str(value.numerator).encode()
    with decimal.localcontext(prec=2_000):
        return format(Decimal(value.numerator) / Decimal(value.denominator), "f").encode()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _bounds(conjunction: Conjunction) -> tuple[Fraction | None, bool, Fraction | None, bool]:
    low: Fraction | None = None
    high: Fraction | None = None
    low_out = high_out = False
    for node in conjunction.nodes:
        if node.minimum is not None:
            value = Fraction(node.minimum)
            if low is None or value > low or (value == low and node.exclusive_minimum):
                low, low_out = value, node.exclusive_minimum
        if node.maximum is not None:
            value = Fraction(node.maximum)
            if high is None or value < high or (value == high and node.exclusive_maximum):
                high, high_out = value, node.exclusive_maximum
    return low, low_out, high, high_out


def _common_step(steps: list[Fraction]) -> Fraction | None:
    """Least common multiple: a multiple of every step is a multiple of it."""
    if not steps:
        return None
    common = steps[0]
    for step in steps[1:]:
        numerator = np.lcm.reduce(
            [common.numerator * step.denominator, step.numerator * common.denominator],
            dtype=object,
        )
        common = Fraction(int(numerator), common.denominator * step.denominator)
    return common


def _holes(
    conjunction: Conjunction,
) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]] | None:
    """(values, steps): numbers that are excluded, and whose multiples are."""
    nodes = conjunction.nodes
    points = {Fraction(v) for n in nodes for each in n.excluded for v in each if _is_number(v)}
    steps = {Fraction(step) for n in nodes for step in n.not_multiples}
    if not conjunction.types & INTEGER:
        steps.add(Fraction(1))
    if not points and not steps:
        return None
    return tuple(sorted(points)), tuple(sorted(steps))


def _in_set(value: Fraction, spec: tuple[Any, ...]) -> bool:
    integer, low, high, low_out, high_out, step, holes = spec
    if holes and (value in holes[0] or any((value / m).denominator == 1 for m in holes[1])):
        return False
    if integer and value.denominator != 1:
        return False
    if low is not None and (value < low or (low_out and value == low)):
        return False
    if high is not None and (value > high or (high_out and value == high)):
        return False
    return step is None or (value / step).denominator == 1
