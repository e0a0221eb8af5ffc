"""JSON as it comes: at each moment what has ended is right, and nothing is there that is not."""

from __future__ import annotations

import copy
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syntaxd_client.partial import PartialJson

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def snapshots(pieces):
    """What there is after each piece that brought something, and after the end."""
    partial = PartialJson()
    found = [partial.value for piece in pieces if partial.push(piece)]
    if partial.end():
        found.append(partial.value)
    return found


def begins(part, whole):
    """Whether ``whole`` may come of ``part``: the definition of a partial value."""
    match whole:
        case dict():
            keys = list(part) if isinstance(part, dict) else None
            return keys == list(whole)[: len(keys or ())] and rest_begins(
                list(part.values()), list(whole.values())
            )
        case list():
            return isinstance(part, list) and rest_begins(part, whole)
        case str():
            return isinstance(part, str) and whole.startswith(part)
        case _:
            return type(part) is type(whole) and part == whole


def rest_begins(parts, wholes):
    """All but the last have ended."""
    if not parts:
        return True
    *ended, last = parts
    return ended == wholes[: len(ended)] and begins(last, wholes[len(ended)])


@given(
    VALUES,
    st.sampled_from([None, 1]),
    st.booleans(),
    st.lists(st.integers(min_value=0), max_size=30),
)
def test_whatever_the_pieces_each_is_a_beginning_and_the_last_is_the_whole(
    value, indent, ascii_only, cuts
):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    pieces = [text[a:b] for a, b in itertools.pairwise(places)]
    found = snapshots(pieces)
    kept = copy.deepcopy(found)
    assert all(begins(part, value) for part in found)
    assert found[-1] == json.loads(text)
    assert kept == found


@given(VALUES)
def test_a_character_at_a_time_each_has_more_than_the_one_before(value):
    found = snapshots(json.dumps(value))
    for earlier, later in itertools.pairwise(found):
        assert begins(earlier, later)
        assert earlier != later
    assert found[-1] == value


def test_a_letter_as_it_is_written():
    text = '{"from": "Ann", "sum": 120, "paid": true, "to": {"a": ["x"]}}'
    assert snapshots(text) == [
        {},
        {"from": ""},
        {"from": "A"},
        {"from": "An"},
        {"from": "Ann"},
        {"from": "Ann", "sum": 120},
        {"from": "Ann", "sum": 120, "paid": True},
        {"from": "Ann", "sum": 120, "paid": True, "to": {}},
        {"from": "Ann", "sum": 120, "paid": True, "to": {"a": []}},
        {"from": "Ann", "sum": 120, "paid": True, "to": {"a": [""]}},
        {"from": "Ann", "sum": 120, "paid": True, "to": {"a": ["x"]}},
    ]


def test_snapshots_do_not_grow_afterwards():
    partial = PartialJson()
    partial.push('{"a": [1, {"b": "x')
    first = partial.value
    partial.push('y"}, 2], "c": 3}')
    assert first == {"a": [1, {"b": "x"}]}
    assert partial.value == {"a": [1, {"b": "xy"}, 2], "c": 3}


@pytest.mark.parametrize(
    "text",
    [
        r'"\ud83d\ude00"',
        r'"\uD83D\uDE00\\u"',
        r'"\ud83dx"',
        r'"\ud83d\n"',
        r'"\ud83d\u0041"',
        r'"\ud83d\ud83d\ude00"',
        r'"\ud83d"',
        r'"\ude00"',
        r'{"\u0061\"": "\/\b"}',
        '{"a": 1, "a": {"b": 2}, "c": 3}',
        "[[], {}, [[]], -0.5e-3, 1E5, null, NaN]",
        ' \n\t"" \r',
        "17",
    ],
)
def test_it_ends_as_the_library_reads_it(text):
    assert repr(snapshots(text)[-1]) == repr(json.loads(text))
    assert repr(snapshots([text])[-1]) == repr(json.loads(text))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{]", 1),
        ("[}", 1),
        ("]", 0),
        ("[1,]", 3),
        ('{"a",', 4),
        ('{"a":}', 5),
        ('{"a":1,}', 7),
        ("{1:2}", 1),
        ("[1 2]", 3),
        ("tru ", 0),
        ("01 ", 0),
        ("{} {}", 3),
        (r'"\x"', 1),
        (r'"\u00g0"', 1),
        ('"\n"', 1),
        ("Hello", None),
        ("?", 0),
    ],
)
def test_what_is_no_json_is_said_with_its_place(text, place):
    said = f"from character {place} on" if place is not None else "no JSON"
    for pieces in (text, [text]):
        with pytest.raises(ValueError, match=said):
            snapshots(pieces)


@pytest.mark.parametrize("text", ["", " ", '{"a', '{"a":', "[", '"\\u12', '{"a":1'])
def test_an_answer_that_was_cut_short_is_as_far_as_it_came(text):
    found = snapshots(text)
    assert found[-1:] in ([], [{}], [[]], [""])
