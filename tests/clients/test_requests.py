"""What goes over the wire for each option."""

from __future__ import annotations

import grpc
import pytest

import syntaxd_client
from syntaxd_client import options
from syntaxd_client.pb.v1 import constraint_pb2 as c
from syntaxd_client.pb.v1 import generation_pb2 as g
from tests.clients.fake_server import running
from tests.clients.said import ANSWER, EVENTS, RESPONSE, Cat


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
    "priority": -3,
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
    "n": 2,
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
    "logprobs": 3,
    "prompt_logprobs": 0,
    "logprobs_mode": "masked",
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
        priority=-3,
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
            n=2,
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
        response=g.ResponseOptions(
            token_ids=True,
            logprobs=3,
            prompt_logprobs=0,
            logprobs_mode=g.LOGPROBS_MODE_MASKED,
            timing=True,
            stream_interval=2,
        ),
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


def test_credentials_make_the_channel_a_secure_one(open_client):
    with running(secure=True, Generate=RESPONSE) as server:
        client = open_client(server.address, credentials=grpc.local_channel_credentials())
        assert client.generate("Hi.") == ANSWER


@pytest.mark.parametrize(
    "given",
    [
        {"ca": b"x", "certificate": b"x"},
        {"ca": b"x", "key": b"x"},
        {"certificate": b"x", "key": b"x"},
        {"ca": b"x", "credentials": grpc.local_channel_credentials()},
    ],
)
def test_certificates_that_do_not_go_together_are_refused(open_client, given):
    with pytest.raises(TypeError):
        open_client("127.0.0.1:1", **given)


def test_a_file_of_certificates_that_is_not_there_is_said_at_once(open_client, tmp_path):
    with pytest.raises(FileNotFoundError):
        open_client("127.0.0.1:1", ca=tmp_path / "none.pem")


def test_timeout_and_metadata_go_beside_the_request(server, open_client):
    client = open_client(server.address, timeout=50, metadata=[("x-tenant", "a")])
    client.generate("Hi.")
    assert server.metadata[-1]["x-tenant"] == "a"
    assert 40 < server.seconds_left[-1] < 51
    client.generate("Hi.", timeout=20, metadata=[("x-trace", "b"), ("x-y-bin", b"\xff")])
    assert server.metadata[-1]["x-tenant"] == "a"
    assert server.metadata[-1]["x-trace"] == "b"
    assert server.metadata[-1]["x-y-bin"] == b"\xff"
    assert 10 < server.seconds_left[-1] < 21
    list(client.stream("Hi.", timeout=30))
    assert 21 < server.seconds_left[-1] < 31
