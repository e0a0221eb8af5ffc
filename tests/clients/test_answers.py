"""What comes back for each answer of the server."""

from __future__ import annotations

import asyncio
import time
from dataclasses import fields

import pytest

import syntaxd_client
from syntaxd_client import answers
from syntaxd_client.pb.v1 import constraint_pb2 as c
from syntaxd_client.pb.v1 import generation_pb2 as g
from syntaxd_client.pb.v1 import model_pb2 as m
from tests.clients.fake_server import running
from tests.clients.said import ANSWER, EVENTS, RESPONSE, Cat


@pytest.fixture(scope="module")
def server():
    with running(Generate=RESPONSE, GenerateStream=EVENTS) as state:
        yield state


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (answers.Diagnostic, c.Diagnostic),
        (answers.Usage, g.Usage),
        (answers.Timing, g.Timing),
        (answers.Token, g.TokenInfo),
        (answers.Candidate, g.Candidate),
        (answers.KeywordReport, c.KeywordReport),
        (answers.CompiledConstraint, c.CompiledConstraint),
        (answers.Check, c.CheckTextResponse),
        (answers.Tokens, m.TokenizeResponse),
        (answers.Detokenized, m.DetokenizeResponse),
        (answers.Limits, m.Limits),
        (answers.Capabilities, m.Capabilities),
        (answers.Model, m.Model),
    ],
    ids=lambda each: each.__name__,
)
def test_records_have_the_fields_of_the_contract(record, message):
    assert {each.name for each in fields(record)} == set(message.DESCRIPTOR.fields_by_name)


def test_an_answer_has_all_that_the_contract_says():
    known = {each.name for each in fields(answers.Answer)}
    known |= {"stop_detail", "outputs", "index"}  # under "stop"; one output an answer
    for message in (g.Output, g.GenerateResponse):
        assert set(message.DESCRIPTOR.fields_by_name) <= known


def test_an_answer_is_what_the_server_said(server, open_client):
    assert open_client(server.address).generate("Hi.") == ANSWER
    assert ANSWER.json() == {"name": "Tom"}


def test_a_stream_gives_pieces_and_then_the_same_answer(server, open_client):
    stream = open_client(server.address).stream("Hi.")
    with pytest.raises(syntaxd_client.AnswerError):
        stream.answer  # noqa: B018
    assert list(stream) == ['{"name":', '"Tom"}']
    assert stream.result() == ANSWER == stream.answer


def test_the_result_of_a_stream_reads_the_rest_of_it(server, open_client):
    stream = open_client(server.address).stream_extract(Cat, "Hi.")
    assert next(stream) == '{"name":'
    assert stream.result() == Cat("Tom")
    assert list(stream) == []


def test_what_it_has_come_to_is_there_while_it_comes(server, open_client):
    client = open_client(server.address)
    stream = client.stream_extract(Cat, "Hi.")
    assert list(stream.partials()) == [{}, {"name": "Tom"}]
    assert stream.result() == Cat("Tom")
    assert list(stream.partials()) == []


def test_what_was_read_before_anybody_asked_is_in_it(server, open_client):
    client = open_client(server.address)
    stream = client.stream("Hi.")
    assert next(stream) == '{"name":'
    assert list(stream.partials()) == [{"name": "Tom"}]
    stream = client.stream("Hi.")
    assert stream.result() == ANSWER
    assert list(stream.partials()) == [{"name": "Tom"}]


def delta(text):
    return g.GenerateStreamResponse(request_id="r", delta=g.TextDelta(text=text))


def test_a_number_that_is_all_there_is_comes_at_the_end(open_client):
    with running(GenerateStream=[EVENTS[0], delta("1"), delta("2"), *EVENTS[-2:]]) as server:
        assert list(open_client(server.address).stream("Hi.").partials()) == [12]


def test_a_text_that_is_no_json_has_no_partial_values(open_client):
    with running(GenerateStream=[EVENTS[0], delta("[1, Hello]"), *EVENTS[-2:]]) as server:
        partials = open_client(server.address).stream("Hi.").partials()
        with pytest.raises(syntaxd_client.AnswerError, match="from character 4 on") as caught:
            next(partials)
        assert caught.value.text == "[1, Hello]"


def test_a_stream_that_ends_early_has_no_result(open_client):
    with running(GenerateStream=EVENTS[:-2]) as server:
        stream = open_client(server.address).stream("Hi.")
        with pytest.raises(syntaxd_client.AnswerError, match="ended before") as caught:
            stream.result()
        assert caught.value.text == '{"name":"Tom"}'


@pytest.mark.parametrize(
    ("detail", "stop"),
    [
        (g.StopDetail(constraint_complete={}), syntaxd_client.Stop("constraint_complete")),
        (g.StopDetail(eos_token_id=2), syntaxd_client.Stop("eos_token_id", 2)),
        (g.StopDetail(stop_token_id=0), syntaxd_client.Stop("stop_token_id", 0)),
        (g.StopDetail(stop_string="."), syntaxd_client.Stop("stop_string", ".")),
        (g.StopDetail(stop_regex="x"), syntaxd_client.Stop("stop_regex", "x")),
        (g.StopDetail(unit=g.STOP_UNIT_LINE), syntaxd_client.Stop("unit", "line")),
        (g.StopDetail(budget_close={}), syntaxd_client.Stop("budget_close", 0)),
        (g.StopDetail(), None),
    ],
    ids=str,
)
def test_what_ended_an_output_is_a_cause_and_what_it_says(detail, stop):
    assert answers.stop(detail) == stop


