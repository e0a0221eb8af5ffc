"""Formats: nothing we accept may be invalid for the judge; listed valid values are accepted."""

from __future__ import annotations

import json
from datetime import date, timedelta

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from grammar.automata import distances_kernel
from grammar.formats import ENFORCED_FORMATS, UNSUPPORTED_FORMATS, format_dfa, format_text
from grammar.regex import Spelling, spell
from grammar.regex.text import TextDfa

JUDGE = Draft202012Validator.FORMAT_CHECKER

VALID = {
    "date": ["2024-02-29", "2000-02-29", "0001-01-01", "9999-12-31"],
    "time": ["00:00:00Z", "23:59:59.123456+23:59", "12:00:00z"],
    "date-time": ["2026-12-01T01:02:03Z", "1963-06-19t08:30:06.283185z"],
    "duration": ["P4DT12H30M5S", "P4Y", "PT0S", "P2W", "P1Y2M3DT4H5M6S", "PT36H"],
    "email": ["joe.bloggs@example.com", '"joe bloggs"@example.com', "a+b@[127.0.0.1]",
              "joe@[IPv6:::1]", "te~st@localhost"],
    "idn-email": ["실례@실례.테스트", "café@example.com"],
    "hostname": ["example.com", "a", "a" * 63, "1host.2x", ".".join(["abc"] * 14),
                 ".".join(["a" * 63] * 3 + ["a" * 61])],
    "ipv4": ["0.0.0.0", "255.255.255.255", "192.168.1.10"],
    "ipv6": ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:1.2.3.4", "::ffff:1.2.3.4",
             "1:2::7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8"],
    "uuid": ["2EB8AA08-aa98-11ea-b4aa-73b441d16380"],
    "uri": ["http://foo.bar/?q=Test%20URL-encoded%20stuff", "urn:a", "http://[2001:db8::7]:80/#x",
            "mailto:John.Doe@example.com", "tel:+1-816-555-1212", "http://u:p@h/;x=1"],
    "uri-reference": ["/abc", "", "#f", "a/b?c", "//h/p", "http://x/"],
    "iri": ["http://ƒøø.ßår/?∂éœ=πîx#πîüx"],
    "iri-reference": ["âππ", "#ƒräg"],
    "json-pointer": ["", "/", "/foo/0", "/a~1b/m~0n", "/é"],
    "relative-json-pointer": ["1", "0/foo/bar", "2/0/baz/1/zip", "0#"],
    "regex": ["^[a-z]+$", "([abc])+\\s+$", "^[a-zA-Z0-9_]{3,16}$", "a{2,}(?:b|c)?", "\\d\\."],
}  # fmt: skip
INVALID = {
    "date": ["2023-02-29", "1900-02-29", "0000-01-01", "2024-04-31", "2024-1-01", "2024-13-01"],
    "time": ["24:00:00Z", "12:00Z", "12:00:00", "12:00:60Z"],
    "date-time": ["2026-02-29T00:00:00Z", "2026-12-01 00:00:00Z", "2026-12-01T00:00:00"],
    "duration": ["P", "PT", "P1YT", "P2D1Y", "P1Y2W", "PT1D", "1D"],
    "email": ["2962", ".test@x", "te..st@x", "a@b@c", "@x", "a@"],
    "hostname": ["", "-a", "a-", "a..b", "a_b", "a" * 64, "ab--c", ".".join(["a" * 63] * 4)],
    "ipv4": ["256.1.1.1", "1.1.1", "01.1.1.1", "1.1.1.1."],
    "ipv6": ["1:2:3:4:5:6:7:8:9", ":::", "1::2::3", "12345::", "::1%eth0", "1.2.3.4"],
    "uuid": ["2eb8aa08aa9811eab4aa73b441d16380", "2eb8aa08-aa98-11ea-b4aa-73b441d1638"],
    "uri": ["//foo", "abc", "http:// x", "http://a^b", "é:x", "%:x"],
    "json-pointer": ["a", "/~", "/~2"],
    "regex": ["(", "a**", "[", "^(abc]", "*", "{2}x\\", "a{3,2}"],
}


