"""Automata of JSON number literals by value: intervals and lattices of exact decimals.

Everything is built from small tables over the fifteen bytes of a number and combined by the
product kernel; nothing is ever rounded. A literal is read as sign, then magnitude:

    plain       27  27.0  0.5          compared digit by digit with each bound
    normalised  2.7e+1  5E-01          one non-zero digit before the point, |exponent| <= 400
    zero        0  0.0  0e5            whatever the exponent

A number without bounds accepts every literal; one with bounds every plain, normalised or zero
literal of a value in range. ``style="readable"`` (generation) leaves exponents to unbounded
numbers, keeps integers free of fractions, limits the digits and never writes ``-0``.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from math import lcm
from typing import Literal, NamedTuple

import numpy as np

from grammar.automata import EMPTY, Ints, minimize_table, product_table
from grammar.dfa import Dfa
from grammar.errors import TooComplex
from grammar.options import Limits

Style = Literal["readable", "any"]

_ALPHABET = b"0123456789.-+eE"
_DOT, _MINUS, _PLUS, _E, _BIG_E = range(10, 15)
_WIDTH = len(_ALPHABET)
_MAX_EXPONENT = 400
_READABLE_INTEGER_DIGITS = 19
_READABLE_FRACTION_DIGITS = 17
#: 19 digits and this exponent still fit binary64.
_READABLE_EXPONENT = 280
#: Fraction digits of a mantissa whose value must be on a lattice, and the largest step there.
_MANTISSA_DIGITS = 16
_MANTISSA_STEP = 16
_MAX_BITS = 14_000  # about 4,200 digits: more never fit in max_dfa_states


class _Table(NamedTuple):
    """An automaton over ``_ALPHABET``: int32[n, 15], accept labels, start; state 0 is dead."""

    table: Ints
    accept: Ints
    start: int


_NOTHING = _Table(np.zeros((1, _WIDTH), np.int32), np.full(1, -1, np.int32), 0)


def _rows(count: int) -> tuple[Ints, Ints]:
    return np.zeros((count, _WIDTH), dtype=np.int32), np.full(count, -1, dtype=np.int32)


def _product(tables: list[_Table], *, every: bool, limits: Limits) -> _Table:
    """Intersection (``every``) or union, minimised."""
    full = (1 << len(tables)) - 1
    sizes = [len(t.accept) for t in tables]
    table, accept, start = product_table(
        np.concatenate([t.table for t in tables]),
        np.concatenate([t.accept for t in tables]),
        np.cumsum([0, *sizes[:-1]]).astype(np.int64),
        np.array([t.start for t in tables], dtype=np.int32),
        (lambda bits: bits == full) if every else (lambda bits: bits != 0),
        required=full if every else 0,
        limits=limits,
    )
    return _Table(*minimize_table(table, np.minimum(accept, 0), start))


# --- Bounds -------------------------------------------------------------------------------------


class _Side(NamedTuple):
    """Magnitudes from ``low`` to ``high`` (None: no end); ``*_open``: without the end itself."""

    low: Fraction
    low_open: bool
    high: Fraction | None
    high_open: bool

    @property
    def is_empty(self) -> bool:
        if self.high is None:
            return False
        return self.low > self.high or (
            self.low == self.high and (self.low_open or self.high_open)
        )

    def contains(self, value: Fraction) -> bool:
        return not (
            value < self.low
            or (value == self.low and self.low_open)
            or (self.high is not None and value > self.high)
            or (value == self.high and self.high_open)
        )


def _digits(value: Fraction) -> tuple[str, str]:
    """Integer digits ("0" for none) and fraction digits of a non-negative decimal.

    Raises TooComplex for thousands of digits, ValueError for a value with no finite decimal.
    """
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_BITS:
        message = "a bound has thousands of digits"
        raise TooComplex(message, limit="max_dfa_states")
    whole, rest = divmod(value.numerator, value.denominator)
    places = _places(value)
    fraction = str(rest * 10**places // value.denominator).rjust(places, "0") if places else ""
    return str(whole), fraction


def _places(value: Fraction) -> int:
    """Digits after the point of a decimal."""
    denominator = value.denominator
    twos = (denominator & -denominator).bit_length() - 1
    denominator >>= twos
    fives = 0
    while denominator % 5 == 0:
        denominator //= 5
        fives += 1
    if denominator != 1:
        message = f"{value} is no finite decimal"
        raise ValueError(message)
    return max(twos, fives)


def _compare(bound: Fraction, accepted: str) -> _Table:
    """Plain magnitudes whose relation to ``bound`` ("<", "=", ">") is in ``accepted``.

    Any digits, with at most one point: other tables see to the form. States: while the integer
    part lasts, how many digits were read and how they compare with as many of the bound's.
    """
    whole, fraction = _digits(bound)
    length, places = len(whole), len(fraction)
    equal, less, more = 1, length + 2, 2 * length + 2  # [0..length], [1..length] each
    over = 3 * length + 3  # more integer digits than the bound
    frac = over + 1  # equal, 0..places fraction digits read
    below, above = frac + places + 1, frac + places + 2
    table, accept = _rows(above + 1)
    for n in range(length):
        digit = int(whole[n])
        row = table[equal + n]
        row[:digit] = less + n
        row[digit] = equal + n + 1
        row[digit + 1 : 10] = more + n + 1
    for n in range(1, length + 1):
        table[less + n - 1, :10] = less + n if n < length else over
        table[more + n, :10] = more + n + 1 if n < length else over
        table[less + n - 1, _DOT] = below
        table[more + n, _DOT] = above if n == length else below
        table[equal + n, _DOT] = frac if n == length else below
    table[equal + length, :10] = over
    table[over, :10] = over
    table[over, _DOT] = above
    for n in range(places):
        digit = int(fraction[n])
        row = table[frac + n]
        row[:digit] = below
        row[digit] = frac + n + 1
        row[digit + 1 : 10] = above
    table[frac + places, 0] = frac + places
    table[frac + places, 1:10] = above
    table[below, :10] = below
    table[above, :10] = above
    if "<" in accepted:
        accept[equal : equal + length] = 0
        accept[less : less + length] = 0
        accept[more : more + length] = 0
        accept[[*range(frac, frac + places), below]] = 0
        if fraction:
            accept[equal + length] = 0
    if ">" in accepted:
        accept[[more + length, over, above]] = 0
    if "=" in accepted:
        accept[frac + places] = 0
        if not fraction:
            accept[equal + length] = 0
    return _Table(table, accept, equal)


def _bounds(side: _Side) -> list[_Table]:
    tables = []
    if side.low > 0 or side.low_open:
        tables.append(_compare(side.low, ">" if side.low_open else ">="))
    if side.high is not None:
        tables.append(_compare(side.high, "<" if side.high_open else "<="))
    return tables


# --- Forms of a magnitude -----------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _plain_form(integer_digits: int | None, fraction_digits: int | None) -> _Table:
    """``0|[1-9][0-9]*``, then ``.[0-9]+``, with at most so many digits (None: any number)."""
    whole = integer_digits or 1
    places = fraction_digits if fraction_digits is not None else 1
    table, accept = _rows(3 + whole + 1 + places)
    start, zero, first = 1, 2, 3  # first + n - 1: n digits read
    dot = first + whole
    table[start, 0] = zero
    table[start, 1:10] = first
    for n in range(1, whole):
        table[first + n - 1, :10] = first + n
    if integer_digits is None:
        table[first, :10] = first
    accept[zero:dot] = 0
    if fraction_digits != 0:
        table[zero:dot, _DOT] = dot
        for n in range(places):
            table[dot + n, :10] = dot + n + 1
        if fraction_digits is None:
            table[dot + 1, :10] = dot + 1
        accept[dot + 1 : dot + places + 1] = 0
    return _Table(table, accept, start)


@functools.cache
def _mantissa_form() -> _Table:
    """``[1-9](.[0-9]+)?``"""
    table, accept = _rows(5)
    table[1, 1:10] = 2
    table[2, _DOT] = 3
    table[3, :10] = 4
    table[4, :10] = 4
    accept[[2, 4]] = 0
    return _Table(table, accept, 1)


@functools.cache
def _every_literal(sign_of_zero: int) -> _Table:
    """JSON magnitudes with any exponent: all (0), only non-zero (1), only zero (-1)."""
    # 1 start; non-zero mantissa: 2 digits, 3 point after them, 4 fraction; zero so far: 5 "0",
    # 6 point, 7 zeros. Exponents: 8 "e", 9 sign, 10 digits; the same from 11 for zero.
    table, accept = _rows(14)
    table[1, 0] = 5
    table[1, 1:10] = 2
    table[2, :10] = 2
    table[2, _DOT] = 3
    table[3, :10] = 4
    table[4, :10] = 4
    table[5, _DOT] = 6
    table[6:8, 0] = 7
    table[6:8, 1:10] = 4
    for mantissas, e in (([2, 4], 8), ([5, 7], 11)):
        for state in mantissas:
            table[state, [_E, _BIG_E]] = e
        table[e, [_PLUS, _MINUS]] = e + 1
        table[e : e + 3, :10] = e + 2
    if sign_of_zero >= 0:
        accept[[2, 4, 10]] = 0
    if sign_of_zero <= 0:
        accept[[5, 7, 13]] = 0
    return _Table(*minimize_table(table, accept, 1))


@functools.lru_cache(maxsize=1 << 12)
def _exponent(low: int, high: int) -> _Table:
    """What follows the ``e``: an integer of ``low..high``, leading zeros allowed."""
    states: dict[tuple[str, int, int], int] = {}
    rows: list[list[int]] = [[0] * _WIDTH]
    accept = [-1]
    todo = []

    def state(sign: str, value: int, used: int) -> int:
        """``used``: digits after the leading zeros; only values within reach get a state."""
        key = (sign, value, used)
        reach = [(value * 10**more, (value + 1) * 10**more - 1) for more in range(4 - used)]
        if sign == "-":
            reach = [(-last, -first) for first, last in reach]
        if value and all(last < low or first > high for first, last in reach):
            return 0
        if value and all(low <= first and last <= high for first, last in reach):
            key = ("in", 0, used)
        if key not in states:
            states[key] = len(rows)
            rows.append([0] * _WIDTH)
            inside = low <= (-value if sign == "-" else value) <= high
            accept.append(0 if key[0] == "in" or (inside and used >= 0) else -1)
            todo.append((states[key], sign, value, used))
        return states[key]

    # used = -1: no digit yet, 0: only zeros.
    start = state("?", 0, -1)
    while todo:
        here, sign, value, used = todo.pop()
        row = rows[here]
        if sign == "?":
            row[_MINUS] = state("-", 0, -1)
            row[_PLUS] = state("+", 0, -1)
            sign = "+"
        if used < 3:
            for digit in range(10):
                after = 0 if used <= 0 and digit == 0 else max(used, 0) + 1
                row[digit] = state(sign, value * 10 + digit, after)
    return _Table(
        *minimize_table(np.array(rows, dtype=np.int32), np.array(accept, dtype=np.int32), start)
    )


def _with_exponents(mantissa: _Table, allowed: dict[int, tuple[int, int]]) -> _Table:
    """Mantissa states that accept go on with ``e`` and an exponent in ``allowed[state]``."""
    tables = [mantissa.table]
    accepts = [np.full(len(mantissa.accept), -1, dtype=np.int32)]
    size = len(mantissa.accept)
    starts: dict[tuple[int, int], int] = {}
    for low, high in set(allowed.values()):
        if low > high:
            starts[low, high] = 0
            continue
        part = _exponent(low, high)
        starts[low, high] = size + part.start - 1
        tables.append(np.where(part.table[1:] > 0, part.table[1:] + size - 1, 0).astype(np.int32))
        accepts.append(part.accept[1:])
        size += len(part.accept) - 1
    table = np.concatenate(tables)
    for state, interval in allowed.items():
        table[state, [_E, _BIG_E]] = starts[interval]
    return _Table(*minimize_table(table, np.concatenate(accepts), mantissa.start))


def _order(value: Fraction) -> int:
    """The exponent e with 10**e <= value < 10**(e+1), for a positive value."""
    whole, fraction = _digits(value)
    if whole != "0":
        return len(whole) - 1
    return -1 - (len(fraction) - len(fraction.lstrip("0")))


def _normalised(side: _Side, limits: Limits) -> _Table:
    """Mantissa and exponent of the positive values of ``side``."""
    least, most = -_MAX_EXPONENT, _MAX_EXPONENT
    members = [_mantissa_form()]
    low_bit = high_bit = 0
    if side.low > 0:
        least = _order(side.low)
        members.append(_compare(side.low / Fraction(10) ** least, ">" if side.low_open else ">="))
        low_bit = 2
    if side.high is not None:
        if side.high == 0:
            return _NOTHING
        most = _order(side.high)
        members.append(_compare(side.high / Fraction(10) ** most, "<" if side.high_open else "<="))
        high_bit = 1 << (len(members) - 1)
    sizes = [len(member.accept) for member in members]
    # required = 1: only the form may die; the comparisons are complete on digits.
    table, accept, start = product_table(
        np.concatenate([member.table for member in members]),
        np.concatenate([member.accept for member in members]),
        np.cumsum([0, *sizes[:-1]]).astype(np.int64),
        np.array([member.start for member in members], dtype=np.int32),
        lambda bits: bool(bits & 1),
        required=1,
        limits=limits,
    )
    allowed = {}
    for state in np.flatnonzero(accept >= 0).tolist():
        bits = int(accept[state])
        low = least + (low_bit != 0 and not bits & low_bit)
        high = most - (high_bit != 0 and not bits & high_bit)
        allowed[state] = (max(low, -_MAX_EXPONENT), min(high, _MAX_EXPONENT))
    return _with_exponents(_Table(table, accept, start), allowed)


# --- Lattices -----------------------------------------------------------------------------------


def _plain_multiples(step: Fraction, limits: Limits) -> _Table:
    """Plain magnitudes that are multiples of ``step`` (form not checked).

    With step = p / 10**s: the digits so far modulo p, and how many fraction digits were read.
    """
    places = _places(step)
    p = int(step * 10**places)
    if p * (places + 1) + 2 > limits.max_dfa_states:
        message = f"multipleOf {step} needs about {p * (places + 1)} states"
        raise TooComplex(message, limit="max_dfa_states")
    layers = places + 1
    table, accept = _rows(2 + p * layers)
    residue = np.arange(p)
    tail = 1  # all fraction digits read, on the lattice: zeros may follow
    first = 2
    for n in range(layers):
        rows = slice(first + n * p, first + (n + 1) * p)
        scale = pow(10, places - n, p)
        accept[rows] = np.where(residue * scale % p == 0, 0, -1)
        if n > 0 and n < places:
            for digit in range(10):
                table[rows, digit] = first + (n + 1) * p + (residue * 10 + digit) % p
    integer = slice(first, first + p)
    for digit in range(10):
        table[integer, digit] = first + (residue * 10 + digit) % p
    # The point: layer 1 is entered by the first fraction digit, so it needs its own rows.
    dots, dot_accept = _rows(p)
    base = len(table)
    table[integer, _DOT] = base + residue
    for digit in range(10):
        if places:
            dots[:, digit] = first + p + (residue * 10 + digit) % p
    if places:
        last = slice(first + places * p, first + (places + 1) * p)
        table[last, 0] = np.where(residue == 0, tail, 0)
    else:
        dots[:, 0] = np.where(residue == 0, tail, 0)
    table[tail, 0] = tail
    accept[tail] = 0
    return _Table(np.concatenate([table, dots]), np.concatenate([accept, dot_accept]), first)


def _normalised_multiples(step: Fraction) -> _Table:
    """Mantissa and exponent of positive multiples of ``step`` = p / 10**s.

    A mantissa is kept as (f fraction digits up to the last non-zero one, n read, digits up to f
    modulo p); with an exponent x its value is I * 10**(x - f), on the lattice exactly when
    I * 10**(x - f + s) is an integer divisible by p, so from some x on.
    """
    places = _places(step)
    p = int(step * 10**places)
    if p > _MANTISSA_STEP:
        return _NOTHING
    states: dict[tuple[int, int, int], int] = {}
    rows: list[list[int]] = [[0] * _WIDTH, [0] * _WIDTH]
    todo: list[tuple[int, int, int]] = []

    def state(f: int, n: int, r: int) -> int:
        key = (f, min(n, _MANTISSA_DIGITS), r)
        if key not in states:
            states[key] = len(rows)
            rows.append([0] * _WIDTH)
            todo.append(key)
        return states[key]

    for digit in range(1, 10):
        rows[1][digit] = state(0, -1, digit % p)  # n = -1: no point yet
    allowed = {}
    while todo:
        f, n, r = key = todo.pop()
        row = rows[states[key]]
        if n == -1:
            row[_DOT] = state(0, 0, r)
        else:
            row[0] = state(f, n + 1, r)
            if n < _MANTISSA_DIGITS:
                for digit in range(1, 10):
                    row[digit] = state(n + 1, n + 1, (r * 10 ** (n + 1 - f) + digit) % p)
        if n != 0:  # not right after the point
            powers = (j for j in range(p.bit_length() + 1) if r * 10**j % p == 0)
            least = next(powers, None)
            if least is not None:
                low = max(f - places + least, -_MAX_EXPONENT)
                allowed[states[key]] = (low, _MAX_EXPONENT)
    table = np.array(rows, dtype=np.int32)
    return _with_exponents(_Table(table, np.full(len(rows), -1, np.int32), 1), allowed)


@functools.lru_cache(maxsize=256)
def _multiples(step: Fraction, limits: Limits) -> _Table:
    """Magnitudes on the lattice: plain, normalised, or a form of zero."""
    plain = _product(
        [_plain_form(None, None), _plain_multiples(step, limits)], every=True, limits=limits
    )
    parts = [plain, _every_literal(-1)]
    normalised = _normalised_multiples(step)
    if normalised.start:
        parts.append(normalised)
    return _product(parts, every=False, limits=limits)


# --- Whole literals -----------------------------------------------------------------------------


def _any_side(side: _Side, step: Fraction | None, limits: Limits) -> _Table:
    """Magnitudes of ``side`` in every spelling we recognise."""
    if side.is_empty:
        return _NOTHING
    if side.high is None and side.low == 0:
        inside = _every_literal(1 if side.low_open else 0)
    else:
        plain = [_plain_form(None, None), *_bounds(side)]
        parts = [_product(plain, every=True, limits=limits)]
        parts.append(_normalised(side, limits))
        if side.contains(Fraction(0)):
            parts.append(_every_literal(-1))
        inside = _product([part for part in parts if part.start], every=False, limits=limits)
    if step is None or inside.start == 0:
        return inside
    return _product([inside, _multiples(step, limits)], every=True, limits=limits)


def _readable_side(
    side: _Side, step: Fraction | None, digits: tuple[int, int], limits: Limits
) -> _Table:
    if side.is_empty:
        return _NOTHING
    members = [_plain_form(*digits), *_bounds(side)]
    if step is not None and step != 1:
        members.append(_plain_multiples(step, limits))
    if len(members) == 1:
        return members[0]
    return _product(members, every=True, limits=limits)


@functools.cache
def _readable_exponents(digits: tuple[int, int]) -> _Table:
    """Non-zero plain magnitudes followed by a small exponent; ``e`` in lower case."""
    nonzero = _product(
        [_plain_form(*digits), _compare(Fraction(0), ">")], every=True, limits=Limits()
    )
    allowed = dict.fromkeys(
        np.flatnonzero(nonzero.accept >= 0).tolist(), (-_READABLE_EXPONENT, _READABLE_EXPONENT)
    )
    table, accept, start = _with_exponents(nonzero, allowed)
    table = table.copy()
    table[:, _BIG_E] = 0
    short = _Table(table, accept, start)
    # No leading zeros in the exponent.
    form, form_accept = _rows(7)
    form[1, [*range(10), _DOT]] = 1
    form[1, _E] = 2
    form[2, [_PLUS, _MINUS]] = 3
    form[2:4, 1:10] = 4
    form[2:4, 0] = 6
    form[4:6, :10] = 5
    form_accept[[4, 5, 6]] = 0
    return _product([short, _Table(form, form_accept, 1)], every=True, limits=Limits())


def _signed(positive: _Table, negative: _Table) -> _Table:
    """``positive``, or ``-`` and ``negative``."""
    n = len(positive.accept)
    shifted = np.where(negative.table > 0, negative.table + n, 0).astype(np.int32)
    table = np.concatenate([positive.table, shifted])
    accept = np.concatenate([positive.accept, negative.accept])
    top = np.zeros((1, _WIDTH), dtype=np.int32)
    top[0] = positive.table[positive.start]
    top[0, _MINUS] = negative.start + n if negative.start else 0
    table = np.concatenate([table, top])
    accept = np.append(accept, np.int32(-1))
    return _Table(*minimize_table(table, accept, len(accept) - 1))


def _widened(table: _Table) -> Dfa:
    if table.start == 0:
        return EMPTY
    wide = np.zeros((len(table.accept), 256), dtype=np.int32)
    wide[:, list(_ALPHABET)] = table.table
    return Dfa(wide, table.accept, table.start)


def number_dfa(  # the keywords of one JSON Schema number
    *,
    integer: bool = False,
    minimum: Fraction | None = None,
    maximum: Fraction | None = None,
    exclusive_minimum: bool = False,
    exclusive_maximum: bool = False,
    multiple_of: Fraction | None = None,
    style: Style = "readable",
    limits: Limits | None = None,
) -> Dfa:
    """The literals of the numbers in the set; accepting states may continue.

    ``exclusive_*``: the bound itself is out. All values are exact decimals. The automaton is
    shared: do not write to it. Empty set: ``start == 0``. Raises TooComplex.
    """
    return _number_dfa(
        integer, minimum, maximum, exclusive_minimum, exclusive_maximum, multiple_of, style,
        limits or Limits(),
    )  # fmt: skip


@functools.lru_cache(maxsize=1024)
def _number_dfa(
    integer: bool,
    minimum: Fraction | None,
    maximum: Fraction | None,
    exclusive_minimum: bool,
    exclusive_maximum: bool,
    multiple_of: Fraction | None,
    style: Style,
    limits: Limits,
) -> Dfa:
    positive, negative = _sides(minimum, maximum, exclusive_minimum, exclusive_maximum)
    step = _step(integer, multiple_of)
    if style == "any":
        return _widened(
            _signed(_any_side(positive, step, limits), _any_side(negative, step, limits))
        )
    negative = negative._replace(low_open=negative.low_open or negative.low == 0)  # no -0
    whole = step is not None and step.denominator == 1
    digits = (_READABLE_INTEGER_DIGITS, 0 if whole else _READABLE_FRACTION_DIGITS)
    result = _readable(positive, negative, step, digits, limits)
    if result.start == 0:
        result = _readable(
            positive, negative, step, _needed_digits(digits, minimum, maximum, step), limits
        )
    if minimum is None and maximum is None and step is None:
        exponents = _readable_exponents(digits)
        result = _product([result, _signed(exponents, exponents)], every=False, limits=limits)
    return _widened(result)


def _sides(
    minimum: Fraction | None,
    maximum: Fraction | None,
    exclusive_minimum: bool,
    exclusive_maximum: bool,
) -> tuple[_Side, _Side]:
    """The interval as magnitudes with and without a minus sign; zero is in both."""
    zero = Fraction(0)
    nothing = _Side(zero, True, zero, True)

    def side(
        low: Fraction | None, low_open: bool, high: Fraction | None, high_open: bool
    ) -> _Side:
        if low is None or low < 0:
            low, low_open = zero, False
        if high is not None and high < 0:
            return nothing
        return _Side(low, low_open, high, high_open)

    positive = side(minimum, exclusive_minimum, maximum, exclusive_maximum)
    negative = side(
        None if maximum is None else -maximum,
        exclusive_maximum,
        None if minimum is None else -minimum,
        exclusive_minimum,
    )
    return positive, negative


def _step(integer: bool, multiple_of: Fraction | None) -> Fraction | None:
    """The least common multiple of 1 (for integers) and ``multiple_of``."""
    if multiple_of is None:
        return Fraction(1) if integer else None
    step = abs(multiple_of)
    if not step:
        message = "multipleOf must not be zero"
        raise ValueError(message)
    if not integer:
        return step
    return Fraction(lcm(step.numerator, step.denominator), step.denominator)


def _readable(
    positive: _Side,
    negative: _Side,
    step: Fraction | None,
    digits: tuple[int, int],
    limits: Limits,
) -> _Table:
    return _signed(
        _readable_side(positive, step, digits, limits),
        _readable_side(negative, step, digits, limits),
    )


def _needed_digits(
    digits: tuple[int, int],
    minimum: Fraction | None,
    maximum: Fraction | None,
    step: Fraction | None,
) -> tuple[int, int]:
    """Enough digits for some value between bounds that the usual number cannot reach."""
    whole, places = digits
    for bound in (minimum, maximum, step):
        if bound is not None:
            integer, fraction = _digits(abs(bound))
            whole = max(whole, len(integer) + 1)
            places = max(places, len(fraction) + 1) if places else 0
    return whole, places
