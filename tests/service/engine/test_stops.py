"""What ends a text is found wherever tokens end, and judged as returned."""

from __future__ import annotations

import time

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from service.engine import stop_regex
from service.engine.stop_regex import (
    ALLOWANCE_SECONDS,
    MAX_SPAN,
    SEARCH_SECONDS,
    StopRegexError,
    compile_stop_regex,
)
from service.engine.stops import Judge, Stops
from service.engine.types import Stopping
from tests import fakes

PATTERNS = [
    *("ab", "a+", "a+b", "ab|abab", "c|abc", "b(?=a)", "a(?!b)", "(?<=a)b", "ba*c", "[ab]c"),
    *("a.b", r"\bab", "(?i)AB", "b$", "(a|b)+c", "a{3}", "bb|a", "(?:ab)*?c"),
]
STRINGS = st.lists(st.text("ab", min_size=1, max_size=4), max_size=3)
REGEXES = st.lists(st.sampled_from(PATTERNS), max_size=3)


def expected(text, stopping, language):
    """The obvious definition: every stop at every place of every beginning of the text."""
    for read in range(len(text) + 1):
        so_far = text[:read]
        found = [(read - len(s), read) for s in stopping.stop if so_far.endswith(s)]
        for pattern in stopping.stop_regex:
            for start in range(read + 1):
                match = regex.compile(pattern).match(text, start, read)
                found += [match.span()] if match else []
        for start, end in sorted(found):
            returned = text[: end if stopping.include_stop_in_output else start]
            if language is None or returned in language:
                return returned
    return None


def watch(text, stopping, language, cut):
    """What ``Stops`` gives out for the text in pieces, and its hit."""
    judge = None
    if language is not None:
        judge = Judge(fakes.FakeGrammar(t.encode() for t in language).matcher())
    stops = Stops(stopping, judge, only_accepted=language is not None)
    given = ""
    while text:
        n = cut(len(text))
        piece, hit = stops.push(text[:n])
        given += piece
        if hit:
            return given, hit
        text = text[n:]
    return given + stops.flush(), None


@given(
    st.text("abc", max_size=24), STRINGS, REGEXES, st.booleans(), st.none() | st.just(True),
    st.data(),
)  # fmt: skip
@example("abcx", [], ["abcd|c"], False, None, None)
def test_the_first_stop_to_be_complete_ends_the_text_however_it_is_cut(
    text, strings, regexes, include, judged, data
):
    if not (strings or regexes):
        return
    stopping = Stopping(
        stop=tuple(strings), stop_regex=tuple(regexes), include_stop_in_output=include
    )
    language = None
    if judged:
        some = data.draw(st.sets(st.integers(0, len(text))))
        language = {text[:n] for n in some} | {text}
    wanted = expected(text, stopping, language)

    def cut(length):
        return data.draw(st.integers(1, length)) if data else 1

    got, hit = watch(text, stopping, language, cut)
    assert got == (text if wanted is None else wanted)
    assert bool(hit) == (wanted is not None)


@given(st.text("abc", max_size=24), STRINGS, REGEXES)
def test_without_a_stop_nothing_is_held_back_longer_than_it_may_become_one(text, strings, regexes):
    if not (strings or regexes):
        return
    stopping = Stopping(stop=tuple(strings), stop_regex=tuple(regexes))
    stops = Stops(stopping, None, only_accepted=False)
    given = ""
    for read, char in enumerate(text, 1):
        piece, hit = stops.push(char)
        if hit:
            return
        given += piece
        held = text[len(given) : read]
        for tail in (held,) if held else ():
            begins = any(s.startswith(tail) for s in strings)
            may_match = any(
                (m := regex.compile(p).match(text, len(given), read, partial=True)) and m.partial
                for p in regexes
            )
            assert begins or may_match, (tail, read)


def test_under_a_constraint_a_match_may_grow_to_one_that_counts():
    stopping = Stopping(stop_regex=("a+",), include_stop_in_output=True)
    got, hit = watch("aaab", stopping, {"aaa", "aaab"}, lambda _: 1)
    assert got == "aaa"
    assert hit.detail.stop_regex == "a+"


def test_of_two_kinds_the_first_to_be_complete_is_named():
    stopping = Stopping(stop=("cd",), stop_regex=("b.",))
    _, hit = watch("abcd", stopping, None, lambda n: n)
    assert hit.detail.stop_regex == "b."
    _, hit = watch("acd", stopping, None, lambda n: n)
    assert hit.detail.stop_string == "cd"


def test_a_judge_reads_each_character_once():
    matcher = fakes.FakeGrammar([b"ab", b"abcd"]).matcher()
    read = []

    class Counting:
        is_complete = property(lambda self: matcher.is_complete)

        def advance_bytes(self, data):
            read.append(data)
            return matcher.advance_bytes(data)

    judge = Judge(Counting())
    judge.read("ab")
    judge.read("cd")
    assert [judge.accepts(n) for n in range(6)] == [True, False, True, False, False, False]
    assert b"".join(read) == b"abcd"


def test_work_on_a_token_does_not_grow_with_the_text():
    """Counted in what is kept and searched, not in time."""
    stopping = Stopping(stop=("nowhere",), stop_regex=("never[0-9]+",))
    stops = Stops(stopping, None, only_accepted=False)
    given = ""
    for _ in range(20_000):
        given += stops.push("never say nowher. ")[0]
    assert len(given + stops.flush()) == 20_000 * len("never say nowher. ")
    assert len(stops._text) < 4 * MAX_SPAN + 100
    assert stops.abandoned == ()


