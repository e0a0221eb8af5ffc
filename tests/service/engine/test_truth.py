"""``complete``, the finish reason and what ended it are true in every combination.

Bytes are tokens here; the grammars are real ones. First a table that a reader can check by eye,
then properties of anything that may be asked, judged by regexes and the definitions of units.
"""

from __future__ import annotations

import functools
import json
import re
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import grammar
from service.engine.text import Detokenizer
from service.engine.types import Constraint, FinishReason, Sampling
from tests import fakes, naive_units
from tests.service.engine.decoding import answer, make_decoder, make_request, run

VOCABULARY = grammar.Vocabulary(
    [bytes([b]) for b in range(256)] + [None, None], (fakes.EOS,), (fakes.EOS, fakes.SPECIAL)
)
END, STOP = "\N{END OF TEXT}", "\N{END OF TRANSMISSION}"  # the model's EOS, and SPECIAL
TEXT, CONSTRAINT, UNIT = "none", "constraint", "unit"


@functools.cache
def compiled(constraint: Constraint) -> grammar.Grammar:
    kind, text = constraint.kind, constraint.text
    if kind == "unit":
        return grammar.compile_unit(text, VOCABULARY)
    if kind == "regex":
        return grammar.compile_regex(text, VOCABULARY)
    return grammar.compile_json_schema(text, VOCABULARY)


def generate(script, constraint=None, **fields):
    """The answer of a decoder with real masks."""
    decoder = make_decoder(fakes.FakeModel(script), fill_masks=grammar.fill_masks)
    request = make_request("a", constraint=constraint, **fields)
    decoder.submit(request, compiled(constraint) if constraint else None)
    return answer(run(decoder)["a"])


def says(text: str):
    """A model that wants to say this, byte by byte, then to end."""
    tokens = [{END: fakes.EOS, STOP: fakes.SPECIAL}.get(c) for c in text]
    wanted = [
        t for c, own in zip(text, tokens, strict=True) for t in ([own] if own else c.encode())
    ]

    def script(history):
        said = len(history) - len("a>")
        return fakes.one_hot(wanted[said] if said < len(wanted) else fakes.EOS)

    return script


class Case(NamedTuple):
    constraint: str  # "": none; "line", …: a unit; else a regex
    says: str
    fields: dict
    text: str
    reason: str
    cause: str
    complete: bool


