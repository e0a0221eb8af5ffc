"""The Python client against the real server."""

import asyncio
import contextlib
import datetime
import io
import itertools
import json
import re
import runpy
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

import pydantic
import pytest

import syntaxd_client
from syntaxd_client import Keywords

CLIENT = Path(__file__).resolve().parents[2] / "clients/python"
TIMEOUT = 100


@pytest.fixture(scope="module")
def client(server):
    with syntaxd_client.Client(server.address, timeout=TIMEOUT) as opened:
        yield opened


class Currency(Enum):
    EUR = "EUR"
    USD = "USD"


@dataclass
class Amount:
    value: Annotated[Decimal, Keywords(minimum=0, maximum=1000, multipleOf=0.01)]
    currency: Currency


@dataclass
class Invoice:
    sender: Annotated[str, Keywords(minLength=1, maxLength=20)]
    day: datetime.date
    paid: bool
    amounts: Annotated[list[Amount], Keywords(minItems=1, maxItems=2)]
    mood: Literal["good", "bad"] | None = None


class Pet(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=1, max_length=20)
    age: int = pydantic.Field(ge=0, le=30)
    born: datetime.date | None = None
    price: Decimal = pydantic.Field(ge=0, le=100, decimal_places=2)


@pytest.mark.parametrize("seed", range(3))
def test_a_dataclass_comes_back(client, seed):
    invoice = client.extract(Invoice, "ACME, 2 May 2026: 12 euros.", temperature=1.2, seed=seed)
    assert isinstance(invoice, Invoice)
    assert isinstance(invoice.day, datetime.date)
    assert all(isinstance(each.currency, Currency) for each in invoice.amounts)
    assert all(each.value % Decimal("0.01") == 0 for each in invoice.amounts)


@pytest.mark.parametrize("seed", range(3))
def test_a_pydantic_model_comes_back(client, seed):
    pet = client.extract(Pet, "Tom is a cat, 3 years old.", temperature=1.2, seed=seed)
    assert isinstance(pet, Pet)


def test_a_schema_gives_plain_objects(client):
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
    assert [type(each) for each in client.extract(schema, "Two numbers?")] == [int, int]
    assert client.extract('{"const": [1.5]}', "?") == [1.5]
    assert client.extract(list[bool], "?", max_tokens=10) is not None


def test_at_the_smallest_budget_the_object_is_whole(client):
    with pytest.raises(syntaxd_client.BudgetTooSmallError) as caught:
        client.extract(Invoice, "ACME.", max_tokens=1)
    enough = caught.value.min_output_tokens
    invoice = client.extract(Invoice, "ACME.", max_tokens=enough, temperature=1.5, seed=0)
    assert isinstance(invoice, Invoice)


def test_generate_says_what_it_did(client):
    answer = client.generate(
        "Is water wet?", choice=["yes", "no"], token_ids=True, timing=True, request_id="me"
    )
    assert answer.text in ("yes", "no")
    assert answer.complete
    assert answer.finish_reason == "stop"
    assert answer.stop is not None
    assert answer.request_id == "me"
    assert b"".join(each.bytes for each in answer.tokens) == answer.text.encode()
    assert answer.usage.completion_tokens == len(answer.tokens)
    assert answer.timing is not None
    again = client.generate(
        "Is water wet?", choice=["yes", "no"], seed=answer.effective_sampling["seed"]
    )
    assert again.text == answer.text
    assert again.timing is None
    assert again.tokens == ()


def test_a_stream_says_the_same(client):
    asked = {"temperature": 1, "seed": 3, "max_tokens": 60}
    whole = client.generate("Describe a pet.", schema=Pet, token_ids=True, **asked)
    with client.stream("Describe a pet.", schema=Pet, token_ids=True, **asked) as stream:
        pieces = list(stream)
        answer = stream.result()
    assert len(pieces) > 3
    assert "".join(pieces) == answer.text == whole.text
    assert answer.tokens == whole.tokens
    assert (answer.usage, answer.stop) == (whole.usage, whole.stop)
    assert answer.effective_sampling == whole.effective_sampling
    with client.stream_extract(Pet, "Describe a pet.", **asked) as extracted:
        next(extracted)
        assert isinstance(extracted.result(), Pet)
        assert extracted.answer.complete


def test_an_object_grows_while_it_is_written(client):
    asked = {"temperature": 1, "seed": 3, "max_tokens": 60}
    with client.stream_extract(Pet, "Describe a pet.", **asked) as stream:
        grown = list(stream.partials())
        pet = stream.result()
    assert len(grown) >= 3
    assert "price" not in grown[0]
    for earlier, later in itertools.pairwise(grown):
        assert list(earlier) == list(later)[: len(earlier)]
        assert later["name"].startswith(earlier.get("name", ""))
    assert Pet.model_validate(grown[-1]) == pet


