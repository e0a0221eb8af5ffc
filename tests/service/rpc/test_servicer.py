"""The RPCs over a real socket, with a scripted engine behind them."""

import asyncio
import time

import grpc
import pytest

from grammar import Diagnostic, UnsupportedError
from service.engine.types import ServiceFailure
from service.rpc.pb.v1 import constraint_pb2 as c
from service.rpc.pb.v1 import generation_pb2 as g
from service.rpc.pb.v1 import generation_pb2_grpc
from tests.service.rpc.calls import refused, until
from tests.service.rpc.fakes import FakeAutomaton, FakeGrammar, serving

REGEX = c.Constraint(regex="yes")


@pytest.fixture
async def served():
    async with serving() as each:
        yield each


@pytest.fixture
def stub(served):
    return generation_pb2_grpc.GenerationServiceStub(served.channel)


def request(**fields):
    return g.GenerateRequest(**{"prompt": "hi", **fields})


async def test_the_answer_has_text_tokens_usage_timing_and_what_was_used(stub):
    answer = await stub.Generate(
        request(
            request_id="mine",
            constraint=REGEX,
            sampling={"temperature": 0.5, "seed": 7},
            response={"token_ids": True, "timing": True},
        )
    )
    (output,) = answer.outputs
    assert (answer.request_id, answer.model, output.text) == ("mine", "tiny", "yes")
    assert output.complete
    assert output.finish_reason == g.FINISH_REASON_STOP
    assert output.stop_detail.WhichOneof("cause") == "constraint_complete"
    assert [(token.token_id, token.bytes, token.forced) for token in output.tokens] == [
        (121, b"y", False),
        (101, b"e", True),
        (115, b"s", False),
    ]
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 3)
    assert (answer.usage.total_tokens, answer.usage.forced_tokens) == (6, 1)
    assert (answer.usage.drafted_tokens, answer.usage.accepted_draft_tokens) == (4, 2)
    assert answer.timing.mask_us == 5
    used = answer.effective_sampling
    assert (used.temperature, used.seed, used.top_k) == (0.5, 7, 7)
    assert used.penalty_scope == g.PENALTY_SCOPE_FREE_TEXT


async def test_tokens_and_timing_only_where_asked_for(stub):
    answer = await stub.Generate(request())
    assert not answer.outputs[0].tokens
    assert not answer.HasField("timing")


async def test_a_stream_is_started_deltas_finished_summary(stub):
    events = [event async for event in stub.GenerateStream(request(request_id="mine"))]
    kinds = [event.WhichOneof("event") for event in events]
    assert kinds == ["started", "delta", "delta", "delta", "finished", "summary"]
    assert {event.request_id for event in events} == {"mine"}
    assert events[0].started.prompt_tokens == 2
    assert events[0].started.effective_sampling.HasField("seed")
    assert "".join(event.delta.text for event in events) == "yes"
    assert events[4].finished.complete
    assert events[5].summary.usage.completion_tokens == 3


async def test_the_engine_gets_what_was_asked_and_the_automata_already_built(served, stub):
    served.compiler.compiled = FakeGrammar(lexemes={"digits": FakeAutomaton("automaton")})
    await stub.Generate(request(token_ids=g.TokenIds(ids=[1, 2, 3]), constraint=REGEX))
    ((submitted, lexemes),) = served.engine.submitted
    assert submitted.prompt_ids == (1, 2, 3)
    assert submitted.constraint.text == "yes"
    assert submitted.guaranteed
    assert submitted.deadline is None
    assert lexemes == {"digits": "automaton"}


async def test_a_deadline_travels_on_the_monotonic_clock(served, stub):
    await stub.Generate(request(), timeout=30)
    ((submitted, _),) = served.engine.submitted
    assert submitted.deadline - time.monotonic() == pytest.approx(30, abs=10)