B = {"guaranteed": False}
I = {"include_stop_in_output": True}  # noqa: E741 - a table
EOS_STOPS = {"stop_token_ids": (fakes.EOS,)}
CLOSED = ("LENGTH", "steered_tokens", True)
TABLE = [
    # no constraint
    Case("", "ab" + END, {}, "ab", "STOP", "eos_token_id", True),
    Case("", "abc", {"max_tokens": 2}, "ab", "LENGTH", "", False),
    Case("", "ab.c", {"stop": (".",)}, "ab", "STOP", "stop_string", True),
    Case("", "ab.c", {"stop": (".",), **I}, "ab.", "STOP", "stop_string", True),
    Case("", "ab12c", {"stop_regex": ("[0-9]+",)}, "ab", "STOP", "stop_regex", True),
    Case("", "ab12c", {"stop_regex": ("[0-9]{2}",), **I}, "ab12", "STOP", "stop_regex", True),
    Case("", "ab" + STOP, {"stop_token_ids": (257,)}, "ab", "STOP", "stop_token_id", True),
    Case("", "ab" + STOP, {"stop_token_ids": (257,), **I}, "ab", "STOP", "stop_token_id", True),
    Case("", "abc", {"stop_token_ids": (ord("c"),)}, "ab", "STOP", "stop_token_id", True),
    Case("", "abc", {"stop_token_ids": (ord("c"),), **I}, "abc", "STOP", "stop_token_id", True),
    Case("", "ab" + END, {"stop_token_ids": (256,)}, "ab", "STOP", "stop_token_id", True),
    Case("", "ab" + STOP + "c", {}, "abc", "STOP", "eos_token_id", True),
    Case("", "a.b", {"stop": (".",), "max_tokens": 1}, "a", "LENGTH", "", False),
    Case("", "a.b.", {"stop": (".",), "min_tokens": 3}, "a.b", "STOP", "stop_string", True),
    Case("", "a.", {"stop": (".x",)}, "a.", "STOP", "eos_token_id", True),
    # a constraint, guaranteed
    Case("a+b", "aab", {}, "aab", "STOP", "constraint_complete", True),
    Case("a+b?", "aa" + END, {}, "aa", "STOP", "eos_token_id", True),
    Case("[ab]b", END, {"max_tokens": 9}, "ab", "STOP", "constraint_complete", True),
    Case("a+b", "aaaaa", {"max_tokens": 3}, "aab", "LENGTH", "steered_tokens", True),
    Case("a+b", "aab", {"max_tokens": 3}, "aab", "STOP", "constraint_complete", True),
    Case("a+", "aaaa", {"max_tokens": 3}, "aaa", "LENGTH", "", True),
    Case("a+b", "aab", {"stop": ("a",)}, "aab", "STOP", "constraint_complete", True),
    Case("a+(ba*)?", "aaba", {"stop": ("b",)}, "aa", "STOP", "stop_string", True),
    Case("a+(ba)?", "aaba", {"stop": ("b",), **I}, "aaba", "STOP", "constraint_complete", True),
    Case("a+(ba)?b?", "aab" + END, {"stop": ("b",), **I}, "aab", "STOP", "stop_string", True),
    Case("a+(b+a)?", "abba", {"stop_regex": ("b+",)}, "a", "STOP", "stop_regex", True),
    Case("(ab)+", "ababab", {"stop_regex": ("bab",), **I}, "abab", "STOP", "stop_regex", True),
    Case("[ab]b", STOP, {"stop_token_ids": (257,)}, "ab", "STOP", "constraint_complete", True),
    Case("a+b?", "a" + STOP, {"stop_token_ids": (257,)}, "a", "STOP", "stop_token_id", True),
    Case("a+b?", "ab", {"stop_token_ids": (98,)}, "a", "STOP", "stop_token_id", True),
    Case("a+b?c?", "ab", {"stop_token_ids": (98,), **I}, "ab", "STOP", "stop_token_id", True),
    Case("abc?", "abc", {"stop_token_ids": (98,)}, "abc", "STOP", "constraint_complete", True),
    # "b" may not stop it and is masked, until nothing else is left
    Case("a+b", "b", {"stop_token_ids": (98,), "max_tokens": 3}, "aab", *CLOSED),
    Case("a+b?", END, {"ignore_eos": True, "max_tokens": 3}, "aaa", "LENGTH", "", True),
    Case("a+b?", "aab", {"ignore_eos": True}, "aab", "STOP", "constraint_complete", True),
    # "bbb" is too long for what is left, and nothing else may come
    Case("a(bbb)?", END, {"ignore_eos": True, "max_tokens": 3}, "a", *CLOSED),
    Case("a(bbb)?", END, {"min_tokens": 3, "max_tokens": 3}, "a", *CLOSED),
    Case(
        "a(bbb)?", "a" + STOP, {"stop_token_ids": (257,), "min_tokens": 3, "max_tokens": 3},
        "a", "STOP", "stop_token_id", True,
    ),
    Case(
        "aa?(bbb)?", "aa", {"stop_token_ids": (97,), "min_tokens": 3, "max_tokens": 3},
        "aa", *CLOSED,
    ),
    Case("a+", "a" + END, {"ignore_eos": True, **EOS_STOPS}, "a", "STOP", "stop_token_id", True),
    Case("yes|no", "yes", {"min_tokens": 9}, "yes", "STOP", "constraint_complete", True),
    Case("a*", "", {"min_tokens": 2, "max_tokens": 9}, "aa", "STOP", "eos_token_id", True),
    # a constraint, best effort
    Case("a+b", "aaaaa", {"max_tokens": 3, **B}, "aaa", "LENGTH", "", False),
    Case("a+b?", "aaaaa", {"max_tokens": 3, **B}, "aaa", "LENGTH", "", True),
    Case("a+b", "aab", {**B}, "aab", "STOP", "constraint_complete", True),
    Case("a+b", "aab", {"stop": ("aa",), **B}, "", "STOP", "stop_string", False),
    Case("a+b", "aab", {"stop_regex": ("a{2}",), **B, **I}, "aa", "STOP", "stop_regex", False),
    Case("a+b", "a" + STOP, {"stop_token_ids": (257,), **B}, "a", "STOP", "stop_token_id", False),
    Case("a+b", "ac", {"stop_token_ids": (99,), **B}, "a", "STOP", "stop_token_id", False),
    Case("a+b", "ac", {"stop_token_ids": (99,), **B, **I}, "ac", "STOP", "stop_token_id", False),
    Case("a+b", "ab", {"stop_token_ids": (98,), **B, **I}, "ab", "STOP", "stop_token_id", True),
    # a unit, guaranteed
    Case("line", "ab\ncd", {}, "ab", "STOP", "unit", True),
    Case("line", "ab\ncd", {**I}, "ab\n", "STOP", "unit", True),
    Case("line", "a" + END, {}, "a\0", "", "", True),
    Case("line", "abcdef", {"max_tokens": 3}, "ab", "LENGTH", "steered_tokens", True),
    Case("line", "ab\n", {"max_tokens": 3}, "ab", "STOP", "unit", True),
    Case("line", "a b\n", {"stop": (" ",)}, "a b", "STOP", "unit", True),
    Case("line", "ab\n", {"stop": ("\n",), **I}, "ab\n", "STOP", "stop_string", True),
    Case("sentence", "It is 3.5. No", {}, "It is 3.5.", "STOP", "unit", True),
    Case("sentence", "Yes." + END, {}, "Yes.", "STOP", "eos_token_id", True),
    Case("sentence", "Yes.", {"max_tokens": 4}, "Yes.", "LENGTH", "", True),
    Case("sentence", "Yes. No", {"stop": (" ",)}, "Yes.", "STOP", "unit", True),
    Case("sentence", "Yes." + END, EOS_STOPS, "Yes.", "STOP", "stop_token_id", True),
    Case("json_value", 'x {"a": [1]} y', {}, 'x {"a": [1]}', "STOP", "unit", True),
    Case("json_value", "xxxxxx", {"max_tokens": 4}, "xx[]", "LENGTH", "steered_tokens", True),
    Case("json_value", "[[1111", {"max_tokens": 5}, "[[1]]", "LENGTH", "steered_tokens", True),
    Case("brackets", "f(a[0]) x", {}, "f(a[0])", "STOP", "unit", True),
    Case("brackets", "((x((", {"max_tokens": 5}, "((x))", "LENGTH", "steered_tokens", True),
    Case("fence", "a\n```\nb\n```\nc", {}, "a\n```\nb\n```", "STOP", "unit", True),
    Case("fence", "a\n```\nb\n```" + END, {}, "a\n```\nb\n```", "STOP", "eos_token_id", True),
    Case("line", "ab\n", {"min_tokens": 9}, "ab", "STOP", "unit", True),
    # a unit, best effort
    Case("line", "ab" + END, {**B}, "ab", "STOP", "eos_token_id", False),
    Case("line", "ab\nc", {**B}, "ab", "STOP", "unit", True),
    Case("line", "abc", {"max_tokens": 2, **B}, "ab", "LENGTH", "", False),
    Case("sentence", "Yes." + END, {**B}, "Yes.", "STOP", "eos_token_id", True),
    Case("line", "a b\n", {"stop": (" ",), **B}, "a", "STOP", "stop_string", False),
    Case("line", "a" + STOP, {"stop_token_ids": (257,), **B}, "a", "STOP", "stop_token_id", False),
    Case("json_value", "x [1", {"max_tokens": 4, **B}, "x [1", "LENGTH", "", False),
]  # fmt: skip


