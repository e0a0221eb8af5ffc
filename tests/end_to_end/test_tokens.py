"""ModelService against the real server: the model in a list, its tokens there and back."""

import pytest

from service.rpc.pb.v1 import constraint_pb2, model_pb2_grpc
from service.rpc.pb.v1 import generation_pb2 as g
from service.rpc.pb.v1 import model_pb2 as m
from tests.end_to_end.calls import TIMEOUT, ask, refused


@pytest.fixture
def models(channel):
    return model_pb2_grpc.ModelServiceStub(channel)


def test_the_one_model_is_the_list(models, server):
    found = models.ListModels(m.ListModelsRequest(page_size=10), timeout=TIMEOUT)
    assert [each.name for each in found.models] == [server.model]
    assert not found.next_page_token
    code, reason, _ = refused(
        lambda: models.ListModels(m.ListModelsRequest(page_token="2"), timeout=TIMEOUT)
    )
    assert (code, reason) == ("INVALID_ARGUMENT", "INVALID_FIELD")


def test_capabilities_name_what_constraints_may_use(models):
    found = models.GetModel(m.GetModelRequest(), timeout=TIMEOUT).model.capabilities
    fields = constraint_pb2.Constraint.DESCRIPTOR.oneofs_by_name["kind"].fields
    assert {*found.constraint_kinds, "constraint_id"} == {each.name for each in fields}
    assert {"type", "properties", "$ref", "pattern", "uniqueItems"} <= set(
        found.json_schema_keywords
    )
    assert "contentSchema" not in found.json_schema_keywords
    assert "date-time" in found.string_formats
    assert any("2020-12" in each for each in found.json_schema_drafts)


TEXTS = [
    "",
    "Hello, world!",
    "  two spaces\n\ttab",
    "naïve 漢字 🏴‍☠️",
    "<|im_start|>user\nhi<|im_end|>\n",
]


@pytest.mark.parametrize("text", TEXTS)
def test_there_and_back_is_the_same_text(models, text):
    found = models.Tokenize(m.TokenizeRequest(text=text, token_bytes=True), timeout=TIMEOUT)
    assert b"".join(found.token_bytes) == text.encode()
    assert len(found.token_bytes) == len(found.token_ids)
    back = models.Detokenize(m.DetokenizeRequest(token_ids=found.token_ids), timeout=TIMEOUT)
    assert back.text == text
    assert not back.HasField("raw_bytes")


def test_special_tokens_are_left_out_on_request(models):
    ids = models.Tokenize(m.TokenizeRequest(text="hi<|im_end|>"), timeout=TIMEOUT).token_ids
    asked = m.DetokenizeRequest(token_ids=ids, skip_special_tokens=True)
    assert models.Detokenize(asked, timeout=TIMEOUT).text == "hi"


def test_half_a_character_is_marked_and_given_as_bytes(models):
    ids = models.Tokenize(m.TokenizeRequest(text="🏴‍☠️"), timeout=TIMEOUT).token_ids
    found = models.Detokenize(m.DetokenizeRequest(token_ids=ids[:1]), timeout=TIMEOUT)
    assert found.text.endswith("\ufffd")
    assert "🏴‍☠️".encode().startswith(found.raw_bytes)


def test_a_prompt_is_as_many_tokens_as_it_is_told_here(models, stub):
    prompt = "How many tokens is <|im_end|> this?"
    ids = models.Tokenize(m.TokenizeRequest(text=prompt), timeout=TIMEOUT).token_ids
    asked = g.GenerateRequest(prompt=prompt, stopping=g.StoppingOptions(max_tokens=1))
    assert stub.Generate(asked, timeout=TIMEOUT).usage.prompt_tokens == len(ids)


def test_the_tokens_of_an_answer_are_its_text(models, stub):
    response = stub.Generate(
        ask(stopping={"max_tokens": 20}, response={"token_ids": True}), timeout=TIMEOUT
    )
    output = response.outputs[0]
    ids = [token.token_id for token in output.tokens]
    asked = m.DetokenizeRequest(token_ids=ids, skip_special_tokens=True)
    assert models.Detokenize(asked, timeout=TIMEOUT).text == output.text


def test_what_is_no_token_is_refused(models):
    asked = m.DetokenizeRequest(token_ids=[1, 4_000_000_000])
    code, reason, found = refused(lambda: models.Detokenize(asked, timeout=TIMEOUT))
    assert (code, reason) == ("INVALID_ARGUMENT", "INVALID_FIELD")
    assert found["BadRequest"].field_violations[0].field == "token_ids[1]"
