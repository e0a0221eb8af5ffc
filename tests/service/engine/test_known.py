"""Ids of content, and how long a compiled constraint is kept."""

import json
import time
from typing import Any, cast

import pytest

from service.engine import known as module
from service.engine.known import Known, KnownConstraints, PinsFullError, canonical, id_of
from service.engine.types import Constraint, JsonFormat

TEXT = '{"type":"object","properties":{"a b":{"const":" [ \\" , "},"c":{"type":"integer"}}}'


def schema(text: str, **form) -> Constraint:
    return Constraint(kind="json_schema", text=text, json_format=JsonFormat(**form))


def test_whitespace_between_tokens_does_not_change_the_id():
    for indent in (None, 1, "\t"):
        spaced = f"\r\n {json.dumps(json.loads(TEXT), indent=indent)}\n"
        assert canonical(schema(spaced)).text == TEXT
        assert id_of(schema(spaced), "v") == id_of(schema(TEXT), "v")


def test_what_decides_anything_changes_the_id():
    variants = [
        (schema(TEXT), "v"),
        (schema(TEXT), "another vocabulary"),
        (schema(TEXT.replace(" [ ", " [")), "v"),  # inside a string
        (schema('{"properties":{"c":{"type":"integer"}},"type":"object"}'), "v"),  # order
        (schema('{"const":1.0}'), "v"),
        (schema('{"const":1.00}'), "v"),
        (schema(TEXT, whitespace="flexible"), "v"),
        (Constraint(kind="regex", text=TEXT), "v"),
        (Constraint(kind="regex", text=TEXT + " "), "v"),
        (Constraint(kind="choice", choices=("a", "b")), "v"),
        (Constraint(kind="choice", choices=("ab",)), "v"),
    ]
    assert len({id_of(*each) for each in variants}) == len(variants)


def test_the_id_is_the_same_in_every_process_and_on_every_day():
    """A change here makes the ids that clients keep unknown: a note in the changelog then."""
    found = id_of(schema('{"type": "null"}'), "0123456789abcdef")
    assert found == "d472dc376a7e221e952099c5bddebc6baa35a1a3"


@pytest.mark.parametrize("text", ["1 2", '"a" "b"', "tr ue", '{"a" 1}', '"open \\" { ', "\\ "])
def test_what_is_no_json_stays_none(text):
    with pytest.raises(json.JSONDecodeError):
        json.loads(canonical(schema(text)).text)


@pytest.mark.parametrize("unit", ['"', '\\"', " ", "{ ", '"\\', "\\"])
def test_no_text_takes_more_than_linear_time(unit):
    began = time.perf_counter()
    canonical(schema(unit * 500_000))
    assert time.perf_counter() - began < 5


class Sized:
    """A grammar of which only the size is asked."""

    lexemes: dict = {}  # noqa: RUF012
    diagnostics = ()

    def __init__(self, nbytes):
        self.nbytes = nbytes


def made(name: str, nbytes: int = 100) -> Known:
    constraint = Constraint(kind="regex", text="")
    return Known(name, constraint, cast("Any", Sized(nbytes)), min_tokens=1, compile_us=1)


def kept(store: KnownConstraints, names: str) -> str:
    """Which of these are there; asking them in this order uses them in this order."""
    return "".join(name for name in names if store.get(name))


def test_the_least_recently_used_goes_first():
    store = KnownConstraints(max_bytes=250)
    store.put(made("a"))
    store.put(made("b"))
    assert kept(store, "ba") == "ba"
    store.put(made("c"))
    assert kept(store, "abc") == "ac"


def test_their_number_is_bounded_however_small_they_are(monkeypatch):
    monkeypatch.setattr(module, "MAX_KEPT", 3)
    store = KnownConstraints()
    for name in "abcde":
        store.put(made(name))
    assert kept(store, "abcde") == "cde"


def test_a_large_text_counts_for_what_it_was_parsed_to():
    constraint = Constraint(kind="json_schema", text="x" * 1_000)
    known = Known("a", constraint, Sized(0), min_tokens=1, compile_us=1)
    assert known.nbytes == 1_000 * module.PARSED_BYTES_PER_CHARACTER


def test_pinned_ones_stay_until_they_are_removed():
    store = KnownConstraints(max_bytes=100)
    pinned = made("p")
    store.put(pinned)
    store.pin(pinned)
    for name in "abc":
        store.put(made(name))
    assert kept(store, "pabc") == "pc"
    assert pinned.pinned
    assert store.remove("p")
    assert not pinned.pinned
    assert kept(store, "pc") == "c"
    assert not store.remove("p")


def test_one_that_is_not_pinned_can_be_removed_too():
    store = KnownConstraints()
    store.put(made("a"))
    assert store.remove("a")
    assert store.get("a") is None


@pytest.mark.parametrize(
    ("limits", "limit"),
    [({"max_pins": 2}, "max_pins"), ({"max_pinned_bytes": 250}, "max_pinned_bytes")],
)
def test_pins_are_bounded_and_the_refused_one_is_kept_like_others(limits, limit):
    store = KnownConstraints(**limits)
    all_three = [made(name) for name in "abc"]
    for each in all_three:
        store.put(each)
    store.pin(all_three[0])
    store.pin(all_three[1])
    store.pin(all_three[1])  # twice is once
    with pytest.raises(PinsFullError) as caught:
        store.pin(all_three[2])
    assert caught.value.limit == limit
    assert kept(store, "abc") == "abc"
    assert not all_three[2].pinned
    store.remove("a")
    store.pin(all_three[2])
    assert all_three[2].pinned