def constraint_of(text):
    if not text:
        return None
    if text in grammar.UNITS:
        return Constraint(kind="unit", text=text)
    return Constraint(kind="regex", text=text)


def cause_of(finish):
    found = [n for n in finish.detail.__struct_fields__ if getattr(finish.detail, n)]
    assert len(found) <= 1
    return found[0] if found else ""


@pytest.mark.parametrize("case", TABLE, ids=range(len(TABLE)))
def test_table(case):
    got = generate(says(case.says), constraint_of(case.constraint), **case.fields)
    if not case.reason:  # the rest is the model's noise
        assert got.text.startswith(case.text[:1])
        assert got.finish.complete
        return
    finish = got.finish
    assert (got.text, finish.reason.name, cause_of(finish), finish.complete) == case[3:]


# --- properties ---------------------------------------------------------------------------------

SCHEMA = '{"type": "array", "items": {"enum": [1, "a.b", null]}, "maxItems": 4}'
CONSTRAINTS = [
    None,
    *(Constraint(kind="unit", text=name) for name in grammar.UNITS),
    *(Constraint(kind="regex", text=text) for text in ("[ab.]+", "(a|b.)*\\n", "a(b.{3})*")),
    Constraint(kind="json_schema", text=SCHEMA),
]


def noise(alphabet, seed):
    """A model that likes some tokens, differently at each place of each history."""
    liked = [*alphabet.encode(), fakes.EOS, fakes.SPECIAL]

    def script(history):
        logits = fakes.noise([seed, *history])
        logits[liked] += 8
        return logits

    return script