async def test_the_constraint_is_described_to_the_model_on_request(served, stub):
    chat = g.ChatInput(
        messages=[g.ChatMessage(role="user", content="?")], describe_constraint=True
    )
    constraint = c.Constraint(choice=c.ChoiceConstraint(choices=["a", "b"]))
    await stub.Generate(request(chat=chat, constraint=constraint))
    ((submitted, _),) = served.engine.submitted
    assert bytes(submitted.prompt_ids) == (
        b"?\n\nAnswer with exactly one of these and nothing else:\n- a\n- b"
    )


WRONG = [
    ("INVALID_ARGUMENT", "INVALID_FIELD", {"prompt": ""}),
    ("INVALID_ARGUMENT", "CONSTRAINT_SYNTAX", {"constraint": c.Constraint(regex="(")}),
    (
        "INVALID_ARGUMENT",
        "BUDGET_TOO_SMALL",
        {"constraint": REGEX, "stopping": {"max_tokens": 2}},
    ),
    ("INVALID_ARGUMENT", "CONTEXT_LENGTH_EXCEEDED", {"prompt": "x" * 256}),
    (
        "INVALID_ARGUMENT",
        "CONTEXT_LENGTH_EXCEEDED",
        {"prompt": "x" * 254, "constraint": REGEX},
    ),
    ("NOT_FOUND", "UNKNOWN_MODEL", {"model": "gpt"}),
    (
        "INVALID_ARGUMENT",
        "INVALID_FIELD",
        {"chat": g.ChatInput(messages=[g.ChatMessage(role="assistant", content="x")])},
    ),
]


@pytest.mark.parametrize(("code", "reason", "fields"), WRONG)
async def test_both_rpcs_refuse_alike(served, stub, code, reason, fields):
    unary = await refused(stub.Generate(request(**fields)))
    streamed = await refused(stub.GenerateStream(request(**fields)).read())
    assert unary == streamed
    assert unary[:2] == (grpc.StatusCode[code], reason)
    assert not served.engine.submitted
    assert served.front.num_requests == 0


async def test_a_budget_too_small_names_the_number_that_suffices(stub):
    call = stub.Generate(request(constraint=REGEX, stopping={"max_tokens": 2}))
    _, _, metadata = await refused(call)
    assert metadata["minOutputTokens"] == "3"


async def test_a_budget_of_exactly_the_minimum_is_served(stub):
    answer = await stub.Generate(request(constraint=REGEX, stopping={"max_tokens": 3}))
    assert answer.outputs[0].complete


async def test_best_effort_takes_any_budget(stub):
    await stub.Generate(
        request(
            constraint=REGEX,
            stopping={"max_tokens": 2},
            completion_policy=g.COMPLETION_POLICY_BEST_EFFORT,
        )
    )


async def test_a_prompt_too_long_says_both_numbers(stub):
    _, _, metadata = await refused(stub.Generate(request(prompt="x" * 270)))
    assert (metadata["promptTokens"], metadata["maxContextTokens"]) == ("270", "256")


async def test_an_unsupported_keyword_is_refused_by_name(served, stub):
    served.compiler.error = UnsupportedError("not enforced", "/not", "not")
    code, reason, metadata = await refused(stub.Generate(request(constraint=REGEX)))
    assert (code, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "UNSUPPORTED_KEYWORD")
    assert metadata == {"keyword": "not", "location": "/not"}


async def test_a_compile_that_takes_too_long_is_not_called_invalid(served, stub):
    served.compiler.error = TimeoutError()
    code, reason, _ = await refused(stub.Generate(request(constraint=REGEX)))
    assert (code, reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "COMPILE_TIMEOUT")


