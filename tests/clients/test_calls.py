"""What goes over the wire for each option, and what comes back for each answer and error."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, fields
from pathlib import Path

import grpc
import pytest
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2 as details

import syntaxd_client
from syntaxd_client import answers, options
from syntaxd_client.pb.v1 import constraint_pb2 as c
from syntaxd_client.pb.v1 import generation_pb2 as g
from syntaxd_client.pb.v1 import model_pb2 as m
from tests.clients.fake_server import refusal, running


@dataclass
class Cat:
    name: str


RESPONSE = g.GenerateResponse(
    request_id="r",
    model="tiny",
    outputs=[
        g.Output(
            text='{"name":"Tom"}',
            finish_reason=g.FINISH_REASON_LENGTH,
            stop_detail=g.StopDetail(budget_close=g.BudgetClose(steered_tokens=2)),
            complete=True,
            tokens=[g.TokenInfo(token_id=7, bytes=b"\xff", forced=True)],
        )
    ],
    usage=g.Usage(prompt_tokens=3, completion_tokens=1, total_tokens=4),
    diagnostics=[
        c.Diagnostic(severity=c.SEVERITY_WARNING, code="OBJECT_CLOSED", location="", message="m")
    ],
    effective_sampling=g.SamplingParams(
        temperature=0, seed=2**64 - 1, penalty_scope=g.PENALTY_SCOPE_FREE_TEXT, logit_bias={5: 1}
    ),
)
EVENTS = [
    g.GenerateStreamResponse(
        request_id="r",
        started=g.Started(
            model="tiny",
            prompt_tokens=3,
            diagnostics=RESPONSE.diagnostics,
            effective_sampling=RESPONSE.effective_sampling,
        ),
    ),
    g.GenerateStreamResponse(request_id="r", delta=g.TextDelta(text='{"name":')),
    g.GenerateStreamResponse(
        request_id="r", delta=g.TextDelta(text="", tokens=RESPONSE.outputs[0].tokens)
    ),
    g.GenerateStreamResponse(request_id="r", delta=g.TextDelta(text='"Tom"}')),
    g.GenerateStreamResponse(
        request_id="r",
        finished=g.Finished(
            finish_reason=g.FINISH_REASON_LENGTH,
            stop_detail=RESPONSE.outputs[0].stop_detail,
            complete=True,
        ),
    ),
    g.GenerateStreamResponse(request_id="r", summary=g.Summary(usage=RESPONSE.usage)),
]
ANSWER = syntaxd_client.Answer(
    text='{"name":"Tom"}',
    complete=True,
    finish_reason="length",
    stop=syntaxd_client.Stop("budget_close", 2),
    request_id="r",
    model="tiny",
    usage=syntaxd_client.Usage(3, 1, 4, None),
    timing=None,
    diagnostics=(syntaxd_client.Diagnostic("warning", "OBJECT_CLOSED", "", "m"),),
    effective_sampling={
        "temperature": 0.0,
        "seed": 2**64 - 1,
        "penalty_scope": "free_text",
        "logit_bias": {5: 1.0},
    },
    tokens=(syntaxd_client.Token(7, b"\xff", forced=True),),
)


@pytest.fixture(scope="module")
def server():
    with running(Generate=RESPONSE, GenerateStream=EVENTS) as state:
        yield state


@pytest.fixture
def sent(server, open_client):
    """Calls ``generate`` and gives the request that arrived."""
    client = open_client(server.address)

    def send(prompt="Hi.", **given):
        client.generate(prompt, **given)
        return server.requests[-1]

    return send


USER = g.ChatInput(messages=[g.ChatMessage(role="user", content="Hi.")])


def test_nothing_is_in_the_request_but_what_was_said(sent):
    assert sent() == g.GenerateRequest(chat=USER)
    assert sent(temperature=None, max_tokens=None, stop=None) == g.GenerateRequest(chat=USER)
    assert sent(temperature=0).sampling.HasField("temperature")


@pytest.mark.parametrize(
    ("prompt", "given", "request_"),
    [
        ("Hi.", {"raw": True}, g.GenerateRequest(prompt="Hi.")),
        ([1, 2], {}, g.GenerateRequest(token_ids=g.TokenIds(ids=[1, 2]))),
        ([{"role": "user", "content": "Hi."}], {}, g.GenerateRequest(chat=USER)),
        ([], {}, g.GenerateRequest(chat=g.ChatInput())),  # for the server to refuse
    ],
    ids=["text", "tokens", "messages", "none"],
)
def test_a_prompt_is_a_message_or_messages_or_tokens_or_text(sent, prompt, given, request_):
    assert sent(prompt, **given) == request_


OPTIONS = {
    "model": "tiny",
    "request_id": "id",
    "completion_policy": "best_effort",
    "schema": {"type": "string"},
    "whitespace": "single_space",
    "max_whitespace_run": 3,
    "property_order": "any",
    "additional_properties_default": "allow",
    "ascii_only": True,
    "formats": "annotate",
    "temperature": 0.5,
    "top_p": 0.25,
    "top_k": 4,
    "min_p": 0.125,
    "frequency_penalty": -1,
    "presence_penalty": 1,
    "repetition_penalty": 2,
    "seed": 2**64 - 1,
    "logit_bias": {3: -1.5},
    "penalty_scope": "all",
    "penalize_prompt": False,
    "max_tokens": 9,
    "min_tokens": 0,
    "stop": ["a", "b"],
    "stop_token_ids": [1],
    "stop_regex": "x+",
    "unit": "sentence",
    "ignore_eos": True,
    "include_stop_in_output": False,
    "token_ids": True,
    "timing": True,
    "stream_interval": 2,
    "describe_constraint": True,
}


def test_every_option_goes_to_its_field(sent):
    assert sent(**OPTIONS) == g.GenerateRequest(
        model="tiny",
        request_id="id",
        chat=g.ChatInput(messages=USER.messages, describe_constraint=True),
        completion_policy=g.COMPLETION_POLICY_BEST_EFFORT,
        constraint=c.Constraint(
            json_schema='{"type": "string"}',
            json_format=c.JsonFormat(
                whitespace=c.WHITESPACE_SINGLE_SPACE,
                max_whitespace_run=3,
                property_order=c.PROPERTY_ORDER_ANY,
                additional_properties_default=c.ADDITIONAL_PROPERTIES_DEFAULT_ALLOW,
                ascii_only=True,
                formats=c.FORMATS_ANNOTATE,
            ),
        ),
        sampling=g.SamplingParams(
            temperature=0.5,
            top_p=0.25,
            top_k=4,
            min_p=0.125,
            frequency_penalty=-1,
            presence_penalty=1,
            repetition_penalty=2,
            seed=2**64 - 1,
            logit_bias={3: -1.5},
            penalty_scope=g.PENALTY_SCOPE_ALL,
            penalize_prompt=False,
        ),
        stopping=g.StoppingOptions(
            max_tokens=9,
            min_tokens=0,
            stop=["a", "b"],
            stop_token_ids=[1],
            stop_regex=["x+"],
            unit=g.STOP_UNIT_SENTENCE,
            ignore_eos=True,
            include_stop_in_output=False,
        ),
        response=g.ResponseOptions(token_ids=True, timing=True, stream_interval=2),
    )


def test_the_test_of_every_option_knows_them_all():
    beside = {"timeout", "metadata", "raw", "regex", "choice", "constraint_id"}
    assert OPTIONS.keys() | beside == options.GenerateOptions.__optional_keys__


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (options.SamplingOptions, g.SamplingParams),
        (options.StoppingOptions, g.StoppingOptions),
        (options.ResponseOptions, g.ResponseOptions),
        (options.JsonFormatOptions, c.JsonFormat),
    ],
    ids=lambda each: each.__name__,
)
def test_the_options_are_the_fields_of_the_contract(names, message):
    assert set(names.__optional_keys__ - {"timeout"}) == set(message.DESCRIPTOR.fields_by_name)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (answers.Diagnostic, c.Diagnostic),
        (answers.Usage, g.Usage),
        (answers.Timing, g.Timing),
        (answers.Token, g.TokenInfo),
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


@pytest.mark.parametrize(
    ("given", "constraint"),
    [
        ({"regex": "a+"}, c.Constraint(regex="a+")),
        ({"regex": ""}, c.Constraint(regex="")),
        ({"constraint_id": "x"}, c.Constraint(constraint_id="x")),
        (
            {"choice": ("a", "b")},
            c.Constraint(choice=c.ChoiceConstraint(choices=["a", "b"])),
        ),
        ({"choice": []}, c.Constraint(choice=c.ChoiceConstraint())),
        ({"schema": ' {"a": 1.0}'}, c.Constraint(json_schema=' {"a": 1.0}')),
        ({"schema": False}, c.Constraint(json_schema="false")),
        ({"schema": bool}, c.Constraint(json_schema='{"type": "boolean"}')),
    ],
    ids=str,
)
def test_a_constraint_is_of_one_kind(sent, given, constraint):
    assert sent(**given).constraint == constraint


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_token": 1}, "there is no option 'max_token'"),
        ({"regex": "a", "choice": ["a"]}, "one of schema, regex, choice, constraint_id, not 2"),
        ({"choice": "yes"}, "a list of texts"),
        ({"regex": "a", "whitespace": "compact"}, "whitespace is only for a JSON Schema"),
        ({"ascii_only": True}, "ascii_only is only for a JSON Schema"),
        ({"prompt": [1], "raw": True}, "raw"),
        ({"raw": True, "describe_constraint": True}, "describe_constraint"),
        ({"prompt": [{"role": "user"}]}, r"messages\[0\] is not a mapping"),
        ({"prompt": ["Hi."]}, r"messages\[0\] is not a mapping"),
        ({"temperature": "hot"}, "sampling.temperature: "),
        ({"stop": [1]}, "stopping.stop: "),
    ],
    ids=str,
)
def test_options_that_are_no_options_are_type_errors(sent, given, message):
    with pytest.raises(TypeError, match=message):
        sent(**given)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"max_tokens": -1}, "stopping.max_tokens"),
        ({"seed": 2**64}, "sampling.seed"),
        ({"whitespace": "none", "schema": {}}, "constraint.json_format.whitespace"),
        ({"completion_policy": "yes"}, "completion_policy"),
        ({"regex": "\ud800"}, "constraint.regex"),
        ({"prompt": "\ud800"}, "chat.messages[0].content"),
        ({"stop": "\ud800"}, "stopping.stop"),
    ],
    ids=str,
)
def test_a_value_that_the_wire_cannot_carry_is_named_by_its_field(sent, given, field):
    with pytest.raises(syntaxd_client.InvalidRequestError) as caught:
        sent(**given)
    assert caught.value.field == field
    assert caught.value.reason == "INVALID_FIELD"
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT


def test_extract_tells_the_model_the_schema_unless_told_not_to(server, open_client):
    client = open_client(server.address)
    for prompt, given, told in [
        ("Hi.", {}, True),
        ("Hi.", {"describe_constraint": False}, False),
        ("Hi.", {"raw": True}, None),
        ([1], {}, None),
    ]:
        assert client.extract(Cat, prompt, **given) == Cat("Tom")
        request = server.requests[-1]
        assert '"name"' in request.constraint.json_schema
        described = request.chat.describe_constraint if request.HasField("chat") else None
        assert described is told


def test_extract_takes_no_other_constraint(server, open_client):
    with pytest.raises(TypeError, match="regex"):
        open_client(server.address).extract(Cat, "Hi.", regex="a")


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


def test_timeout_and_metadata_go_beside_the_request(server, open_client):
    client = open_client(server.address, timeout=50, metadata=[("x-tenant", "a")])
    client.generate("Hi.")
    assert server.metadata[-1]["x-tenant"] == "a"
    assert 40 < server.seconds_left[-1] < 51
    client.generate("Hi.", timeout=20, metadata=[("x-trace", "b")])
    assert server.metadata[-1]["x-tenant"] == "a"
    assert server.metadata[-1]["x-trace"] == "b"
    assert 10 < server.seconds_left[-1] < 21
    list(client.stream("Hi.", timeout=30))
    assert 21 < server.seconds_left[-1] < 31


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


def info(reason: str, **metadata: str) -> details.ErrorInfo:
    return details.ErrorInfo(reason=reason, domain="syntaxd", metadata=metadata)


def bad(field: str, description: str) -> details.BadRequest:
    return details.BadRequest(
        field_violations=[details.BadRequest.FieldViolation(field=field, description=description)]
    )


S = grpc.StatusCode
ERRORS = [
    (S.INVALID_ARGUMENT, "INVALID_FIELD", syntaxd_client.InvalidRequestError),
    (S.INVALID_ARGUMENT, "CONSTRAINT_SYNTAX", syntaxd_client.ConstraintError),
    (S.INVALID_ARGUMENT, "UNSUPPORTED_KEYWORD", syntaxd_client.ConstraintError),
    (S.INVALID_ARGUMENT, "CONSTRAINT_UNSATISFIABLE", syntaxd_client.ConstraintError),
    (S.INVALID_ARGUMENT, "BUDGET_TOO_SMALL", syntaxd_client.BudgetTooSmallError),
    (S.INVALID_ARGUMENT, "NEW_REASON", syntaxd_client.InvalidRequestError),
    (S.NOT_FOUND, "UNKNOWN_MODEL", syntaxd_client.NotFoundError),
    (S.ALREADY_EXISTS, "REQUEST_ID_IN_USE", syntaxd_client.AlreadyExistsError),
    (S.RESOURCE_EXHAUSTED, "QUEUE_FULL", syntaxd_client.ResourceExhaustedError),
    (S.UNAVAILABLE, "DRAINING", syntaxd_client.UnavailableError),
    (S.DEADLINE_EXCEEDED, "", syntaxd_client.DeadlineExceededError),
    (S.CANCELLED, "", syntaxd_client.CallCancelledError),
    (S.INTERNAL, "INTERNAL", syntaxd_client.ServerError),
    (S.UNIMPLEMENTED, "", syntaxd_client.ServerError),
]


@pytest.mark.parametrize("method", ["generate", "stream"])
@pytest.mark.parametrize(("code", "reason", "kind"), ERRORS, ids=lambda each: str(each))
def test_every_status_is_an_exception_of_its_own(open_client, method, code, reason, kind):
    said = refusal(code, "so it is", *([info(reason)] if reason else []))
    answers_ = {"Generate": said, "GenerateStream": [EVENTS[0], EVENTS[1], said]}
    with running(**answers_) as server:
        client = open_client(server.address)
        if method == "generate":
            with pytest.raises(kind) as caught:
                client.generate("Hi.")
        else:
            stream = client.stream("Hi.")
            assert next(stream) == '{"name":'
            with pytest.raises(kind) as caught:
                stream.result()
    error = caught.value
    assert type(error) is kind
    assert (error.code, error.reason, error.message) == (code, reason, "so it is")
    assert isinstance(error.__cause__, grpc.RpcError)
    assert (error.pointer, error.field, error.retry_after) == (None, None, None)
    assert str(error) == f"{reason or code.name}: so it is"


def test_an_error_brings_all_its_details(open_client):
    said = refusal(
        S.INVALID_ARGUMENT,
        "m",
        info("UNSUPPORTED_KEYWORD", location="/not", keyword="not"),
        bad("constraint.json_schema", "d"),
        details.QuotaFailure(),  # which we have no use for
        details.RetryInfo(retry_delay=duration_pb2.Duration(seconds=1, nanos=500_000_000)),
    )
    with running(Generate=said) as server, pytest.raises(syntaxd_client.ConstraintError) as caught:
        open_client(server.address).generate("Hi.")
    error = caught.value
    assert error.pointer == "/not"
    assert error.metadata == {"location": "/not", "keyword": "not"}
    assert error.field == "constraint.json_schema"
    assert error.violations == (syntaxd_client.FieldViolation("constraint.json_schema", "d"),)
    assert error.retry_after == 1.5


def test_a_budget_too_small_says_which_one_suffices(open_client):
    said = refusal(S.INVALID_ARGUMENT, "m", info("BUDGET_TOO_SMALL", minOutputTokens="12"))
    with (
        running(Generate=said) as server,
        pytest.raises(syntaxd_client.BudgetTooSmallError) as caught,
    ):
        open_client(server.address).generate("Hi.")
    assert caught.value.min_output_tokens == 12


def test_no_server_is_unavailable(open_client):
    with running() as server:
        address = server.address
    with pytest.raises(syntaxd_client.UnavailableError) as caught:
        open_client(address).generate("Hi.")
    assert caught.value.reason == ""


def test_details_that_are_no_details_do_no_harm(open_client):
    said = refusal(S.INTERNAL, "m")
    said.trailers = (("grpc-status-details-bin", b"\xff\xff"),)
    with running(Generate=said) as server, pytest.raises(syntaxd_client.ServerError) as caught:
        open_client(server.address).generate("Hi.")
    assert caught.value.message == "m"


def test_leaving_a_stream_cancels_it(server):
    with syntaxd_client.Client(server.address) as client, client.stream("Hi.") as stream:
        assert next(stream) == '{"name":'
        stream.cancel()
        with pytest.raises(syntaxd_client.CallCancelledError):
            stream.result()


def test_an_asyncio_call_is_cancelled_with_its_task():
    async def run() -> None:
        def never(request):
            import time

            time.sleep(1)
            return RESPONSE

        with running(Generate=never) as server:
            async with syntaxd_client.AsyncClient(server.address) as client:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(client.generate("Hi."), 0.05)

    asyncio.run(run())


def test_the_public_names_are_those_that_are_there():
    for name in syntaxd_client.__all__:
        assert getattr(syntaxd_client, name).__doc__ or name in ("JsonSchema", "Prompt")


def test_every_exception_has_a_place_in_the_tree():
    public = {
        each
        for each in vars(syntaxd_client).values()
        if isinstance(each, type) and issubclass(each, Exception)
    }
    assert all(issubclass(each, syntaxd_client.SyntaxdError) for each in public)
    drawn = syntaxd_client.errors.__doc__
    assert all(each.__name__ in drawn for each in public)
    assert len(public) == drawn.count("──") + 1
    readme = (Path(__file__).resolve().parents[2] / "clients/python/README.md").read_text()
    assert drawn.partition("::\n\n")[2].replace("``", "`").strip() in indented(readme)


def indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.splitlines())