@pytest.fixture(scope="module")
def texts() -> dict[str, TextDfa]:
    return {name: format_text(name) for name in ENFORCED_FORMATS}


def test_every_name_of_the_specification_is_decided():
    named = {
        "date-time", "date", "time", "duration", "uri", "uri-reference", "iri", "email",
        "hostname", "ipv4", "ipv6", "uuid", "regex", "json-pointer",
    }  # fmt: skip
    assert named <= ENFORCED_FORMATS
    assert not ENFORCED_FORMATS & UNSUPPORTED_FORMATS
    assert set(VALID) == ENFORCED_FORMATS
    assert set(JUDGE.checkers) >= ENFORCED_FORMATS


@pytest.mark.parametrize("name", sorted(ENFORCED_FORMATS))
def test_listed_values(name, texts):
    for text in VALID[name]:
        assert texts[name].matches(text), text
        assert JUDGE.conforms(text, name), text
    for text in INVALID.get(name, []):
        assert not texts[name].matches(text), text


def samples(dfa: TextDfa, count: int, rng: np.random.Generator):
    """Random accepted texts: a random walk, then the shortest way out."""
    distance = distances_kernel(dfa.table, dfa.accept)
    columns: dict[int, list[tuple[int, int]]] = {}
    ends = [*dfa.parts.starts[1:], 0x110000]
    for start, end, kind in zip(dfa.parts.starts, ends, dfa.parts.classes, strict=True):
        columns.setdefault(kind, []).append((start, end))
    for _ in range(count):
        state, text, steps = dfa.start, "", int(rng.choice([2, 8, 20, 60]))
        while dfa.accept[state] < 0 or steps > 0:
            kinds = np.flatnonzero(dfa.table[state])
            if steps <= 0:
                kinds = kinds[distance[dfa.table[state, kinds]] < distance[state]]
            if not len(kinds):
                break
            kind = int(rng.choice(kinds))
            low, high = columns[kind][int(rng.integers(len(columns[kind])))]
            text += chr(int(rng.integers(low, high)))
            state = int(dfa.table[state, kind])
            steps -= 1
        yield text


@pytest.mark.parametrize("name", sorted(ENFORCED_FORMATS))
def test_whatever_is_accepted_is_valid_for_the_judge(name, texts):
    count = 25 if name.startswith("iri") else 300  # that checker is slow
    for text in samples(texts[name], count, np.random.default_rng(len(name))):
        assert texts[name].matches(text)
        assert JUDGE.conforms(text, name), text


def test_dates_are_exactly_those_of_the_calendar(texts):
    dates = texts["date"]
    day = date(1, 1, 1)
    while day.year < 9900:
        assert dates.matches(day.isoformat())
        day += timedelta(days=97)
    for year in (1, 4, 100, 400, 1900, 2000, 2023, 2024, 9999):
        for month in range(14):
            for number in range(33):
                text = f"{year:04}-{month:02}-{number:02}"
                assert dates.matches(text) == JUDGE.conforms(text, "date"), text


@pytest.mark.parametrize("name", sorted(ENFORCED_FORMATS))
def test_the_official_suite_holds_nothing_invalid_that_we_accept(name, texts, shared):
    path = shared / f"data/json-schema-test-suite/tests/draft2020-12/optional/format/{name}.json"
    for group in json.loads(path.read_text()):
        if group["schema"].get("format") != name:
            continue
        for case in group["tests"]:
            if isinstance(case["data"], str) and not case["valid"]:
                assert not texts[name].matches(case["data"]), case


@pytest.mark.parametrize("spelling", [Spelling.RAW, Spelling.PLAIN, Spelling.ASCII])
def test_spelled_formats(spelling, texts):
    for name in ("date", "iri", "json-pointer", "email"):
        dfa = format_dfa(name, spelling)
        for text in VALID[name]:
            assert dfa.matches(spell(text, spelling))