class TestStopRegex:
    def test_a_match_spans_at_most_so_many_characters(self):
        stopping = Stopping(stop_regex=("<[^>]*>",))
        short = "x<" + "y" * (MAX_SPAN - 2) + ">z"
        assert watch(short, stopping, None, lambda _: 1)[0] == "x"
        long = "x<" + "y" * MAX_SPAN + ">z"
        assert watch(long, stopping, None, lambda _: 1) == (long, None)

    def test_text_is_held_back_for_no_more_than_that(self):
        stops = Stops(Stopping(stop_regex=("[<y][^>]*>",)), None, only_accepted=False)
        given = "".join(stops.push(char)[0] for char in "<" + "y" * 3 * MAX_SPAN)
        assert len(given) == 2 * MAX_SPAN + 1

    def test_what_lies_before_the_text_that_is_kept_is_still_before_it(self):
        stops = Stops(Stopping(stop_regex=(r"\Ab", "^b", "(?<=a)b")), None, only_accepted=False)
        for _ in range(10_000):
            assert stops.push("c")[1] is None
        assert stops.push("b")[1] is None
        assert stops.push("ab")[1].detail.stop_regex == "(?<=a)b"

    @pytest.mark.parametrize(
        ("pattern", "text"),
        [
            (r"(?:a+){2,30}b", "a" * 60),
            (r"(?:(?:a{1,30}){1,30}){1,30}b", "a" * 200),
            (r"(?:x+x+)+y", "x" * 60),
            (r"(?:a|a|a)*b", "a" * 50),
            (r"(?:a?){30}a{30}b", "a" * 40),
            (r"(.+)+\1\1c", "a" * 300),
            (r"(?:.*.*)*=x", "y" * 500),
        ],
    )
    def test_one_that_takes_too_long_is_abandoned_and_others_are_not(self, pattern, text):
        """Other rows wait for at most the allowance and one search; their stops still hold."""
        stops = Stops(Stopping(stop_regex=(pattern, "END")), None, only_accepted=False)
        longest = total = 0.0
        for char in text:
            began = time.thread_time()
            _, hit = stops.push(char)
            longest = max(longest, time.thread_time() - began)
            total += time.thread_time() - began
            assert hit is None
        assert longest < ALLOWANCE_SECONDS + 2 * SEARCH_SECONDS + 0.02
        assert total < ALLOWANCE_SECONDS + len(text) * 0.001 + 0.05
        _, hit = stops.push("END")
        assert hit.detail.stop_regex == "END"

    def test_abandoned_it_holds_nothing_back_and_is_named(self, monkeypatch):
        monkeypatch.setattr(stop_regex, "ALLOWANCE_SECONDS", 0.0)
        monkeypatch.setattr(stop_regex, "SECONDS_PER_PUSH", 0.0)
        stops = Stops(Stopping(stop_regex=("ab+c",)), None, only_accepted=False)
        assert stops.push("xab") == ("xab", None)
        assert stops.abandoned == (0,)
        assert stops.push("bc") == ("bc", None)


BAD = [
    ("(", 0, "missing )"),
    ("é(", 2, "missing )"),
    ("a**", 2, "multiple repeat"),
    (r"\p{L}", 0, "bad escape"),
    ("(?R)", 1, "unknown extension"),
    ("x{e}", 1, "brace that is no count"),
    ('{"end', 0, "brace that is no count"),
    ("é[[a]", 3, "nested set"),
    ("(?x)a # (", 0, "flag x"),
    ("(?s-x:a)", 0, "flag x"),
    ("a*", 0, "matches the empty text"),
    ("$", 0, "matches the empty text"),
    ("a{1000}{2}", 7, "multiple repeat"),
    ("(?:a{999}){9}", 0, "repetitions make it"),
    ("(?:" * 20 + "a" + "+)" * 20, 0, "repetitions make it"),
    ("(?:" * 20 + "a" + "{1,2})" * 20, 0, "repetitions make it"),
    ("(?#(((" + ")" + "(?:" * 20 + "a" + "+)" * 20, 0, "repetitions make it"),
    ("[](]" + "(?:" * 20 + r"[^\]]" + "+)" * 20, 0, "repetitions make it"),
    ("a{99999999999}", 0, "repetition number"),
]


@pytest.mark.parametrize(("pattern", "offset", "says"), BAD, ids=range(len(BAD)))
def test_a_pattern_that_cannot_be_used_is_refused_with_its_byte(pattern, offset, says):
    with pytest.raises(StopRegexError) as caught:
        compile_stop_regex(pattern)
    assert says in str(caught.value)
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    "pattern",
    [
        *("a", r"\n\n", "(?i)end", r"\{end\}", "[{]", "a{2,}", "(?P<q>['\"]).*?(?P=q)", "a{,3}b"),
        *("é+?", "x" * 256, r"\bfoo\b", "(?:ab|cd){1,9}x", "a{500}", r"[\]\[]x", "(?<!a)b"),
    ],
)
def test_usual_patterns_are_taken(pattern):
    assert compile_stop_regex(pattern).pattern == pattern


@given(st.text("ab(){}[]^*+?|\\.:=!<>#ix0,9-", max_size=24))
def test_any_pattern_is_compiled_soon_or_refused(pattern):
    began = time.thread_time()
    try:
        compile_stop_regex(pattern)
    except StopRegexError as error:
        assert 0 <= error.offset <= len(pattern.encode())
    assert time.thread_time() - began < 0.5