def test_messages_text_and_tokens_are_prompts(client):
    messages = [
        {"role": "system", "content": "You are a cat."},
        {"role": "user", "content": "Hello."},
    ]
    assert client.generate(messages, choice=["miaow"]).text == "miaow"
    digit = client.generate("2 + 2 =", raw=True, regex=" [0-9]")
    assert re.fullmatch(" [0-9]", digit.text)
    tokens = client.tokenize("2 + 2 =").token_ids
    assert client.generate(tokens, choice=["4"]).usage.prompt_tokens == len(tokens)


def test_a_cancelled_stream_ends(client):
    with client.stream("Write.", regex="[a-z ]{1500}") as stream:
        assert next(stream)
        stream.cancel()
        with pytest.raises(syntaxd_client.CallCancelledError):
            stream.result()


def test_errors_say_where(client):
    schema = {"properties": {"a": {"minLength": -1}}}
    with pytest.raises(syntaxd_client.ConstraintError) as caught:
        client.extract(schema, "x")
    assert caught.value.reason == "CONSTRAINT_SYNTAX"
    assert caught.value.pointer == "/properties/a/minLength"
    assert caught.value.field == "constraint.json_schema"
    with pytest.raises(syntaxd_client.ConstraintError) as caught:
        next(client.stream("x", regex="a("))
    assert caught.value.pointer == "@1"
    with pytest.raises(syntaxd_client.InvalidRequestError) as caught:
        client.generate("x", top_p=0)
    assert caught.value.field == "sampling.top_p"
    with pytest.raises(syntaxd_client.NotFoundError):
        client.generate("x", model="gpt")
    with pytest.raises(syntaxd_client.DeadlineExceededError) as late:
        client.generate("x", regex="[a-z ]{1500}", timeout=0.5)
    assert isinstance(late.value, TimeoutError)


def test_a_constraint_is_compiled_named_checked_and_forgotten(client):
    compiled = client.compile(schema=Pet)
    assert json.loads(compiled.example)
    treatments = {each.location: each.treatment for each in compiled.keywords}
    assert treatments["/properties/age/maximum"] == "enforced"
    assert treatments["/properties/age/title"] == "annotation"
    named = client.generate("A pet?", constraint_id=compiled.constraint_id, max_tokens=80)
    assert Pet.model_validate_json(named.text)
    assert client.get_constraint(compiled.constraint_id).example == compiled.example

    assert client.check(named.text, schema=Pet).verdict == "complete"
    begun = client.check('{"name":"To', schema=Pet)
    assert begun.verdict == "incomplete"
    assert Pet.model_validate_json('{"name":"To' + begun.shortest_completion)
    wrong = client.check('{"name":7}', schema=Pet)
    assert (wrong.verdict, wrong.byte_offset) == ("rejected", 8)
    assert wrong.expected

    client.delete_constraint(compiled.constraint_id)
    with pytest.raises(syntaxd_client.NotFoundError) as caught:
        client.generate("A pet?", constraint_id=compiled.constraint_id)
    assert caught.value.reason == "UNKNOWN_CONSTRAINT"


def test_tokens_and_models(client, server):
    tokens = client.tokenize("Tom ö", token_bytes=True)
    assert b"".join(tokens.token_bytes).decode() == "Tom ö"
    assert client.detokenize(tokens.token_ids).text == "Tom ö"
    (model,) = client.list_models()
    assert model == client.get_model()
    assert model.name == server.model
    assert "json_schema" in model.capabilities.constraint_kinds


async def test_the_asyncio_client_does_the_same(server):
    async with syntaxd_client.AsyncClient(server.address, timeout=TIMEOUT) as client:
        pets = await asyncio.gather(
            *(client.extract(Pet, "A pet?", seed=n, max_tokens=80) for n in range(4))
        )
        assert all(isinstance(each, Pet) for each in pets)
        async with client.stream_extract(Pet, "A pet?", seed=0, max_tokens=80) as stream:
            text = "".join([piece async for piece in stream])
            assert await stream.result() == Pet.model_validate_json(text) == pets[0]
        assert (await client.check("7", schema=int)).verdict == "complete"
        with pytest.raises(syntaxd_client.ConstraintError):
            await client.generate("x", regex="a(")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.generate("x", regex="[a-z ]{1500}"), 0.5)
        assert (await client.generate("x", choice=["still here"])).text == "still here"


@pytest.mark.parametrize("example", sorted(each.name for each in CLIENT.glob("examples/*.py")))
def test_the_examples_run(server, monkeypatch, example):
    monkeypatch.setattr("sys.argv", [example, server.address])
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        runpy.run_path(str(CLIENT / "examples" / example), run_name="__main__")
    assert len(output.getvalue().splitlines()) >= 3
