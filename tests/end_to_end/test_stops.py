"""Every way to stop, over a real socket: the text ends where it should, and is said to."""

import json
import re

import pytest

from service.rpc.pb.v1 import generation_pb2 as g
from service.rpc.pb.v1 import model_pb2, model_pb2_grpc
from tests import naive_units
from tests.end_to_end.calls import TIMEOUT, ask, choice, refused, regex

COUNT = "Count from one to twenty in words."
GREEDY = {"temperature": 0}
BEST_EFFORT = g.COMPLETION_POLICY_BEST_EFFORT
STOP, LENGTH = g.FINISH_REASON_STOP, g.FINISH_REASON_LENGTH


def generate(stub, content=COUNT, **fields):
    fields = {"sampling": GREEDY, "response": {"token_ids": True}, **fields}
    return stub.Generate(ask(content, **fields), timeout=TIMEOUT)


def output(stub, content=COUNT, **fields):
    return generate(stub, content, **fields).outputs[0]


@pytest.fixture(scope="module")
def eos(server):
    """The model's own end-of-sequence tokens, and its vocabulary's size."""
    import grpc

    with grpc.insecure_channel(server.address) as channel:
        stub = model_pb2_grpc.ModelServiceStub(channel)
        model = stub.GetModel(model_pb2.GetModelRequest(), timeout=TIMEOUT).model
    return model.eos_token_ids, model.vocab_size


class TestStopRegex:
    def test_the_text_ends_before_the_first_match_or_after_it(self, stub):
        whole = output(stub, stopping={"max_tokens": 20}).text
        pattern = r"[a-z]{3,}\s"
        found = re.search(pattern, whole)
        assert found, whole
        stopping = {"max_tokens": 20, "stop_regex": [pattern]}
        got = output(stub, stopping=stopping)
        assert got.text == whole[: found.start()]
        assert got.stop_detail.stop_regex == pattern
        assert (got.complete, got.finish_reason) == (True, STOP)
        stopping["include_stop_in_output"] = True
        assert output(stub, stopping=stopping).text == whole[: found.end()]

    def test_a_stream_never_gives_out_what_belongs_to_a_match(self, stub):
        stopping = {"max_tokens": 20, "stop_regex": ["t[a-z]+"]}
        asked = ask(COUNT, sampling=GREEDY, stopping=stopping)
        events = list(stub.GenerateStream(asked, timeout=TIMEOUT))
        text = "".join(event.delta.text for event in events)
        assert text == output(stub, stopping=stopping).text
        assert not re.search("t[a-z]", text)
        assert events[-2].finished.stop_detail.stop_regex == "t[a-z]+"

    def test_under_a_constraint_it_counts_only_where_the_text_is_whole(self, stub):
        got = output(
            stub,
            constraint=regex(r"[a-z]{3}(, [a-z]{3}){0,9}"),
            stopping={"stop_regex": ["[a-z]", ",", "[a-z]$"], "max_tokens": 60},
        )
        assert re.fullmatch("[a-z]{3}", got.text)
        assert got.stop_detail.stop_regex == ","
        assert got.complete

    def test_best_effort_stops_anyway(self, stub):
        got = output(
            stub,
            constraint=regex("[a-z]{9}"),
            stopping={"stop_regex": ["[a-z]{2}"], "include_stop_in_output": True},
            completion_policy=BEST_EFFORT,
        )
        assert len(got.text) == 2
        assert (got.complete, got.finish_reason) == (False, STOP)

    def test_a_bad_pattern_is_refused_with_its_byte(self, stub):
        code, reason, found = refused(lambda: output(stub, stopping={"stop_regex": ["ok", "é("]}))
        assert (code, reason) == ("INVALID_ARGUMENT", "INVALID_FIELD")
        assert found["BadRequest"].field_violations[0].field == "stopping.stop_regex[1]"
        assert found["ErrorInfo"].metadata["location"] == "@2"

    def test_a_pattern_that_takes_too_long_is_named_and_the_answer_is_whole(self, stub):
        slow = "(?:a+){2,30}b"
        stopping = {"stop_regex": [slow, "zz"]}
        got = output(stub, constraint=regex("a{80}"), stopping=stopping)
        assert got.text == "a" * 80
        assert got.complete
        assert list(got.abandoned_stop_regex) == [slow]
        asked = ask(COUNT, constraint=regex("a{80}"), stopping=stopping)
        *_, finished, _ = stub.GenerateStream(asked, timeout=TIMEOUT)
        assert list(finished.finished.abandoned_stop_regex) == [slow]


