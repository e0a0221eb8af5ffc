"""Each field of a request: its range, its default, and what is said when it is wrong."""

import math
import re

import pytest

from service.engine.types import Constraint, JsonFormat, Logprobs
from service.errors import Code, InvalidRequest, NotFound
from service.rpc.convert.request import read
from service.rpc.draft import Chat, Message, Report, TokenIds
from service.rpc.pb.v1 import constraint_pb2 as c
from service.rpc.pb.v1 import generation_pb2 as g
from tests.service.rpc.fakes import MODEL


def draft(**fields):
    if not {"prompt", "token_ids", "chat"} & fields.keys():
        fields["prompt"] = "hi"
    return read(g.GenerateRequest(**fields), MODEL)


def chat(*roles, **options):
    return g.ChatInput(messages=[g.ChatMessage(role=r, content="x") for r in roles], **options)


WRONG = [
    # field named in the error, what it says, the request
    ("input", "set one of", {"prompt": None}),
    ("prompt", "empty", {"prompt": ""}),
    ("token_ids.ids", "empty", {"token_ids": g.TokenIds()}),
    ("token_ids.ids[1]", "256 is not a token", {"token_ids": g.TokenIds(ids=[255, 256])}),
    ("chat.messages", "empty", {"chat": g.ChatInput()}),
    ("chat.messages[1].role", "'robot' is not one of", {"chat": chat("user", "robot")}),
    ("chat.messages[1].role", "only come first", {"chat": chat("user", "system")}),
    (
        "chat.describe_constraint",
        "no constraint",
        {"chat": chat("user", describe_constraint=True)},
    ),
    ("priority", "11 is not in -10..10", {"priority": 11}),
    ("priority", "-11 is not in -10..10", {"priority": -11}),
    ("request_id", "longer than 128", {"request_id": "é" * 65}),
    ("request_id", "printed", {"request_id": "a\nb"}),
    ("sampling.temperature", "-0.5 is not at least 0", {"sampling": {"temperature": -0.5}}),
    ("sampling.temperature", "nan is not", {"sampling": {"temperature": math.nan}}),
    ("sampling.temperature", "inf is not", {"sampling": {"temperature": math.inf}}),
    ("sampling.temperature", "1e-06 is neither 0", {"sampling": {"temperature": 1e-6}}),
    ("sampling.top_p", "0 is not above 0", {"sampling": {"top_p": 0}}),
    ("sampling.top_p", "1.5 is not", {"sampling": {"top_p": 1.5}}),
    ("sampling.top_k", "-1 is not at least 0", {"sampling": {"top_k": -1}}),
    ("sampling.min_p", "2 is not", {"sampling": {"min_p": 2}}),
    ("sampling.frequency_penalty", "3 is not", {"sampling": {"frequency_penalty": 3}}),
    ("sampling.presence_penalty", "-3 is not", {"sampling": {"presence_penalty": -3}}),
    ("sampling.repetition_penalty", "0 is not above", {"sampling": {"repetition_penalty": 0}}),
    ("sampling.penalty_scope", "9 is not a value", {"sampling": {"penalty_scope": 9}}),
    ("stopping.max_tokens", "0 is not at least 1", {"stopping": {"max_tokens": 0}}),
    (
        "stopping.min_tokens",
        "6 is more than max_tokens, 5",
        {"stopping": {"max_tokens": 5, "min_tokens": 6}},
    ),
    ("stopping.stop", "17 texts", {"stopping": {"stop": ["x"] * 17}}),
    ("stopping.stop[1]", "0 bytes", {"stopping": {"stop": ["x", ""]}}),
    ("stopping.stop[0]", "258 bytes", {"stopping": {"stop": ["é" * 129]}}),
    ("stopping.stop_regex", "5 patterns", {"stopping": {"stop_regex": ["x"] * 5}}),
    ("stopping.stop_regex[0]", "258 bytes", {"stopping": {"stop_regex": ["é" * 129]}}),
    ("stopping.stop_regex[1]", "at @2: missing )", {"stopping": {"stop_regex": ["x", "é("]}}),
    ("stopping.stop_regex[0]", "matches the empty text", {"stopping": {"stop_regex": ["x*"]}}),
    ("stopping.stop_token_ids", "65 tokens", {"stopping": {"stop_token_ids": range(65)}}),
    (
        "stopping.stop_token_ids[1]",
        "256 is not a token: the vocabulary has 256",
        {"stopping": {"stop_token_ids": [255, 256]}},
    ),
    ("stopping.unit", "9 is not a value", {"stopping": {"unit": 9}}),
    (
        "stopping.unit",
        "nothing beside a constraint",
        {"stopping": {"unit": g.STOP_UNIT_LINE}, "constraint": c.Constraint(regex="a")},
    ),
    (
        "chat.describe_constraint",
        "no constraint to describe",
        {
            "stopping": {"unit": g.STOP_UNIT_LINE},
            "chat": chat("user", describe_constraint=True),
        },
    ),
    ("sampling.logit_bias[256]", "256 is not a token", {"sampling": {"logit_bias": {256: 1}}}),
    ("sampling.logit_bias[3]", "101 is not at", {"sampling": {"logit_bias": {3: 101}}}),
    ("sampling.logit_bias[3]", "nan is not at", {"sampling": {"logit_bias": {3: math.nan}}}),
    (
        "sampling.logit_bias",
        "1025 tokens; at most 1024",
        {"sampling": {"logit_bias": dict.fromkeys(range(1025), 1.0)}},
    ),
    ("response.stream_interval", "0 is not", {"response": {"stream_interval": 0}}),
    ("constraint.kind", "set one of", {"constraint": c.Constraint()}),
    (
        "constraint.json_format",
        "nothing beside regex",
        {"constraint": c.Constraint(regex="a", json_format=c.JsonFormat())},
    ),
    (
        "constraint.json_format",
        "nothing beside constraint_id",
        {"constraint": c.Constraint(constraint_id="a", json_format=c.JsonFormat())},
    ),
    ("constraint.constraint_id", "empty", {"constraint": c.Constraint(constraint_id="")}),
    (
        "constraint.choice.choices",
        "empty",
        {"constraint": c.Constraint(choice=c.ChoiceConstraint())},
    ),
    (
        "constraint.choice.choices[1]",
        "empty",
        {"constraint": c.Constraint(choice=c.ChoiceConstraint(choices=["a", ""]))},
    ),
    (
        "constraint.choice.choices[2]",
        "'a' is there already",
        {"constraint": c.Constraint(choice=c.ChoiceConstraint(choices=["a", "b", "a"]))},
    ),
    (
        "constraint.json_format.whitespace",
        "7 is not a value",
        {"constraint": c.Constraint(json_schema="{}", json_format={"whitespace": 7})},
    ),
    (
        "constraint.json_format.max_whitespace_run",
        "257 is more than 256",
        {
            "constraint": c.Constraint(
                json_schema="{}", json_format=c.JsonFormat(max_whitespace_run=257)
            )
        },
    ),
    ("completion_policy", "5 is not a value", {"completion_policy": 5}),
]


