"""ModelService over a real socket: the model, lists of it, and its tokens."""

import asyncio
import json
import threading

import grpc
import pytest

import grammar
from service.errors import Busy
from service.rpc import tokens as module
from service.rpc.pb.v1 import model_pb2 as m
from service.rpc.pb.v1 import model_pb2_grpc
from tests.service.rpc.calls import details, refused
from tests.service.rpc.fakes import serving


@pytest.fixture
async def served():
    async with serving() as each:
        yield each


@pytest.fixture
def stub(served):
    return model_pb2_grpc.ModelServiceStub(served.channel)


async def test_get_model_describes_the_model_by_name_or_without(stub):
    model = (await stub.GetModel(m.GetModelRequest())).model
    assert model == (await stub.GetModel(m.GetModelRequest(name="tiny"))).model
    assert (model.name, model.max_context_tokens, model.vocab_size) == ("tiny", 256, 256)
    assert model.capabilities.constraint_kinds == ["json_schema", "regex", "choice"]
    assert model.capabilities.limits.compile_timeout_ms == 500


async def test_every_keyword_that_is_listed_is_enforced_and_no_other():
    """The list is the grammar's: each keyword with a value that constrains, compiled."""
    async with serving() as served:
        stub = model_pb2_grpc.ModelServiceStub(served.channel)
        listed = (await stub.GetModel(m.GetModelRequest())).model.capabilities
    null, short = {"type": "null"}, {"maxLength": 1}
    examples = {
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minimum"), 3),
        **dict.fromkeys(("maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"), 3),
        **dict.fromkeys(("minProperties", "maxProperties"), 3),
        **{name: [null] for name in ("allOf", "anyOf", "oneOf", "prefixItems")},
        **dict.fromkeys(("items", "additionalProperties", "propertyNames"), short),
        **dict.fromkeys(("contains", "not", "unevaluatedProperties"), null),
        **{name: {"a": null} for name in ("properties", "patternProperties")},
        "dependentSchemas": {"a": null},
        "dependentRequired": {"a": ["b"]},
        "uniqueItems": True,
        "unevaluatedItems": False,
        "type": "null",
        "enum": [1],
        "const": 1,
        "required": ["a"],
        "pattern": "a",
        "format": "date",
        "$ref": "#/$defs/a",
    }
    for keyword, value in examples.items():
        schema = {keyword: value, "$defs": {"a": null}}
        report = {
            each.keyword: each.treatment
            for each in grammar.explain(json.dumps(schema))
            if each.location == f"/{keyword}"
        }
        assert (report[keyword] == "enforced") == (keyword in listed.json_schema_keywords), keyword


async def test_capabilities_list_drafts_and_formats(stub):
    listed = (await stub.GetModel(m.GetModelRequest())).model.capabilities
    assert listed.json_schema_drafts[-1] == "https://json-schema.org/draft/2020-12/schema"
    assert {"date-time", "email", "uuid", "ipv4"} <= set(listed.string_formats)
    assert not set(listed.string_formats) & grammar.formats.UNSUPPORTED_FORMATS


async def test_the_list_of_models_has_one_page_of_one(stub):
    model = (await stub.GetModel(m.GetModelRequest())).model
    for size in (0, 1, 1_000_000):
        found = await stub.ListModels(m.ListModelsRequest(page_size=size))
        assert list(found.models) == [model]
        assert not found.next_page_token


