"""How a request goes through the decoder, and every way in which it ends."""

from __future__ import annotations

import numpy as np
import pytest

from service.engine.types import FinishReason, Sampling
from tests import fakes
from tests.service.engine.decoding import answer, generate, make_decoder, make_request, run


def test_without_a_constraint_it_says_what_the_model_says_until_eos():
    got = generate(fakes.replies({"a>": "hello"}), make_request("a"))
    assert got.text == "hello"
    assert got.finish.reason is FinishReason.STOP
    assert got.finish.complete
    assert got.finish.detail.eos_token_id == fakes.EOS
    assert got.finish.usage.prompt_tokens == 2
    assert got.finish.usage.completion_tokens == 5  # EOS is not counted


def test_at_max_tokens_an_unconstrained_answer_is_cut_and_says_so():
    got = generate(fakes.replies({"a>": "hello"}), make_request("a", max_tokens=3))
    assert (got.text, got.finish.reason, got.finish.complete) == (
        "hel",
        FinishReason.LENGTH,
        False,
    )


def test_a_token_budget_equal_to_the_answer_is_enough_because_eos_is_not_counted():
    got = generate(fakes.noise, make_request("a", max_tokens=3), [b"yes"])
    assert (got.text, got.finish.complete) == ("yes", True)


def test_the_constraint_wins_over_the_model():
    got = generate(fakes.replies({"a>": "maybe"}), make_request("a"), [b"yes", b"no"])
    assert got.text in {"yes", "no"}
    assert got.finish.detail.constraint_complete
    assert got.finish.reason is FinishReason.STOP


def test_what_is_forced_from_the_start_needs_no_model():
    model = fakes.FakeModel(fakes.noise)
    decoder = make_decoder(model)
    decoder.submit(make_request("a"), fakes.FakeGrammar([b"only this"]))
    got = answer(run(decoder)["a"])
    assert got.text == "only this"
    assert model.fed == []
    assert got.finish.usage.forced_tokens == got.finish.usage.completion_tokens == 9
    assert all(token.forced for token in got.tokens)


def test_forced_tokens_are_fed_together_with_the_next_real_step():
    model = fakes.FakeModel(fakes.replies({"a>": "xab1yab2"}))
    decoder = make_decoder(model)
    texts = [b"xab1yab2", b"zab1yab2", b"xab2yab2", b"xab1zab2"]
    decoder.submit(make_request("a"), fakes.FakeGrammar(texts))
    got = answer(run(decoder)["a"])
    assert got.text == "xab1yab2"
    fed = [bytes(row.token_ids) for (row,) in model.fed]
    assert fed == [b"a>", b"xab", b"1"]  # then 'y' was sampled, and "ab2" ended it
    assert got.finish.usage.forced_tokens == 5


def test_no_position_is_computed_twice():
    model = fakes.FakeModel(fakes.replies({"a>": "hello", "b>": "good morning"}))
    decoder = make_decoder(model)
    decoder.submit(make_request("a"))
    decoder.submit(make_request("b"))
    run(decoder)
    for name in (0, 1):
        rows = [row for step in model.fed for row in step if row.kv_row == name]
        ends = [row.position + len(row.token_ids) for row in rows]
        assert [row.position for row in rows] == [0, *ends[:-1]]


@pytest.mark.parametrize("max_tokens", range(2, 8))
def test_guaranteed_ends_whole_within_any_budget_from_the_minimum_on(max_tokens):
    texts = [b"[]", b"[1]", b"[12]", b"[123]", b"[1234]"]
    got = generate(
        fakes.replies({"a>": "[1234]"}), make_request("a", max_tokens=max_tokens), texts
    )
    assert got.text.encode() in texts
    assert got.finish.complete
    assert got.finish.usage.completion_tokens <= max_tokens
    steered = max_tokens < 6
    assert got.finish.reason is (FinishReason.LENGTH if steered else FinishReason.STOP)
    assert bool(got.finish.detail.steered_tokens) == steered


def test_guaranteed_below_the_minimum_is_refused_and_names_it():
    got = generate(fakes.noise, make_request("a", max_tokens=2), [b"yes", b"nope"])
    assert got.finish.reason is FinishReason.ERROR
    assert got.finish.error.reason == "BUDGET_TOO_SMALL"
    assert got.finish.error.metadata["minOutputTokens"] == "3"


def test_best_effort_below_the_minimum_is_cut_and_says_so():
    request = make_request("a", max_tokens=2, guaranteed=False)
    got = generate(fakes.noise, request, [b"yes", b"yet"])
    assert (got.text, got.finish.reason, got.finish.complete) == ("ye", FinishReason.LENGTH, False)


def test_an_unsteered_answer_at_the_limit_is_complete_without_detail():
    texts = [b"1", b"11", b"111", b"1111"]
    got = generate(fakes.replies({"a>": "1111"}), make_request("a", max_tokens=3), texts)
    assert (got.text, got.finish.reason, got.finish.complete) == ("111", FinishReason.LENGTH, True)
    assert got.finish.detail.steered_tokens is None


