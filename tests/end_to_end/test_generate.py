"""Answers of the real model over a real socket."""

import json
import re

import jsonschema
import pytest

from service.rpc.pb.v1 import constraint_pb2 as c
from service.rpc.pb.v1 import generation_pb2 as g
from service.rpc.pb.v1 import model_pb2, model_pb2_grpc
from tests.end_to_end.calls import TIMEOUT, ask, choice, refused, regex

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 20},
        "kind": {"enum": ["cat", "dog"]},
        "age": {"type": "integer", "minimum": 0, "maximum": 30},
        "toys": {"type": "array", "items": {"type": "string", "maxLength": 10}, "maxItems": 3},
        "born": {"type": "string", "format": "date"},
    },
    "required": ["name", "kind", "age", "toys"],
    "additionalProperties": False,
}
JUDGE = jsonschema.Draft202012Validator(
    SCHEMA, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
)
PET = c.Constraint(json_schema=json.dumps(SCHEMA))


def generate(stub, *arguments, **fields):
    response = stub.Generate(ask(*arguments, **fields), timeout=TIMEOUT)
    assert len(response.outputs) == 1
    return response


@pytest.mark.parametrize("temperature", [0, 0.7, 1.5])
def test_a_schema_is_matched(stub, temperature):
    response = generate(
        stub, "Describe a pet.", constraint=PET, sampling={"temperature": temperature, "seed": 1}
    )
    output = response.outputs[0]
    assert output.complete
    JUDGE.validate(json.loads(output.text))
    assert list(json.loads(output.text))[:4] == SCHEMA["required"]  # in the schema's order


def test_a_regex_is_matched(stub):
    date = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
    output = generate(stub, "A date?", constraint=regex(date)).outputs[0]
    assert re.fullmatch(date, output.text)
    assert output.stop_detail.WhichOneof("cause") == "constraint_complete"
    assert output.finish_reason == g.FINISH_REASON_STOP


def test_a_choice_is_matched(stub):
    output = generate(stub, "Yes or no?", constraint=choice("yes", "no")).outputs[0]
    assert output.text in ("yes", "no")
    assert output.complete


def test_a_choice_of_one_token_is_served_with_a_budget_of_one(stub):
    response = generate(stub, constraint=choice("yes"), stopping={"max_tokens": 1})
    assert response.outputs[0].text == "yes"
    assert response.outputs[0].complete
    assert response.usage.completion_tokens == 1