@pytest.mark.parametrize(("field", "says", "fields"), WRONG, ids=[f"{w[0]}:{w[1]}" for w in WRONG])
def test_a_wrong_field_is_named_with_what_is_allowed(field, says, fields):
    with pytest.raises(InvalidRequest, match=re.escape(says)) as caught:
        draft(**fields)
    assert caught.value.field == field
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert [violation.field for violation in caught.value.violations] == [field]


def test_an_unknown_model_is_not_found_and_the_right_name_is_told():
    with pytest.raises(NotFound, match="'gpt' is not here; 'tiny' is"):
        draft(model="gpt")
    assert draft(model="tiny").request_id


def test_absent_scalars_are_the_models_defaults_and_never_zero():
    sampling = draft().sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.25, 0.5, 7)
    assert sampling.repetition_penalty == 1.5


def test_a_zero_that_is_there_is_a_zero():
    sampling = draft(sampling={"temperature": 0, "top_k": 0, "seed": 0}).sampling
    assert (sampling.temperature, sampling.top_k, sampling.seed) == (0, 0, 0)


def test_an_absent_seed_is_drawn_anew_for_each_request():
    assert len({draft().sampling.seed for _ in range(20)}) == 20


def test_the_largest_seed_survives():
    assert draft(sampling={"seed": 2**64 - 1}).sampling.seed == 2**64 - 1


def test_an_absent_request_id_is_made():
    first, second = draft().request_id, draft().request_id
    assert first != second
    assert draft(request_id="mine").request_id == "mine"


def test_penalties_touch_content_only_under_a_constraint_unless_told_otherwise():
    regex = c.Constraint(regex="a")
    assert draft().sampling.penalty_scope == "all"
    assert draft(constraint=regex).sampling.penalty_scope == "free_text"
    told = draft(constraint=regex, sampling={"penalty_scope": g.PENALTY_SCOPE_ALL})
    assert told.sampling.penalty_scope == "all"