def test_the_empty_answer_is_an_answer():
    got = generate(fakes.noise, make_request("a"), [b""])
    assert (got.text, got.finish.complete, got.tokens) == ("", True, ())


def test_min_tokens_holds_eos_back():
    got = generate(fakes.replies({"a>": "hi"}), make_request("a", min_tokens=5, max_tokens=9))
    assert got.finish.usage.completion_tokens >= 5


def test_min_tokens_never_overrides_a_finished_constraint():
    got = generate(fakes.noise, make_request("a", min_tokens=50), [b"yes"])
    assert (got.text, got.finish.complete) == ("yes", True)


def test_min_tokens_keeps_a_constraint_going_where_it_can():
    texts = [b"1", b"12", b"123"]
    request = make_request("a", min_tokens=3)
    got = generate(lambda _: fakes.one_hot(fakes.EOS), request, [*texts, b"1x", b"12x"])
    assert len(got.text) == 3 or got.text == "1x"


class TestStopStrings:
    def test_ends_the_text_before_it(self):
        got = generate(
            fakes.replies({"a>": "one two END three"}), make_request("a", stop=("END",))
        )
        assert (got.text, got.finish.detail.stop_string) == ("one two ", "END")
        assert got.finish.complete

    def test_or_after_it_when_asked(self):
        request = make_request("a", stop=("END",), include_stop_in_output=True)
        assert generate(fakes.replies({"a>": "one END two"}), request).text == "one END"

    def test_under_a_constraint_counts_only_where_the_returned_text_is_whole(self):
        texts = [b"a,b", b"a,b,c", b"a,b,c,d"]
        script = fakes.replies({"x>": "a,b,c,d"})
        got = generate(script, make_request("x", stop=(",",)), texts)
        # "a" is no answer, "a,b" is one.
        assert (got.text, got.finish.detail.stop_string, got.finish.complete) == ("a,b", ",", True)

    def test_including_it_is_judged_with_it(self):
        texts = [b"a,", b"a,b,c"]
        request = make_request("x", stop=("b", ","), include_stop_in_output=True)
        got = generate(fakes.replies({"x>": "a,b,c"}), request, texts)
        assert (got.text, got.finish.complete) == ("a,", True)

    def test_that_never_leaves_a_whole_text_is_ignored(self):
        got = generate(fakes.replies({"x>": '{"a"}'}), make_request("x", stop=('"',)), [b'{"a"}'])
        assert (got.text, got.finish.complete) == ('{"a"}', True)
        assert got.finish.detail.constraint_complete

    def test_best_effort_stops_anyway(self):
        request = make_request("x", stop=(",",), guaranteed=False)
        got = generate(fakes.replies({"x>": "a,b"}), request, [b"a,b", b"b,a"])
        assert (got.text, got.finish.reason, got.finish.complete) == (
            "a",
            FinishReason.STOP,
            False,
        )

    def test_an_ending_that_only_looked_like_one_is_given_out_in_the_end(self):
        got = generate(fakes.replies({"a>": "it is EN"}), make_request("a", stop=("END",)))
        assert got.text == "it is EN"


def test_a_character_is_given_out_whole():
    decoder = make_decoder(fakes.FakeModel(fakes.replies({"a>": "né€😀!"})))
    decoder.submit(make_request("a"))
    chunks = run(decoder)["a"]
    texts = [c.text for c in chunks]
    assert "".join(texts) == "né€😀!"
    assert "�" not in "".join(texts)
    assert texts[1:3] == ["", "é"]  # its first byte alone says nothing


def test_nan_logits_end_one_request_and_the_others_go_on(caplog):
    good = fakes.replies({"good>": "fine"})

    def script(history):
        return np.full(fakes.VOCAB, np.nan) if history[0] == ord("b") else good(history)

    decoder = make_decoder(fakes.FakeModel(script))
    decoder.submit(make_request("bad"))
    decoder.submit(make_request("good"))
    chunks = run(decoder)
    assert answer(chunks["bad"]).finish.error.code == "INTERNAL"
    assert answer(chunks["good"]).text == "fine"
    assert "not numbers" in caplog.text


def test_a_failing_forward_ends_its_rows_and_the_next_request_is_served(caplog):
    fine = fakes.replies({"a>": "x", "b>": "fine"})
    broken = [True]

    def script(history):
        if broken.pop() if broken else False:
            raise RuntimeError("out of memory")
        return fine(history)

    decoder = make_decoder(fakes.FakeModel(script))
    decoder.submit(make_request("a"))
    failed = answer(run(decoder)["a"])
    assert failed.finish.error.reason == "INTERNAL"
    assert "out of memory" not in failed.finish.error.message
    decoder.submit(make_request("b"))
    assert answer(run(decoder)["b"]).text == "fine"


