"""Text is given out in whole characters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.engine.text import Detokenizer


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