def test_the_three_inputs():
    assert draft(prompt="hi").input == "hi"
    assert draft(token_ids=g.TokenIds(ids=[1, 2])).input == TokenIds((1, 2))
    assert draft(chat=chat("user")).input == Chat((Message("user", "x"),), False)


def test_the_three_constraints():
    choices = c.ChoiceConstraint(choices=["no", "yes"])
    assert draft(constraint=c.Constraint(regex="a+")).constraint == Constraint(
        kind="regex", text="a+"
    )
    assert draft(constraint=c.Constraint(choice=choices)).constraint == Constraint(
        kind="choice", choices=("no", "yes")
    )
    assert draft(constraint=c.Constraint(json_schema="{}")).constraint == Constraint(
        kind="json_schema", text="{}"
    )


def test_every_field_of_the_json_format_arrives():
    json_format = c.JsonFormat(
        whitespace=c.WHITESPACE_FLEXIBLE,
        max_whitespace_run=3,
        property_order=c.PROPERTY_ORDER_ANY,
        additional_properties_default=c.ADDITIONAL_PROPERTIES_DEFAULT_ALLOW,
        ascii_only=True,
        formats=c.FORMATS_ANNOTATE,
    )
    got = draft(constraint=c.Constraint(json_schema="{}", json_format=json_format)).constraint
    assert got.json_format == JsonFormat(
        whitespace="flexible",
        max_whitespace_run=3,
        property_order="any",
        additional_properties_default="allow",
        ascii_only=True,
        formats="annotate",
    )


def test_log_probabilities_imply_the_tokens():
    got = draft(response={"logprobs": 0, "logprobs_mode": g.LOGPROBS_MODE_MASKED})
    assert got.logprobs == Logprobs(top=0, masked=True)
    assert got.report.token_ids
    assert draft(response={"logprobs": 20}).logprobs == Logprobs(top=20, masked=False)
    assert draft().logprobs is None
    assert draft().prompt_logprobs is None
    assert draft(response={"prompt_logprobs": 0}).prompt_logprobs == 0
    assert not draft().report.token_ids


@pytest.mark.parametrize(
    ("field", "response"),
    [
        ("response.logprobs", {"logprobs": 21}),
        ("response.prompt_logprobs", {"prompt_logprobs": 21}),
        ("response.logprobs_mode", {"logprobs_mode": 9}),
    ],
)
def test_log_probabilities_have_bounds(field, response):
    with pytest.raises(InvalidRequest) as caught:
        draft(response=response)
    assert caught.value.field == field


def test_stopping_and_report_arrive():
    got = draft(
        stopping={
            "max_tokens": 9,
            "min_tokens": 2,
            "stop": ["."],
            "include_stop_in_output": True,
            "stop_regex": ["a+"],
            "stop_token_ids": [7, 0],
            "ignore_eos": True,
        },
        response={"token_ids": True, "timing": True, "stream_interval": 4},
        completion_policy=g.COMPLETION_POLICY_BEST_EFFORT,
    )
    assert (got.stopping.max_tokens, got.stopping.min_tokens) == (9, 2)
    assert (got.stopping.stop, got.stopping.include_stop_in_output) == ((".",), True)
    assert (got.stopping.stop_regex, got.stopping.stop_token_ids) == (("a+",), (7, 0))
    assert got.stopping.ignore_eos
    assert got.report == Report(token_ids=True, timing=True, stream_interval=4)
    assert not got.guaranteed
    assert draft().guaranteed
    assert draft().stopping.max_tokens is None
    assert not draft().stopping.ignore_eos


def test_a_unit_is_a_constraint_inside_but_penalties_touch_everything():
    got = draft(stopping={"unit": g.STOP_UNIT_JSON_VALUE})
    assert got.constraint == Constraint(kind="unit", text="json_value")
    assert got.constraint.field == "stopping.unit"
    assert got.sampling.penalty_scope == "all"
    names = {number: name for name, number in g.StopUnit.items() if number}
    for number, name in names.items():
        text = draft(stopping={"unit": number}).constraint.text
        assert f"STOP_UNIT_{text.upper()}" == name


def test_a_bias_arrives():
    got = draft(sampling={"logit_bias": {9: -100, 3: 0.5}})
    assert got.sampling.logit_bias == ((3, 0.5), (9, -100.0))
    assert draft().sampling.logit_bias == ()
