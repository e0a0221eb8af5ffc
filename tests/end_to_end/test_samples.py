"""Several outputs of one request, over the socket. The server has two rows."""

from __future__ import annotations

import pytest

from service.rpc.pb.v1 import generation_pb2 as g
from tests.end_to_end.calls import TIMEOUT, ask, refused, regex


def several(n, seed=11, **fields):
    sampling = g.SamplingParams(n=n, temperature=1, seed=seed)
    return ask("Name a colour.", sampling=sampling, constraint=regex("[a-z]{3,12}"), **fields)


def test_each_is_whole_and_the_usage_is_of_all(stub):
    answer = stub.Generate(several(5, response=g.ResponseOptions(token_ids=True)), timeout=TIMEOUT)
    assert [output.index for output in answer.outputs] == list(range(5))
    assert all(output.complete and output.text.islower() for output in answer.outputs)
    assert len({output.text for output in answer.outputs}) > 1
    counted = sum(len(output.tokens) for output in answer.outputs)
    assert answer.usage.completion_tokens == counted
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + counted
    assert answer.effective_sampling.n == 5
    alone = stub.Generate(several(1), timeout=TIMEOUT)
    assert alone.usage.prompt_tokens == answer.usage.prompt_tokens


def test_a_stream_has_an_end_for_each_and_one_summary(stub):
    events = list(stub.GenerateStream(several(3), timeout=TIMEOUT))
    kinds = [event.WhichOneof("event") for event in events]
    assert kinds[0] == "started"
    assert kinds[-1] == "summary"
    assert kinds.count("finished") == 3
    assert kinds.count("started") == kinds.count("summary") == 1
    texts = ["", "", ""]
    open_ = {0, 1, 2}
    for event in events:
        if event.HasField("delta"):
            assert event.delta.index in open_
            texts[event.delta.index] += event.delta.text
        if event.HasField("finished"):
            open_.remove(event.finished.index)
    assert all(3 <= len(text) <= 12 for text in texts)
    assert events[-1].summary.usage.completion_tokens > 0


@pytest.mark.parametrize("n", [0, 65])
def test_how_many_there_may_be(stub, n):
    code, reason, found = refused(lambda: stub.Generate(several(n), timeout=TIMEOUT))
    assert (code, reason) == ("INVALID_ARGUMENT", "INVALID_FIELD")
    assert found["BadRequest"].field_violations[0].field == "sampling.n"


def test_log_probabilities_of_a_constrained_answer(stub):
    request = ask(
        "Is water wet?",
        constraint=regex("well, (yes|no)"),
        sampling=g.SamplingParams(temperature=0),
        response=g.ResponseOptions(logprobs=3),
    )
    (raw,) = stub.Generate(request, timeout=TIMEOUT).outputs
    request.response.logprobs_mode = g.LOGPROBS_MODE_MASKED
    (masked,) = stub.Generate(request, timeout=TIMEOUT).outputs
    assert raw.text == masked.text
    assert b"".join(token.bytes for token in raw.tokens).decode() == raw.text
    for model, over in zip(raw.tokens, masked.tokens, strict=True):
        assert model.token_id == over.token_id
        assert model.logprob <= over.logprob + 1e-4 <= 2e-4
        assert model.rank >= over.rank >= 1
        assert len(model.candidates) == 3
        best = [candidate.logprob for candidate in model.candidates]
        assert best == sorted(best, reverse=True)
        if over.forced:
            assert (over.logprob, over.rank) == (0, 1)
    assert any(token.forced for token in raw.tokens)
    events = list(stub.GenerateStream(request, timeout=TIMEOUT))
    streamed = [token for event in events for token in event.delta.tokens]
    assert streamed == list(masked.tokens)


def test_log_probabilities_of_a_prompt(stub):
    ids = [504, 3014, 282, 4649, 314, 7042]
    request = ask(
        token_ids=g.TokenIds(ids=ids),
        stopping=g.StoppingOptions(max_tokens=1),
        response=g.ResponseOptions(prompt_logprobs=2),
    )
    answer = stub.Generate(request, timeout=TIMEOUT)
    assert [token.token_id for token in answer.prompt_tokens] == ids
    first, *others = answer.prompt_tokens
    assert not first.HasField("logprob")
    for token in others:
        assert token.logprob < 0
        assert len(token.candidates) == 2
        assert (token.rank <= 2) == (token.token_id in [c.token_id for c in token.candidates])
    *_, end = stub.GenerateStream(request, timeout=TIMEOUT)
    assert list(end.summary.prompt_tokens) == list(answer.prompt_tokens)


def test_a_refusal_is_one(stub):
    request = several(3, stopping=g.StoppingOptions(max_tokens=1))
    request.constraint.regex = "(abc ){40}"
    code, reason, _ = refused(lambda: stub.Generate(request, timeout=TIMEOUT))
    assert (code, reason) == ("INVALID_ARGUMENT", "BUDGET_TOO_SMALL")
    assert stub.Generate(several(2), timeout=TIMEOUT).outputs[1].complete
