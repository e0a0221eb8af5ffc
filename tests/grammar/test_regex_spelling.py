"""Spelling laws: what a text's bytes are, and that every code decodes to it."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammar.automata import distances
from grammar.regex import Spelling, compile_regex, json_string_dfa, spell

IN_JSON = [Spelling.JSON, Spelling.PLAIN, Spelling.KEY, Spelling.ASCII]
ANY = {spelling: json_string_dfa(spelling) for spelling in Spelling}
EDGES = '\0\x01\x08\t\n\x0b\x0c\r\x1f "/\\a\x7f'
EDGES += "\x80é\u07ff\u0800\u2028\ud7ff\ue000\uffff𐀀😀\U0010ffff"


def accepted(dfa, data: str | bytes) -> bool:
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    return bool(dfa.matches(data))


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]) | st.sampled_from(EDGES)))
def test_a_canonical_spelling_is_accepted_and_decodes_to_the_text(text):
    assert ANY[Spelling.RAW].matches(spell(text, Spelling.RAW))
    for spelling in IN_JSON:
        data = spell(text, spelling)
        assert json.loads(b'"' + data + b'"') == text
        assert ANY[spelling].matches(data) == (spelling.keeps_nul or "\0" not in text)


@pytest.mark.parametrize("char", EDGES)
@pytest.mark.parametrize("spelling", IN_JSON)
def test_a_character_has_the_spellings_its_name_promises(char, spelling):
    """All candidates that JSON decodes to the character, against the automaton of just it."""
    dfa = compile_regex(f"\\u{{{ord(char):x}}}", spelling=spelling)
    units = np.frombuffer(char.encode("utf-16-be"), dtype=">u2").tolist()
    codes = ["".join(t) for t in itertools.product(*(hex_codes(unit) for unit in units))]
    short = ["\\" + letter for letter in '"\\/bfnrt']
    candidates = {char, *codes, *short}
    spellings = {text for text in candidates if accepted(dfa, text)}
    for text in spellings:
        assert json.loads(f'"{text}"') == char
    legal = {text for text in candidates if decodes_to(text, char)}
    if spelling is Spelling.JSON:
        assert spellings == legal
    else:
        assert spellings == {spell(char, spelling).decode()}


def hex_codes(unit: int) -> list[str]:
    return [f"\\u{unit:04x}", f"\\u{unit:04X}", f"\\u{unit:04x}"[:-1] + f"{unit & 15:X}"]


def decodes_to(text: str, char: str) -> bool:
    try:
        return bool(json.loads(f'"{text}"') == char)
    except ValueError:
        return False


def test_no_lone_surrogate_and_no_malformed_utf8_is_accepted():
    bad = [
        rb"\ud83d", rb"\ude00", rb"\ud83dx", rb"\ud83d\u0041", rb"\ude00\ud83d", rb"\u12",
        b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80", b"\xf5",
        b'"', b"\n", b"\\x",
    ]  # fmt: skip
    for data in bad:
        assert not ANY[Spelling.JSON].matches(data), data
        assert not ANY[Spelling.PLAIN].matches(data), data


def test_nul_is_generated_only_where_nothing_else_would_do():
    for pattern, nul in ((r"\x00", True), (r"[\x00-\x05]", False), (r"[^a]", False)):
        for spelling in (Spelling.PLAIN, Spelling.ASCII):
            assert compile_regex(pattern, spelling=spelling).matches(rb"\u0000") == nul
        for spelling in (Spelling.KEY, Spelling.JSON):
            assert compile_regex(pattern, spelling=spelling).matches(rb"\u0000")


@pytest.mark.parametrize("spelling", list(Spelling))
def test_lengths_count_characters(spelling):
    dfa = json_string_dfa(spelling, 2, 3)
    for count in range(5):
        for char in 'aé😀"':
            assert dfa.matches(spell(char * count, spelling)) == (2 <= count <= 3)
    assert not json_string_dfa(spelling, 2).matches(b"a")
    assert json_string_dfa(spelling, 2).matches(b"a" * 50)


@pytest.mark.parametrize("spelling", list(Spelling))
def test_every_state_is_live_and_numbered_from_the_start(spelling):
    dfa = compile_regex(r"^(?:[^é-ü]{2}|\n)+$", search=True, spelling=spelling)
    assert dfa.start == 1
    assert (distances(dfa)[1:] >= 0).all()
    assert not dfa.table[0].any()
    assert set(np.unique(dfa.table)) | {0, 1} == set(range(dfa.num_states))


def test_a_class_keeps_exactly_its_characters():
    """Every character near a boundary of UTF-8's or the class's, one by one."""
    inside = {0x41, 0x7F, *range(0x7F0, 0x810), *range(0xD7F0, 0xD800), *range(0xFFFE, 0x10010)}
    ranges = r"A\x7f\u07f0-\u080f\ud7f0-\ud7ff\ufffe-\u{1000f}"
    dfa = compile_regex(f"[{ranges}]")
    for middle in (0x41, 0x7F, 0x7F0, 0x80F, 0xD7F0, 0xE000, 0xFFFF, 0x1000F, 0x10FFF0):
        for code in range(middle - 15, middle + 16):
            if code < 0 or 0xD800 <= code < 0xE000 or code > 0x10FFFF:
                continue
            assert dfa.matches(chr(code).encode()) == (code in inside), hex(code)


def test_unspellable_bytes_leave_the_other_spellings(dead_bytes):
    dfa = json_string_dfa(Spelling.JSON, dead=dead_bytes(b"\xc3u"))
    assert not dfa.matches("é".encode())
    assert not dfa.matches(rb"\u00e9")
    assert dfa.matches("è→".encode()[2:])
    assert dfa.matches(rb"\n")
    assert (distances(dfa)[1:] >= 0).all()