async def test_a_full_queue_refuses_at_once_and_serves_again_after(served, stub):
    served.engine.gate.clear()
    running = [asyncio.ensure_future(_text(stub, f"r{i}")) for i in range(2)]
    await until(lambda: served.front.num_requests == 2)
    code, reason, _ = await refused(stub.Generate(request()))
    assert (code, reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL")
    served.engine.gate.set()
    assert await asyncio.gather(*running) == ["yes", "yes"]
    assert await _text(stub, "r3") == "yes"


async def test_an_id_in_use_is_refused_and_free_again_after(served, stub):
    served.engine.gate.clear()
    running = asyncio.ensure_future(_text(stub, "same"))
    await until(lambda: served.front.num_requests == 1)
    code, reason, _ = await refused(stub.Generate(request(request_id="same")))
    assert (code, reason) == (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_IN_USE")
    assert served.front.num_requests == 1
    served.engine.gate.set()
    await running
    for _ in range(20):
        assert await _text(stub, "same") == "yes"


async def test_a_cancelled_unary_call_frees_its_place_and_row(served, stub):
    served.engine.gate.clear()
    call = stub.Generate(request(request_id="gone"))
    await _sent(call, served)
    call.cancel()
    await until(lambda: served.engine.cancelled == ["gone"])
    assert served.front.num_requests == 0


async def test_a_cancelled_stream_frees_its_place_and_row(served, stub):
    served.engine.gate.clear()
    call = stub.GenerateStream(request(request_id="gone"))
    assert (await call.read()).WhichOneof("event") == "started"
    call.cancel()
    await until(lambda: served.engine.cancelled == ["gone"])
    assert served.front.num_requests == 0


async def test_a_deadline_frees_the_place_and_row(served, stub):
    served.engine.gate.clear()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Generate(request(request_id="late"), timeout=0.2)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: served.engine.cancelled == ["late"])


async def test_a_failure_of_the_engine_ends_the_stream_with_its_status(served, stub):
    served.engine.failure = ServiceFailure(
        code="UNAVAILABLE", reason="ENGINE_GONE", message="the engine has gone"
    )
    call = stub.GenerateStream(request())
    events = [(await call.read()).WhichOneof("event") for _ in range(4)]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert events == ["started", "delta", "delta", "delta"]


async def test_a_fault_of_ours_has_an_id_and_tells_nothing_else(served, stub, caplog):
    served.engine.failure = RuntimeError("secret of the house")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Generate(request())
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in str(caught.value)
    incident = caught.value.details().rpartition(" ")[2]
    assert f"incident {incident}" in caplog.text
    assert "secret of the house" in caplog.text


async def test_a_message_over_the_limit_is_refused(stub):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Generate(request(prompt="x" * 5_000))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "4096" in caught.value.details()


async def test_bytes_that_are_no_request_are_refused(served):
    path = "/syntaxd.v1.GenerationService/Generate"
    not_utf8 = b"\x1a\x01\xff"  # prompt = one byte that is not UTF-8
    unary = await refused(served.channel.unary_unary(path)(not_utf8))
    streamed = await refused(served.channel.unary_stream(f"{path}Stream")(not_utf8).read())
    assert unary == streamed
    assert unary[:2] == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED_MESSAGE")


async def test_a_draining_server_refuses_and_lets_running_ones_end(served, stub):
    served.engine.gate.clear()
    running = asyncio.ensure_future(_text(stub, "old"))
    await until(lambda: served.front.num_requests == 1)
    served.server.draining.begin()
    code, reason, _ = await refused(stub.Generate(request()))
    assert (code, reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
    served.engine.gate.set()
    assert await running == "yes"


async def _text(stub, request_id):
    return (await stub.Generate(request(request_id=request_id))).outputs[0].text


async def _sent(call, served):
    task = asyncio.ensure_future(call.code())
    await until(lambda: served.engine.submitted)
    task.cancel()


async def test_remarks_about_the_constraint_are_in_the_answer_and_the_first_event(served, stub):
    served.compiler.compiled = FakeGrammar(
        diagnostics=(
            Diagnostic("OBJECT_CLOSED", "/items", "only the listed keys"),
            Diagnostic("FORMAT_UNKNOWN", "/format", "unknown"),
        )
    )
    answer = await stub.Generate(request(constraint=REGEX))
    assert [(each.severity, each.code, each.location) for each in answer.diagnostics] == [
        (c.SEVERITY_INFO, "OBJECT_CLOSED", "/items"),
        (c.SEVERITY_WARNING, "FORMAT_UNKNOWN", "/format"),
    ]
    first = await stub.GenerateStream(request(constraint=REGEX)).read()
    assert first.started.diagnostics == answer.diagnostics