class TestStopTokens:
    def test_free_text_ends_before_the_first_of_them_or_after_it(self, stub):
        whole = output(stub, stopping={"max_tokens": 20})
        ids = [token.token_id for token in whole.tokens]
        wanted = ids[len(ids) // 2]
        before = whole.tokens[: ids.index(wanted)]
        stopping = {"max_tokens": 20, "stop_token_ids": [wanted]}
        response = generate(stub, stopping=stopping)
        got = response.outputs[0]
        assert got.text.encode() == b"".join(token.bytes for token in before)
        assert got.stop_detail.stop_token_id == wanted
        assert got.complete
        assert response.usage.completion_tokens == len(before)
        stopping["include_stop_in_output"] = True
        response = generate(stub, stopping=stopping)
        assert response.usage.completion_tokens == len(before) + 1
        assert response.outputs[0].tokens[-1].token_id == wanted

    @pytest.mark.parametrize("token", [0, 2, 198])  # end of text, of a turn, a line break
    def test_one_with_the_largest_bias_waits_for_the_whole_answer(self, stub, token):
        fields = {
            "stopping": {"stop_token_ids": [token], "max_tokens": 40},
            "sampling": {"temperature": 0, "logit_bias": {token: 100}},
        }
        got = output(stub, constraint=regex("[a-z]{3,9}[.][a-z]*"), **fields)
        assert re.fullmatch("[a-z]{3,9}[.]", got.text)
        assert got.stop_detail.stop_token_id == token
        assert got.complete
        cut = output(stub, constraint=regex("[a-z]{3,9}"), completion_policy=BEST_EFFORT, **fields)
        assert (cut.text, cut.complete) == ("", False)

    def test_one_that_the_vocabulary_lacks_is_refused(self, stub, eos):
        code, _, found = refused(lambda: output(stub, stopping={"stop_token_ids": [eos[1]]}))
        assert code == "INVALID_ARGUMENT"
        assert found["BadRequest"].field_violations[0].field == "stopping.stop_token_ids[0]"


class TestIgnoreEos:
    def test_free_text_goes_on_to_max_tokens_without_a_single_one(self, stub, eos):
        fields = {"sampling": {"temperature": 0, "logit_bias": dict.fromkeys(eos[0], 50.0)}}
        assert output(stub, stopping={"max_tokens": 12}, **fields).text == ""
        response = generate(stub, stopping={"max_tokens": 12, "ignore_eos": True}, **fields)
        got = response.outputs[0]
        assert response.usage.completion_tokens == 12
        assert (got.finish_reason, got.complete) == (LENGTH, False)
        assert not {token.token_id for token in got.tokens} & set(eos[0])

    def test_it_never_breaks_a_constraint(self, stub):
        stopping = {"ignore_eos": True, "max_tokens": 12}
        got = output(stub, constraint=choice("yes", "no"), stopping=stopping)
        assert got.text in ("yes", "no")
        assert got.complete
        got = output(stub, constraint=regex("[a-z ]+"), stopping=stopping)
        assert re.fullmatch("[a-z ]+", got.text)
        assert (got.complete, len(got.tokens)) == (True, 12)


class TestLogitBias:
    def test_it_is_used_and_reported(self, stub):
        first = output(stub, stopping={"max_tokens": 4}).tokens[0].token_id
        sampling = {"temperature": 0, "logit_bias": {first: -100, 198: 0.5}}
        response = generate(stub, sampling=sampling, stopping={"max_tokens": 4})
        assert first not in [token.token_id for token in response.outputs[0].tokens]
        assert dict(response.effective_sampling.logit_bias) == {first: -100, 198: 0.5}

    def test_it_never_gets_past_a_mask(self, stub):
        sampling = {"temperature": 0, "logit_bias": {198: 100}}
        got = output(stub, constraint=choice("yes", "no"), sampling=sampling)
        assert got.text in ("yes", "no")


PROMPTS = {
    "JSON_VALUE": "Write a JSON object with two keys about a cat.",
    "BRACKETS": "Write a Python call of print.",
    "FENCE": "Write a Python function that adds two numbers, in a fenced code block.",
    "LINE": "Write two lines about a cat.",
    "SENTENCE": "Write three sentences about a cat.",
}


def is_unit(name, text):
    if name == "JSON_VALUE":
        start = min(text.find(b) for b in "[{" if b in text)
        return isinstance(json.loads(text[start:]), dict | list)
    if name == "BRACKETS":
        return naive_units.first_end("brackets", text) == len(text)
    if name == "LINE":
        return bool(text.strip()) and "\n" not in text.strip()
    return naive_units.is_complete(name.lower(), text)


@pytest.mark.parametrize("name", PROMPTS)
class TestUnits:
    @pytest.mark.parametrize(("max_tokens", "seed"), [(4, 1), (12, 2), (40, 3)])
    def test_it_is_complete_within_max_tokens(self, stub, name, max_tokens, seed):
        response = generate(
            stub,
            PROMPTS[name],
            sampling={"temperature": 1.0, "seed": seed},
            stopping={"unit": f"STOP_UNIT_{name}", "max_tokens": max_tokens},
        )
        got = response.outputs[0]
        assert got.complete
        assert is_unit(name, got.text), got.text
        assert response.usage.completion_tokens <= max_tokens
        cause = got.stop_detail.WhichOneof("cause")
        if cause == "unit":
            assert got.stop_detail.unit == g.StopUnit.Value(f"STOP_UNIT_{name}")
        assert (got.finish_reason == STOP) == (cause in ("unit", "eos_token_id"))

    def test_a_stream_says_the_same(self, stub, name):
        fields = {
            "sampling": GREEDY,
            "stopping": {"unit": f"STOP_UNIT_{name}", "max_tokens": 25},
        }
        whole = output(stub, PROMPTS[name], **fields)
        events = list(stub.GenerateStream(ask(PROMPTS[name], **fields), timeout=TIMEOUT))
        assert "".join(event.delta.text for event in events) == whole.text
        assert events[-2].finished.stop_detail == whole.stop_detail

    def test_best_effort_is_free_text_that_may_end_early(self, stub, name, eos):
        fields = {
            "stopping": {"unit": f"STOP_UNIT_{name}", "max_tokens": 3},
            "completion_policy": BEST_EFFORT,
        }
        got = output(stub, PROMPTS[name], **fields)
        assert got.complete == (got.stop_detail.WhichOneof("cause") == "unit")
        sampling = {"temperature": 0, "logit_bias": dict.fromkeys(eos[0], 100.0)}
        ended = output(stub, PROMPTS[name], **{**fields, "sampling": sampling})
        assert (ended.text, ended.complete) == ("", False)
        assert ended.stop_detail.eos_token_id in eos[0]

    def test_it_is_not_there_beside_a_constraint(self, stub, name):
        stopping = {"unit": f"STOP_UNIT_{name}"}
        code, _, found = refused(lambda: output(stub, constraint=regex("a"), stopping=stopping))
        assert code == "INVALID_ARGUMENT"
        assert found["BadRequest"].field_violations[0].field == "stopping.unit"


def test_a_unit_that_max_tokens_cannot_hold_is_refused_with_the_number(stub):
    stopping = {"unit": "STOP_UNIT_FENCE", "max_tokens": 1}
    code, reason, found = refused(lambda: output(stub, stopping=stopping))
    assert (code, reason) == ("INVALID_ARGUMENT", "BUDGET_TOO_SMALL")
    stopping["max_tokens"] = int(found["ErrorInfo"].metadata["minOutputTokens"])
    assert is_unit("FENCE", output(stub, stopping=stopping).text)


def test_the_line_break_is_returned_when_asked_for(stub):
    stopping = {"unit": "STOP_UNIT_LINE", "max_tokens": 15}
    line = output(stub, PROMPTS["LINE"], stopping=stopping).text
    stopping["include_stop_in_output"] = True
    assert output(stub, PROMPTS["LINE"], stopping=stopping).text == line + "\n"


def test_min_tokens_never_overrides_a_finished_constraint(stub):
    got = output(stub, constraint=choice("yes", "no"), stopping={"min_tokens": 16})
    assert got.stop_detail.WhichOneof("cause") == "constraint_complete"
    assert (got.finish_reason, got.complete) == (STOP, True)


def test_length_is_said_only_where_max_tokens_changed_the_answer(stub):
    """A budget that only narrows a mask, without changing what is chosen, is not a reason."""
    fields = {"constraint": regex("[a-z]{3,12}"), "sampling": GREEDY}
    free = output(stub, **fields)
    for max_tokens in range(3, 9):
        got = output(stub, stopping={"max_tokens": max_tokens}, **fields)
        cause = got.stop_detail.WhichOneof("cause")
        if cause == "constraint_complete":
            assert (got.finish_reason, got.text) == (STOP, free.text)
        elif cause == "budget_close":
            assert (got.finish_reason, got.text != free.text) == (LENGTH, True)
            assert got.stop_detail.budget_close.steered_tokens
        assert got.complete
