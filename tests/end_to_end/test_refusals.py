"""Bad input of every kind against the real server: code, reason, place; and it serves on."""

import pytest

from service.rpc.pb.v1 import constraint_pb2 as c
from service.rpc.pb.v1 import generation_pb2 as g
from tests.end_to_end.calls import TIMEOUT, ask, choice, refused, regex


def schema(text: str) -> c.Constraint:
    return c.Constraint(json_schema=text)


SYNTAX, UNSUPPORTED = "CONSTRAINT_SYNTAX", "UNSUPPORTED_KEYWORD"
EMPTY, COMPLEX = "CONSTRAINT_UNSATISFIABLE", "CONSTRAINT_TOO_COMPLEX"

CONSTRAINTS = [
    # reason, where, constraint
    (SYNTAX, None, schema("")),
    (SYNTAX, None, schema('{"type": ')),
    (SYNTAX, "/type", schema('{"type": "text"}')),
    (SYNTAX, "/properties/a/minLength", schema('{"properties": {"a": {"minLength": -1}}}')),
    (SYNTAX, "/pattern@1", schema('{"type": "string", "pattern": "a["}')),
    (SYNTAX, "@1", regex("a(")),
    (SYNTAX, "@0", regex("*")),
    (UNSUPPORTED, "/not/uniqueItems", schema('{"not": {"uniqueItems": true}}')),
    (UNSUPPORTED, "/properties/a/$ref", schema('{"properties": {"a": {"$ref": "x.json"}}}')),
    (UNSUPPORTED, "@0", regex("(?<=a)b")),
    (EMPTY, None, schema("false")),
    (EMPTY, None, schema('{"type": "integer", "minimum": 5, "maximum": 4}')),
    (EMPTY, None, regex("\\x04")),  # a byte that no token of this model spells
    (COMPLEX, None, regex("(((a{1,900}){1,900}){1,900})")),
]


@pytest.mark.parametrize(
    ("reason", "where", "constraint"),
    CONSTRAINTS,
    ids=[str(getattr(each, each.WhichOneof("kind"))) or "empty" for *_, each in CONSTRAINTS],
)
def test_a_constraint_that_cannot_be_enforced_is_refused_with_its_place(
    stub, reason, where, constraint
):
    code, got, found = refused(lambda: stub.Generate(ask(constraint=constraint), timeout=TIMEOUT))
    assert got == reason
    assert code == ("RESOURCE_EXHAUSTED" if reason == COMPLEX else "INVALID_ARGUMENT")
    if where is not None:
        assert found["ErrorInfo"].metadata["location"] == where
    kind = constraint.WhichOneof("kind")
    if reason == COMPLEX:
        assert found["QuotaFailure"].violations[0].subject
    else:
        assert found["BadRequest"].field_violations[0].field == f"constraint.{kind}"
    if reason == UNSUPPORTED:
        assert found["ErrorInfo"].metadata["keyword"]


FIELDS = [
    ("prompt", {"prompt": ""}),
    ("input", {"chat": None}),
    ("token_ids.ids[0]", {"token_ids": g.TokenIds(ids=[49_152])}),
    ("chat.messages", {"chat": g.ChatInput()}),
    ("sampling.temperature", {"sampling": {"temperature": -1}}),
    ("sampling.top_p", {"sampling": {"top_p": 0}}),
    ("stopping.max_tokens", {"stopping": {"max_tokens": 0}}),
    ("stopping.stop[0]", {"stopping": {"stop": [""]}}),
    ("constraint.kind", {"constraint": c.Constraint()}),
    ("constraint.choice.choices", {"constraint": choice()}),
]


@pytest.mark.parametrize(("field", "fields"), FIELDS, ids=[field for field, _ in FIELDS])
def test_a_wrong_field_is_named(stub, field, fields):
    code, reason, found = refused(lambda: stub.Generate(ask(**fields), timeout=TIMEOUT))
    assert (code, reason) == ("INVALID_ARGUMENT", "INVALID_FIELD")
    assert found["BadRequest"].field_violations[0].field == field


def test_a_prompt_longer_than_the_context_says_both_numbers(stub):
    code, reason, found = refused(
        lambda: stub.Generate(ask(prompt="word " * 20_000), timeout=TIMEOUT)
    )
    assert (code, reason) == ("INVALID_ARGUMENT", "CONTEXT_LENGTH_EXCEEDED")
    metadata = found["ErrorInfo"].metadata
    assert int(metadata["promptTokens"]) > int(metadata["maxContextTokens"])


def test_an_unknown_model_is_not_found(stub):
    code, reason, _ = refused(lambda: stub.Generate(ask(model="gpt"), timeout=TIMEOUT))
    assert (code, reason) == ("NOT_FOUND", "UNKNOWN_MODEL")


def test_a_stream_is_refused_before_its_first_event(stub):
    code, reason, _ = refused(
        lambda: next(stub.GenerateStream(ask(constraint=regex("a(")), timeout=TIMEOUT))
    )
    assert (code, reason) == ("INVALID_ARGUMENT", SYNTAX)


def test_the_server_serves_on_after_all_that(stub):
    response = stub.Generate(ask(constraint=choice("yes")), timeout=TIMEOUT)
    assert response.outputs[0].text == "yes"