def is_whole(constraint, text, finish, include):
    """Whether the text is what was asked for, by other means than the engine's."""
    if constraint.kind == "regex":
        return re.fullmatch(constraint.text, text) is not None
    if constraint.kind == "json_schema":
        try:
            value = json.loads(text)
        except ValueError:
            return False
        return isinstance(value, list) and len(value) <= 4 and set(value) <= {1, "a.b", None}
    if constraint.text == "json_value":
        places = [text.find(b) for b in "[{" if b in text]
        try:
            return bool(places) and json.loads(text[min(places) :]) is not None
        except ValueError:
            return False
    if constraint.text == "brackets":
        return naive_units.first_end("brackets", text) == len(text)
    if constraint.text == "line" and not include:
        return finish.detail.unit == "line" or finish.detail.steered_tokens is not None
    return naive_units.is_complete(constraint.text, text)


options = st.fixed_dictionaries(
    {},
    optional={
        "max_tokens": st.integers(1, 14),
        "min_tokens": st.integers(0, 6),
        "stop": st.lists(st.sampled_from([".", "a", "ab", "]", "\n", ". "]), max_size=2).map(
            tuple
        ),
        "stop_regex": st.lists(st.sampled_from(["a+", r"\.\s", "[ab]{2}", "b$"]), max_size=2).map(
            tuple
        ),
        "stop_token_ids": st.lists(
            st.sampled_from([*b"a.]\n", fakes.EOS, fakes.SPECIAL]), max_size=2, unique=True
        ).map(tuple),
        "ignore_eos": st.booleans(),
        "include_stop_in_output": st.booleans(),
        "guaranteed": st.booleans(),
    },
)


@given(
    st.sampled_from(CONSTRAINTS),
    st.sampled_from(["ab. \n", "`\na", "[]{}a", '[1,"a.b] ', "A. b"]),
    options,
    st.integers(0, 999),
)
def test_what_is_said_about_the_end_is_true(constraint, alphabet, fields, seed):
    script = noise(alphabet, seed)
    limited = {"max_tokens": 14, **fields}
    got = generate(script, constraint, **limited)
    finish, cause = got.finish, cause_of(got.finish)
    guaranteed = fields.get("guaranteed", True)
    if finish.reason is FinishReason.ERROR:
        assert finish.error.reason == "BUDGET_TOO_SMALL"
        assert constraint is not None
        assert guaranteed
        assert int(finish.error.metadata["minOutputTokens"]) > limited["max_tokens"]
        return
    include = fields.get("include_stop_in_output", False)
    if constraint is None:
        assert finish.complete == (cause != "")
    else:
        assert finish.complete == is_whole(constraint, got.text, finish, include)
        assert finish.complete or not guaranteed
    _check_reason(finish, cause, limited)
    _check_stop(got, cause, limited, include)
    if constraint is not None and guaranteed and cause in ("unit", "constraint_complete"):
        # max_tokens changed nothing: with more of them the answer is the same.
        more = generate(script, constraint, **{**limited, "max_tokens": 150})
        assert more.tokens == got.tokens
    if cause == "steered_tokens":
        more = generate(script, constraint, **{**limited, "max_tokens": 150})
        assert more.tokens != got.tokens