def test_a_broken_matcher_ends_its_own_request_only(caplog):
    class Broken(fakes.FakeMatcher):
        def advance(self, token):
            return False

    class BrokenGrammar(fakes.FakeGrammar):
        def matcher(self):
            return Broken(self.texts)

    decoder = make_decoder(fakes.FakeModel(fakes.replies({"a>": "x", "b>": "fine"})))
    decoder.submit(make_request("a"), BrokenGrammar([b"xy", b"xz", b"y"]))
    decoder.submit(make_request("b"))
    chunks = run(decoder)
    assert answer(chunks["a"]).finish.error.code == "INTERNAL"
    assert answer(chunks["b"]).text == "fine"


def test_cancel_frees_the_row_at_once_and_ends_with_one_finish():
    decoder = make_decoder(fakes.FakeModel(fakes.replies({"a>": "long answer"})))
    decoder.submit(make_request("a"))
    first = [chunk for _ in range(3) for chunk in decoder.step()]
    decoder.cancel("a")
    assert decoder._kv.num_free_rows == 4
    assert decoder._kv.num_free_blocks == 64
    last = decoder.step()
    decoder.cancel("a")
    assert [c.finish.reason for c in last] == [FinishReason.CANCELLED]
    assert "".join(c.text for c in first) == "lon"
    assert decoder.is_idle


def test_a_passed_deadline_frees_the_row():
    now = [100.0]
    decoder = make_decoder(fakes.FakeModel(fakes.replies({"a>": "long"})), clock=lambda: now[0])
    decoder.submit(make_request("a", deadline=105.0))
    decoder.step()
    now[0] = 105.0
    (last,) = decoder.step()
    assert last.finish.error.code == "DEADLINE_EXCEEDED"
    assert decoder._kv.num_free_rows == 4


def test_prompts_that_do_not_fit_are_refused():
    decoder = make_decoder(fakes.FakeModel(fakes.noise), num_blocks=2)
    decoder.submit(make_request("a", prompt="x" * 40))
    decoder.submit(make_request("b", prompt="x" * 31), fakes.FakeGrammar([b"yes"]))
    decoder.submit(make_request("c", prompt=""))
    chunks = run(decoder)
    reasons = {name: answer(c).finish.error.reason for name, c in chunks.items()}
    assert reasons == {
        "a": "CONTEXT_LENGTH_EXCEEDED",
        "b": "CONTEXT_LENGTH_EXCEEDED",
        "c": "INVALID_FIELD",
    }


def test_a_request_id_in_use_is_refused_and_the_first_goes_on():
    decoder = make_decoder(fakes.FakeModel(fakes.replies({"a>": "fine"})))
    decoder.submit(make_request("a"))
    decoder.submit(make_request("a"))
    chunks = run(decoder)["a"]
    assert chunks[0].finish.error.reason == "REQUEST_ID_IN_USE"
    assert answer(chunks[1:]).text == "fine"


def test_the_pool_full_preempts_the_youngest_which_continues_where_it_was():
    answers = {f"{n}>": n * 60 for n in "abcd"}
    model = fakes.FakeModel(fakes.replies(answers))
    decoder = make_decoder(model, num_blocks=8)
    texts = [answers[f"{n}>"].encode() for n in "abcd"] + [b"x"]
    for name in "abcd":
        decoder.submit(make_request(name), fakes.FakeGrammar(texts[:3]) if name == "b" else None)
    chunks = run(decoder)
    assert {n: answer(c).text for n, c in chunks.items()} == {n: n * 60 for n in "abcd"}
    assert decoder._scheduler.num_preemptions > 0


def test_seeded_answers_do_not_depend_on_who_shares_the_batch():
    sampling = Sampling(temperature=1.3, top_p=0.9, seed=7)
    request = make_request("a", sampling=sampling, max_tokens=30)
    alone = generate(fakes.noise, request)
    decoder = make_decoder(fakes.FakeModel(fakes.noise))
    for seed, name in enumerate("xayz"):
        other = Sampling(temperature=1.0, top_k=5, seed=seed)
        decoder.submit(
            request if name == "a" else make_request(name, sampling=other, max_tokens=40)
        )
    assert answer(run(decoder)["a"]).text == alone.text


def test_another_seed_gives_another_answer():
    answers = {
        generate(
            fakes.noise,
            make_request("a", sampling=Sampling(temperature=1.0, seed=s), max_tokens=20),
        ).tokens
        for s in range(5)
    }
    assert len(answers) == 5


def test_structure_is_not_penalized_in_free_text_scope():
    texts = [f"{a}-{b}-{c}".encode() for a in "xyz" for b in "xyz" for c in "xyz"]
    sampling = Sampling(temperature=0, presence_penalty=100.0, penalty_scope="free_text")
    got = generate(fakes.replies({"a>": "x-x-x"}), make_request("a", sampling=sampling), texts)
    assert sorted(got.text.split("-")) == ["x", "y", "z"]