@pytest.mark.parametrize(
    ("field", "fields"), [("page_size", {"page_size": -1}), ("page_token", {"page_token": "x"})]
)
async def test_a_wrong_page_is_refused(stub, field, fields):
    call = stub.ListModels(m.ListModelsRequest(**fields))
    code, reason, _ = await refused(call)
    assert (code, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
    assert (await details(call))["BadRequest"].field_violations[0].field == field


async def test_text_becomes_tokens_as_a_prompt_does_unless_told_otherwise(stub):
    usual = await stub.Tokenize(m.TokenizeRequest(text="^hi"))
    assert bytes(usual.token_ids) == b"\x01^hi"  # the fake's token for a beginning
    assert not usual.token_bytes
    bare = await stub.Tokenize(m.TokenizeRequest(text="^hi", add_special_tokens=False))
    assert bytes(bare.token_ids) == b"^hi"


async def test_the_bytes_of_tokens_are_reported_on_request(stub):
    found = await stub.Tokenize(m.TokenizeRequest(text="^é", token_bytes=True))
    assert list(found.token_bytes) == [b"<begin>", b"^", b"\xc3", b"\xa9"]


async def test_no_text_is_no_tokens(stub):
    assert not (await stub.Tokenize(m.TokenizeRequest())).token_ids
    assert not (await stub.Detokenize(m.DetokenizeRequest())).text


async def test_tokens_become_text_with_or_without_the_names_of_special_ones(stub):
    ids = [1, *"hé".encode(), 0]
    named = await stub.Detokenize(m.DetokenizeRequest(token_ids=ids))
    assert named.text == "<begin>hé<end>"
    assert not named.HasField("raw_bytes")
    plain = await stub.Detokenize(m.DetokenizeRequest(token_ids=ids, skip_special_tokens=True))
    assert plain.text == "hé"


async def test_bytes_that_are_no_text_are_marked_and_given(stub):
    found = await stub.Detokenize(m.DetokenizeRequest(token_ids=b"a\xc3b\xff"))
    assert found.text == "a\ufffdb\ufffd"
    assert found.raw_bytes == b"a\xc3b\xff"


async def test_an_id_that_is_no_token_is_named(stub):
    call = stub.Detokenize(m.DetokenizeRequest(token_ids=[65, 256]))
    code, _, metadata = await refused(call)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert metadata["vocabSize"] == "256"
    found = (await details(call))["BadRequest"].field_violations
    assert found[0].field == "token_ids[1]"


async def test_more_than_the_limit_is_refused(stub, monkeypatch):
    monkeypatch.setattr(module, "MAX_TEXT_BYTES", 10)
    long = "x" * 11
    for call, field in (
        (stub.Tokenize(m.TokenizeRequest(text=long)), "text"),
        (stub.Detokenize(m.DetokenizeRequest(token_ids=long.encode())), "token_ids"),
    ):
        assert (await refused(call))[:2] == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
        found = (await details(call))["BadRequest"].field_violations
        assert found[0].field == field
    monkeypatch.setattr(module, "MAX_TOKENS", 3)
    call = stub.Detokenize(m.DetokenizeRequest(token_ids=b"four"))
    assert "at most 3" in (await details(call))["BadRequest"].field_violations[0].description


@pytest.mark.parametrize("rpc", ["GetModel", "Tokenize", "Detokenize"])
async def test_an_unknown_model_is_not_found(stub, rpc):
    field = "name" if rpc == "GetModel" else "model"
    request = getattr(m, f"{rpc}Request")(**{field: "gpt"})
    code, reason, _ = await refused(getattr(stub, rpc)(request))
    assert (code, reason) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_MODEL")


async def test_long_texts_wait_for_each_other_and_too_many_are_refused(served, stub, monkeypatch):
    """Beside the event loop one thread works on long texts; short ones do not queue."""
    monkeypatch.setattr(module, "SHORT", 3)
    tokens = module.Tokens(served.front.tokenizer, 256)
    monkeypatch.setattr(tokens, "_places", module.Places(2, "texts"))
    names = []

    def work():
        names.append(threading.current_thread().name)

    await asyncio.gather(*(tokens.call(length, work) for length in (3, 4, 4)))
    tokens.close()
    assert sum(name.startswith("tokens") for name in names) == 2
    with tokens._places, tokens._places, pytest.raises(Busy) as caught:
        await tokens.encode("x", add_special_tokens=True)
    assert caught.value.reason == "QUEUE_FULL"