def _check_reason(finish, cause, fields):
    length = finish.reason is FinishReason.LENGTH
    assert length == (cause in ("", "steered_tokens"))
    used = finish.usage.completion_tokens
    assert used <= fields["max_tokens"]
    if cause == "":
        assert used == fields["max_tokens"]
    if cause in ("eos_token_id", "stop_string", "stop_regex"):
        assert used >= min(fields.get("min_tokens", 0), fields["max_tokens"])
    if fields.get("ignore_eos"):
        assert cause != "eos_token_id"


def _check_stop(got, cause, fields, include):
    written = Detokenizer().push(b"".join(fakes.token_bytes(t.token_id) for t in got.tokens))
    assert written.startswith(got.text)
    detail = got.finish.detail
    if cause == "stop_string":
        assert detail.stop_string in fields["stop"]
        if include:
            assert got.text.endswith(detail.stop_string)
        else:
            assert written[len(got.text) :].startswith(detail.stop_string)
    elif cause == "stop_regex":
        assert detail.stop_regex in fields["stop_regex"]
        assert include or re.match(detail.stop_regex, written[len(got.text) :])
    elif cause == "stop_token_id":
        assert detail.stop_token_id in fields["stop_token_ids"]
        assert got.text == written
        text = fakes.token_bytes(detail.stop_token_id).decode()
        assert not include or got.text.endswith(text)
    elif cause != "unit":
        assert got.text == written or got.finish.detail.steered_tokens


@pytest.mark.parametrize("guaranteed", [True, False])
@pytest.mark.parametrize("kind", [None, "regex", "unit"])
def test_a_stop_token_with_the_largest_bias_waits_for_the_whole_text(guaranteed, kind):
    """Case 10 of the list of reported faults: a bias never gets past the mask."""
    constraint = {
        None: None,
        "regex": Constraint(kind="regex", text="[ax]b{2,3}"),
        "unit": Constraint(kind="unit", text="line"),
    }[kind]
    for token in (fakes.SPECIAL, fakes.EOS, ord("c")):
        got = generate(
            says("abb\n"),
            constraint,
            stop_token_ids=(token,),
            sampling=Sampling(temperature=0, logit_bias=((token, 100.0),)),
            guaranteed=guaranteed,
            max_tokens=9,
        )
        waits = guaranteed and kind is not None
        assert got.finish.complete == (waits or kind is None)
        if not waits:
            assert (got.text, got.finish.detail.stop_token_id) == ("", token)
        elif kind == "regex":
            assert (got.text, got.finish.detail.stop_token_id) == ("abb", token)
        else:
            assert got.finish.detail.unit == "line"
            assert "c" not in got.text


def test_the_logits_of_other_rows_do_not_see_a_bias():
    script = says("abc")
    decoder = make_decoder(fakes.FakeModel(script))
    biased = Sampling(temperature=0, logit_bias=((ord("z"), 100.0),))
    decoder.submit(make_request("a", sampling=biased, max_tokens=3))
    decoder.submit(make_request("b", max_tokens=3))
    chunks = run(decoder)
    assert answer(chunks["a"]).text == "zzz"
    assert answer(chunks["b"]).text == "abc"


def test_penalties_touch_text_around_and_in_a_unit():
    sampling = Sampling(temperature=0, presence_penalty=100.0, penalty_scope="free_text")
    logits = np.zeros(fakes.VOCAB)
    logits[[ord("x"), ord("\n")]] = 5.0, 4.0
    unit = Constraint(kind="unit", text="line")
    got = generate(lambda _: logits, unit, sampling=sampling)
    assert got.text == "x"
