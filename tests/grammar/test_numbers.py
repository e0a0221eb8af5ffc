"""Number literals by value, against Fraction over every short literal and hand-made ones."""

from __future__ import annotations

import itertools
import random
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from grammar.automata import distances
from grammar.errors import TooComplex
from grammar.numbers import number_dfa

LITERAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
NORMALISED = re.compile(r"-?[1-9](\.[0-9]+)?[eE][+-]?[0-9]+")


def literals(alphabet: str, longest: int) -> list[tuple[str, Fraction]]:
    texts = (
        "".join(t) for n in range(1, longest + 1) for t in itertools.product(alphabet, repeat=n)
    )
    return [(text, Fraction(Decimal(text))) for text in texts if LITERAL.fullmatch(text)]


SHORT = literals("0123456789.-+eE", 4)
LONGER = literals("015.-e", 6)
BOUNDS = [
    Fraction(text)
    for text in ("0", "1", "-1", "5", "15", "100", "0.5", "-0.5", "1.55", "-99.5", "1000",
                 "9999", "0.001", "1000000000000")
]  # fmt: skip
STEPS = [Fraction(text) for text in ("1", "5", "0.5", "3", "0.01", "0.025", "10", "0.7", "30")]


def inside(value, kw) -> bool:
    low, high = kw.get("minimum"), kw.get("maximum")
    step = kw.get("multiple_of")
    return (
        (low is None or value > low or (value == low and not kw.get("exclusive_minimum")))
        and (high is None or value < high or (value == high and not kw.get("exclusive_maximum")))
        and (not kw.get("integer") or value.denominator == 1)
        and (step is None or (value / step).denominator == 1)
    )


def recognised(text: str, value: Fraction, kw) -> bool:
    """Spellings that style "any" promises: see the module's docstring."""
    if "e" not in text.lower() or value == 0:
        return True
    if not any(kw.get(name) is not None for name in ("minimum", "maximum", "multiple_of")) and (
        not kw.get("integer")
    ):
        return True
    mantissa, exponent = text.lower().split("e")
    if not NORMALISED.fullmatch(text) or abs(int(exponent)) > 400:
        return False
    step = kw.get("multiple_of")
    if step is not None or kw.get("integer"):  # trailing zeros only count as digits there
        return not mantissa.endswith("0") and (step is None or (step * 1000).numerator <= 16)
    return True


def readable(text: str, value: Fraction, kw) -> bool:
    """Spellings that style "readable" promises, for values of few digits."""
    exponent = re.search(r"[eE](.*)", text)
    free = not kw.get("integer") and not any(
        kw.get(name) is not None for name in ("minimum", "maximum", "multiple_of")
    )
    step = kw.get("multiple_of")
    whole = kw.get("integer") or (step is not None and step.denominator == 1)
    if (text.startswith("-") and value == 0) or (whole and re.search("[.eE]", text)):
        return False
    if exponent is None:
        return True
    return (
        free
        and value != 0
        and re.fullmatch(r"[+-]?(0|[1-9][0-9]*)", exponent[1]) is not None
        and abs(int(exponent[1])) <= 280
        and "E" not in text
    )


def check(kw, sample) -> None:
    anything = number_dfa(style="any", **kw)
    generated = number_dfa(style="readable", **kw)
    for text, value in sample:
        wanted = inside(value, kw)
        found = anything.matches(text.encode())
        assert not found or wanted, (text, kw)
        assert found or not wanted or not recognised(text, value, kw), (text, kw)
        assert generated.matches(text.encode()) == (wanted and readable(text, value, kw)), (
            text,
            kw,
        )


def random_keywords(rng: random.Random):
    return {
        "integer": rng.random() < 0.4,
        "minimum": rng.choice([None, *BOUNDS]),
        "maximum": rng.choice([None, *BOUNDS]),
        "exclusive_minimum": rng.random() < 0.5,
        "exclusive_maximum": rng.random() < 0.5,
        "multiple_of": rng.choice([None, None, *STEPS]),
    }


@pytest.mark.parametrize("kw", [{}, {"integer": True}, {"minimum": Fraction(0)}], ids=str)
def test_common_numbers_on_every_short_literal(kw):
    check(kw, SHORT)