def test_every_cause_has_been_tried():
    causes = g.StopDetail.DESCRIPTOR.oneofs_by_name["cause"].fields
    (mark,) = test_what_ended_an_output_is_a_cause_and_what_it_says.pytestmark
    tried = {stop.cause for _, stop in mark.args[1] if stop}
    assert tried == {each.name for each in causes}


def test_constraints_and_tokens(open_client):
    compiled = c.CompiledConstraint(
        constraint_id="id",
        min_output_tokens=1,
        example="0",
        keywords=[
            c.KeywordReport(
                location="/type", keyword="type", treatment=c.KEYWORD_TREATMENT_ENFORCED
            )
        ],
    )
    checked = c.CheckTextResponse(
        verdict=c.VERDICT_REJECTED, byte_offset=2, expected=["a digit"], spelling_only=True
    )
    with running(
        CompileConstraint=c.CompileConstraintResponse(constraint=compiled),
        GetConstraint=c.GetConstraintResponse(constraint=compiled),
        DeleteConstraint=c.DeleteConstraintResponse(),
        CheckText=checked,
        Tokenize=m.TokenizeResponse(token_ids=[1, 2], token_bytes=[b"a", b"\xff"]),
        Detokenize=m.DetokenizeResponse(text="a\ufffd", raw_bytes=b"a\xff"),
    ) as server:
        client = open_client(server.address)
        got = client.compile(schema=int, ascii_only=False, pin=True, model="tiny")
        assert server.requests[-1] == c.CompileConstraintRequest(
            constraint=c.Constraint(
                json_schema='{"type": "integer"}', json_format=c.JsonFormat(ascii_only=False)
            ),
            pin=True,
            model="tiny",
        )
        assert (got.constraint_id, got.max_output_tokens, got.example) == ("id", None, "0")
        assert got.keywords == (syntaxd_client.KeywordReport("/type", "type", "enforced", ""),)
        assert client.get_constraint("id") == got
        assert client.delete_constraint("id") is None
        assert server.requests[-1] == c.DeleteConstraintRequest(constraint_id="id")
        assert client.check("0x", regex="[0-9]+") == syntaxd_client.Check(
            "rejected", 2, ("a digit",), None, spelling_only=True
        )
        assert server.requests[-1] == c.CheckTextRequest(
            text="0x", constraint=c.Constraint(regex="[0-9]+")
        )
        assert client.tokenize("ab", token_bytes=True).token_ids == (1, 2)
        assert server.requests[-1] == m.TokenizeRequest(text="ab", token_bytes=True)
        assert client.detokenize([1, 2]) == syntaxd_client.Detokenized("a\ufffd", b"a\xff")
        assert server.requests[-1] == m.DetokenizeRequest(token_ids=[1, 2])
        with pytest.raises(TypeError, match="one of schema"):
            client.compile()


def test_several_outputs_of_an_answer_and_of_a_stream(open_client):
    texts = ["yes", "no", "maybe"]
    response = g.GenerateResponse(
        outputs=[g.Output(index=i, text=text, complete=True) for i, text in enumerate(texts)]
    )
    events = [g.GenerateStreamResponse(started=g.Started(model="tiny"))]
    for place in range(5):  # a letter of each in turn, the last one first
        for i in reversed(range(3)):
            delta = g.TextDelta(index=i, text=texts[i][place : place + 1])
            events.append(g.GenerateStreamResponse(delta=delta))
    events += [
        g.GenerateStreamResponse(finished=g.Finished(index=i, complete=True)) for i in (1, 0, 2)
    ]
    events.append(g.GenerateStreamResponse(summary=g.Summary()))
    with running(Generate=response, GenerateStream=events) as server:
        client = open_client(server.address)
        got = client.generate("Well?", n=3)
        assert server.requests[-1].sampling.n == 3
        stream = client.stream("Well?", n=3)
        assert "".join(stream) == "yes"
        for answer in (got, stream.result()):
            assert [each.text for each in (answer, *answer.others)] == texts


def test_models_of_all_pages(open_client):
    def page(request: m.ListModelsRequest) -> m.ListModelsResponse:
        names = {"": ("a", "2"), "2": ("b", "")}
        name, token = names[request.page_token]
        return m.ListModelsResponse(models=[m.Model(name=name)], next_page_token=token)

    model = m.Model(name="a", capabilities=m.Capabilities(limits=m.Limits(max_choices=3)))
    with running(ListModels=page, GetModel=m.GetModelResponse(model=model)) as server:
        client = open_client(server.address)
        assert [each.name for each in client.list_models()] == ["a", "b"]
        assert client.get_model().capabilities.limits.max_choices == 3
        assert server.requests[-1] == m.GetModelRequest()


@pytest.fixture
def slow_server():
    """Says the first words and then nothing for a while."""

    def events(request):
        yield from EVENTS[:2]
        time.sleep(1)
        yield from EVENTS[2:]

    with running(GenerateStream=events) as state:
        yield state


def test_reading_on_after_a_cancel_is_an_error(slow_server, open_client):
    stream = open_client(slow_server.address).stream("Hi.")
    assert next(stream) == '{"name":'
    stream.cancel()
    with pytest.raises(syntaxd_client.CallCancelledError):
        stream.result()


def test_leaving_a_stream_cancels_it(slow_server):
    with syntaxd_client.Client(slow_server.address) as client:
        with client.stream("Hi.") as stream:
            next(stream)
        with pytest.raises(syntaxd_client.CallCancelledError):
            stream.result()

    async def left() -> None:
        async with syntaxd_client.AsyncClient(slow_server.address) as client:
            async with client.stream("Hi.") as stream:
                await anext(stream)
            with pytest.raises(syntaxd_client.CallCancelledError):
                await stream.result()

    asyncio.run(left())