@pytest.mark.parametrize("above", [0, 1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_an_answer_is_whole_at_budgets_just_above_the_minimum(stub, above, seed):
    code, reason, found = refused(
        lambda: stub.Generate(ask(constraint=PET, stopping={"max_tokens": 1}), timeout=TIMEOUT)
    )
    assert (code, reason) == ("INVALID_ARGUMENT", "BUDGET_TOO_SMALL")
    budget = int(found["ErrorInfo"].metadata["minOutputTokens"]) + above
    response = generate(
        stub,
        constraint=PET,
        stopping={"max_tokens": budget},
        sampling={"temperature": 1.5, "seed": seed},
    )
    JUDGE.validate(json.loads(response.outputs[0].text))
    assert response.outputs[0].complete
    assert response.usage.completion_tokens <= budget


def test_a_stream_says_the_same_as_one_answer(stub):
    fields = {
        "constraint": PET,
        "sampling": {"temperature": 1, "seed": 5},
        "response": {"token_ids": True},
    }
    whole = generate(stub, "Describe a pet.", **fields)
    events = list(stub.GenerateStream(ask("Describe a pet.", **fields), timeout=TIMEOUT))
    kinds = [event.WhichOneof("event") for event in events]
    assert kinds[0] == "started"
    assert kinds[-2:] == ["finished", "summary"]
    assert set(kinds[1:-2]) == {"delta"}
    assert len(kinds) > 6
    assert "".join(event.delta.text for event in events) == whole.outputs[0].text
    tokens = [token for event in events for token in event.delta.tokens]
    assert tokens == list(whole.outputs[0].tokens)
    assert events[-2].finished.complete
    assert events[-1].summary.usage == whole.usage
    assert events[0].started.prompt_tokens == whole.usage.prompt_tokens


def test_tokens_spell_the_text(stub):
    output = generate(stub, constraint=PET, response={"token_ids": True}).outputs[0]
    assert b"".join(token.bytes for token in output.tokens) == output.text.encode()
    assert any(token.forced for token in output.tokens)


def test_the_same_seed_says_the_same_and_the_drawn_one_is_reported(stub):
    fields = {"constraint": regex("[a-z]{12}"), "sampling": {"temperature": 1.5}}
    first = generate(stub, **fields)
    fields["sampling"]["seed"] = first.effective_sampling.seed
    assert generate(stub, **fields).outputs[0].text == first.outputs[0].text


def test_deltas_are_whole_characters(stub):
    asked = ask(constraint=choice("😀😃日本語ñ"))
    events = list(stub.GenerateStream(asked, timeout=TIMEOUT))
    assert "".join(event.delta.text for event in events) == "😀😃日本語ñ"


def test_free_text_ends_at_max_tokens_or_by_itself(stub):
    response = generate(stub, "Count to ten.", stopping={"max_tokens": 5})
    output = response.outputs[0]
    assert response.usage.completion_tokens <= 5
    if output.finish_reason == g.FINISH_REASON_LENGTH:
        assert not output.complete


def test_a_stop_text_ends_free_text_and_is_left_out(stub):
    fields = {"sampling": {"temperature": 0}, "stopping": {"max_tokens": 40}}
    text = generate(stub, "Count from one to twenty.", **fields).outputs[0].text
    stop = text[len(text) // 2 :][:3]
    assert stop
    fields["stopping"] = {"max_tokens": 40, "stop": [stop]}
    output = generate(stub, "Count from one to twenty.", **fields).outputs[0]
    assert output.text == text[: text.index(stop)]
    assert output.stop_detail.stop_string == stop
    assert output.complete


def test_a_stop_text_inside_an_unfinished_answer_does_not_break_it(stub):
    stopping = {"stop": ['"', ":", "a"]}
    output = generate(stub, constraint=PET, stopping=stopping).outputs[0]
    JUDGE.validate(json.loads(output.text))
    assert output.complete


def test_best_effort_may_be_cut_short(stub):
    output = generate(
        stub,
        constraint=PET,
        stopping={"max_tokens": 2},
        completion_policy=g.COMPLETION_POLICY_BEST_EFFORT,
    ).outputs[0]
    assert not output.complete
    assert output.finish_reason == g.FINISH_REASON_LENGTH


def test_prompt_and_its_tokens_are_the_same_input(stub):
    fields = {"constraint": regex("[0-9]{4}"), "sampling": {"temperature": 0}}
    first = generate(stub, prompt="In", **fields)
    assert first.usage.prompt_tokens >= 1
    by_id = generate(stub, token_ids=g.TokenIds(ids=[788]), **fields)
    assert by_id.usage.prompt_tokens == 1


def test_the_description_of_the_constraint_is_part_of_the_prompt(stub):
    messages = [g.ChatMessage(role="user", content="Yes?")]
    plain = generate(stub, chat=g.ChatInput(messages=messages), constraint=choice("yes", "no"))
    told = generate(
        stub,
        chat=g.ChatInput(messages=messages, describe_constraint=True),
        constraint=choice("yes", "no"),
    )
    assert told.usage.prompt_tokens > plain.usage.prompt_tokens


def test_the_model_is_described(channel, server):
    stub = model_pb2_grpc.ModelServiceStub(channel)
    model = stub.GetModel(model_pb2.GetModelRequest(), timeout=TIMEOUT).model
    assert model.name == server.model
    assert model.max_context_tokens >= 2048
    assert model.vocab_size == 49152
    assert model.eos_token_ids
