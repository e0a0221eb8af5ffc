"""Text is given out in whole characters, and stop strings are found wherever tokens end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.engine.text import Detokenizer, Judge, StopStrings
from tests import fakes


@given(st.text(), st.data())
def test_any_cut_of_the_bytes_gives_the_text_back_in_whole_characters(text, data):
    detokenizer = Detokenizer()
    rest, pieces = text.encode(), []
    while rest:
        n = data.draw(st.integers(1, len(rest)))
        pieces.append(detokenizer.push(rest[:n]))
        rest = rest[n:]
    assert "".join(pieces) == text


def test_bytes_that_are_no_text_become_the_replacement_character():
    assert Detokenizer().push(b"a\xffb") == "a\N{REPLACEMENT CHARACTER}b"


def test_an_unfinished_character_at_the_end_never_comes_out():
    assert Detokenizer().push("é".encode()[:1]) == ""


alphabet = st.text("ab", min_size=1, max_size=4)


@given(
    st.text("abc", max_size=30),
    st.lists(alphabet, min_size=1, max_size=3),
    st.booleans(),
    st.data(),
)
def test_the_first_stop_string_to_end_stops_the_text_however_it_is_cut(text, stops, include, data):
    ends = [
        (start + len(stop), start)
        for stop in stops
        for start in range(len(text))
        if text.startswith(stop, start)
    ]
    expected = text if not ends else text[: min(ends)[0] if include else min(ends)[1]]
    watcher = StopStrings(stops, include=include, judge=None, only_accepted=False)
    got, rest, hit = [], text, None
    while rest and not hit:
        n = data.draw(st.integers(1, len(rest)))
        piece, hit = watcher.push(rest[:n])
        got.append(piece)
        rest = rest[n:]
    if not hit:
        got.append(watcher.flush())
    assert "".join(got) == expected
    assert bool(hit) == bool(ends)


@given(st.text("ab", max_size=20), alphabet, st.booleans(), st.sets(st.text("ab", max_size=20)))
def test_a_judged_stop_string_counts_at_the_first_accepted_text(text, stop, include, others):
    language = {text, *others}
    watcher = StopStrings(
        [stop],
        include=include,
        judge=Judge(fakes.FakeGrammar(t.encode() for t in language).matcher),
        only_accepted=True,
    )
    cuts = [
        start + len(stop) if include else start
        for start in range(len(text))
        if text.startswith(stop, start)
    ]
    expected = next((text[:cut] for cut in cuts if text[:cut] in language), None)
    got, hit = "", None
    for character in text:
        piece, hit = watcher.push(character)
        got += piece
        if hit:
            break
    assert got + ("" if hit else watcher.flush()) == (text if expected is None else expected)
    assert bool(hit) == (expected is not None)


def test_a_judge_asked_about_a_shorter_text_starts_again():
    judge = Judge(fakes.FakeGrammar([b"ab", b"abcd"]).matcher)
    assert judge.accepts("abcd", 4)
    assert judge.accepts("abcd", 2)
    assert not judge.accepts("abcd", 3)