def test_random_intervals_and_lattices():
    rng = random.Random(20261201)
    for _ in range(60):
        check(random_keywords(rng), rng.sample(LONGER, 300))


def test_every_state_is_live():
    rng = random.Random(1)
    for _ in range(20):
        for style in ("any", "readable"):
            dfa = number_dfa(style=style, **random_keywords(rng))
            assert (distances(dfa)[1:] >= 0).all()
            assert dfa.start == int(dfa.num_states > 1)


@pytest.mark.parametrize(
    ("text", "kw", "wanted"),
    [
        ("6000.0", {"integer": True}, True),
        ("1.5e+16", {"integer": True}, True),
        ("1.5e0", {"integer": True}, False),
        ("1E5", {"integer": True}, True),
        ("1e-06", {"minimum": Fraction(0), "maximum": Fraction(1)}, True),
        ("1e-06", {"minimum": Fraction(1, 10**5)}, False),
        ("0e5", {"integer": True}, True),
        ("-0.0", {"minimum": Fraction(0)}, True),
        ("-0", {"minimum": Fraction(0), "exclusive_minimum": True}, False),
        ("1e400", {"minimum": Fraction(10) ** 400}, True),
        ("1e399", {"minimum": Fraction(10) ** 400}, False),
        ("1" + "0" * 300, {"minimum": Fraction(10) ** 300, "integer": True}, True),
        ("9" * 300, {"minimum": Fraction(10) ** 300, "integer": True}, False),
        ("19.99", {"multiple_of": Fraction(1, 100)}, True),
        ("19.995", {"multiple_of": Fraction(1, 100)}, False),
        ("01", {}, False),
        ("1.", {}, False),
        (".5", {}, False),
        ("+1", {}, False),
        ("-", {}, False),
        ("1e", {}, False),
        ("12.5e-300", {}, True),
    ],
)
def test_recognition_by_value(text, kw, wanted):
    assert number_dfa(style="any", **kw).matches(text.encode()) == wanted


def test_generated_numbers_have_few_digits_unless_the_bounds_need_more():
    number = number_dfa()
    assert number.matches(b"9" * 19)
    assert not number.matches(b"9" * 20)
    assert number.matches(b"0." + b"1" * 17)
    assert not number.matches(b"0." + b"1" * 18)
    assert number.matches(b"9" * 19 + b"e280")
    assert not number.matches(b"1e281")
    for huge in (Fraction(10) ** 25, Fraction(10) ** 400):
        dfa = number_dfa(minimum=huge, integer=True)
        assert dfa.matches(b"1" + b"0" * (len(str(huge)) - 1))
    tiny = Fraction(1, 10**20)
    between = number_dfa(
        minimum=tiny, maximum=2 * tiny, exclusive_minimum=True, exclusive_maximum=True
    )
    assert between.matches(b"0.000000000000000000015")


def test_generated_unbounded_numbers_are_finite_doubles():
    dfa = number_dfa()
    steps = np.random.default_rng(3)
    for _ in range(300):
        state, text = dfa.start, b""
        while dfa.accept[state] < 0 or steps.random() < 0.9:
            choices = np.flatnonzero(dfa.table[state])
            if not len(choices):
                break
            byte = int(steps.choice(choices))
            text += bytes([byte])
            state = int(dfa.table[state, byte])
        if dfa.accept[state] >= 0:
            assert abs(float(text)) < float("inf")
            assert not text.startswith(b"-") or any(digit in text for digit in b"123456789")


def test_empty_sets_start_dead():
    half = Fraction(1, 2)
    for kw in (
        {"minimum": Fraction(2), "maximum": Fraction(1)},
        {"minimum": half, "maximum": half, "exclusive_maximum": True},
        {"integer": True, "minimum": half, "maximum": half},
        {"minimum": half, "maximum": Fraction(9, 10), "multiple_of": Fraction(1)},
    ):
        for style in ("any", "readable"):
            assert number_dfa(style=style, **kw).is_empty


def test_what_is_too_large_is_refused_by_limit():
    for kw in ({"minimum": Fraction(10) ** 100_000}, {"multiple_of": Fraction(1234567)}):
        for style in ("any", "readable"):
            with pytest.raises(TooComplex) as caught:
                number_dfa(style=style, **kw)
            assert caught.value.limit == "max_dfa_states"
