"""ConstraintService against the real server: ids, judgements, refusals, neighbours."""

import json
import statistics
import threading
import time
from itertools import pairwise

import grpc
import pytest

from service.engine.known import id_of
from service.engine.tokenizer import Tokenizer
from service.engine.types import Constraint
from service.rpc.pb.v1 import constraint_pb2 as c
from service.rpc.pb.v1 import constraint_pb2_grpc, model_pb2_grpc
from service.rpc.pb.v1 import generation_pb2 as g
from service.rpc.pb.v1 import model_pb2 as m
from tests.end_to_end.calls import TIMEOUT, ask, choice, details, refused, regex
from tests.validator import valid

SCHEMA = {
    "title": "A person",
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "born": {"type": "string", "format": "date"},
    },
    "required": ["name", "age"],
}
PERSON = c.Constraint(json_schema=json.dumps(SCHEMA))


@pytest.fixture
def constraints(channel):
    return constraint_pb2_grpc.ConstraintServiceStub(channel)


def compiled(constraints, constraint=PERSON, **fields):
    request = c.CompileConstraintRequest(constraint=constraint, **fields)
    return constraints.CompileConstraint(request, timeout=TIMEOUT).constraint


def checked(constraints, constraint, text):
    request = c.CheckTextRequest(constraint=constraint, text=text)
    return constraints.CheckText(request, timeout=TIMEOUT)


def test_what_is_said_of_a_constraint_is_true(constraints, stub):
    found = compiled(constraints)
    assert valid(SCHEMA, found.example)
    assert found.example == '{"name":"","age":0}'
    assert not found.HasField("max_output_tokens") or found.max_output_tokens > 20
    assert [(each.code, each.location) for each in found.diagnostics] == [("OBJECT_CLOSED", "")]
    treatments = {each.location: each.treatment for each in found.keywords}
    assert treatments["/title"] == c.KEYWORD_TREATMENT_ANNOTATION
    assert treatments["/properties/age/maximum"] == c.KEYWORD_TREATMENT_ENFORCED
    assert list(treatments)[:2] == ["/title", "/type"]
    response = stub.Generate(
        ask(constraint=PERSON, stopping={"max_tokens": found.min_output_tokens}), timeout=TIMEOUT
    )
    assert valid(SCHEMA, response.outputs[0].text)


def test_a_finite_language_has_a_longest_output(constraints):
    found = compiled(constraints, choice("yes", "absolutely not"))
    assert 1 <= found.min_output_tokens <= found.max_output_tokens <= len("absolutely not")
    assert found.example == "yes"
    assert not found.keywords


def test_an_id_is_of_the_content_and_may_be_used_instead_of_it(constraints, stub, default_model):
    first = compiled(constraints)
    again = compiled(constraints, c.Constraint(json_schema=json.dumps(SCHEMA, indent=4)))
    assert again.cached
    assert again.constraint_id == first.constraint_id
    # Another process, at another time:
    digest = Tokenizer.load(default_model).vocabulary().digest
    own = Constraint(kind="json_schema", text=json.dumps(SCHEMA))
    assert id_of(own, digest) == first.constraint_id
    by_id = c.Constraint(constraint_id=first.constraint_id)
    sampling = g.SamplingParams(seed=7)
    answers = [
        stub.Generate(ask("A person.", constraint=each, sampling=sampling), timeout=TIMEOUT)
        for each in (PERSON, by_id)
    ]
    assert answers[0].outputs[0].text == answers[1].outputs[0].text
    assert answers[0].diagnostics == answers[1].diagnostics
    events = list(stub.GenerateStream(ask(constraint=by_id), timeout=TIMEOUT))
    text = "".join(event.delta.text for event in events)
    assert valid(SCHEMA, text)


def test_options_make_another_id(constraints):
    form = c.JsonFormat(whitespace=c.WHITESPACE_FLEXIBLE)
    other = c.Constraint(json_schema=PERSON.json_schema, json_format=form)
    assert compiled(constraints, other).constraint_id != compiled(constraints).constraint_id
    same = c.Constraint(json_schema=PERSON.json_schema, json_format=c.JsonFormat(formats=1))
    assert compiled(constraints, same).constraint_id == compiled(constraints).constraint_id


def test_a_pinned_constraint_is_there_until_it_is_deleted(constraints, stub):
    pattern = regex("pinned [0-9]{3}")
    pinned = compiled(constraints, pattern, pin=True)
    asked = {"constraint_id": pinned.constraint_id}
    got = constraints.GetConstraint(c.GetConstraintRequest(**asked), timeout=TIMEOUT).constraint
    assert (got.pinned, got.cached, got.example) == (True, True, pinned.example)
    constraints.DeleteConstraint(c.DeleteConstraintRequest(**asked), timeout=TIMEOUT)
    for call in (
        lambda: constraints.GetConstraint(c.GetConstraintRequest(**asked), timeout=TIMEOUT),
        lambda: stub.Generate(ask(constraint=c.Constraint(**asked)), timeout=TIMEOUT),
    ):
        code, reason, _ = refused(call)
        assert (code, reason) == ("NOT_FOUND", "UNKNOWN_CONSTRAINT")
    assert compiled(constraints, pattern).constraint_id == pinned.constraint_id


def test_deleting_a_constraint_leaves_a_stream_that_runs_with_it_alone(constraints, stub):
    found = compiled(constraints, regex("[a-z ]{60}"))
    by_id = c.Constraint(constraint_id=found.constraint_id)
    stream = stub.GenerateStream(ask(constraint=by_id), timeout=TIMEOUT)
    while next(stream).WhichOneof("event") != "delta":
        pass
    request = c.DeleteConstraintRequest(constraint_id=found.constraint_id)
    constraints.DeleteConstraint(request, timeout=TIMEOUT)
    assert [event.WhichOneof("event") for event in stream][-1] == "summary"


def test_every_refused_keyword_is_named_at_once_in_compiling_and_in_generating(constraints, stub):
    schema = {
        "not": {"uniqueItems": True},
        "properties": {"a": {"not": {"uniqueItems": True}}, "b": {"$ref": "other.json"}},
    }
    constraint = c.Constraint(json_schema=json.dumps(schema))
    for call in (
        lambda: compiled(constraints, constraint),
        lambda: stub.Generate(ask(constraint=constraint), timeout=TIMEOUT),
        lambda: checked(constraints, constraint, "{}"),
    ):
        code, reason, found = refused(call)
        assert (code, reason) == ("INVALID_ARGUMENT", "UNSUPPORTED_KEYWORD")
        violations = found["BadRequest"].field_violations
        assert {each.field for each in violations} == {"constraint.json_schema"}
        named = {each.description.removeprefix("at ").split(":")[0] for each in violations}
        assert {"/not/uniqueItems", "/properties/a/not/uniqueItems", "/properties/b/$ref"} <= named


JUDGED = [
    # text, verdict, offset, spelling only
    ('{"name":"Ada","age":36}', c.VERDICT_COMPLETE, 23, False),
    ('{\n"age": 36.0,\t"name": "Ada", "more": [null] }', c.VERDICT_COMPLETE, 46, False),
    ('{"name":"Ada","age":3', c.VERDICT_INCOMPLETE, 21, False),
    ("", c.VERDICT_INCOMPLETE, 0, False),
    ('{"name":"Ada","age":-1}', c.VERDICT_REJECTED, 21, False),
    ('{"name":"Ada","age":151}', c.VERDICT_REJECTED, 22, False),
    ('{"name":"Ada","age":36,"born":"1815-02-30"}', c.VERDICT_REJECTED, 39, False),
    ('{"name":"é","age":x}', c.VERDICT_REJECTED, 19, False),
    ('{"n\\u0061me":"Ada","age":36}', c.VERDICT_REJECTED, 4, True),
    ('{"name":"Ada","age":36}\n', c.VERDICT_REJECTED, 23, True),
    ('{"name":"Ada","age":36}{}', c.VERDICT_REJECTED, 23, False),
]


@pytest.mark.parametrize(("text", "verdict", "offset", "spelling"), JUDGED)
def test_a_text_is_judged(constraints, text, verdict, offset, spelling):
    found = checked(constraints, PERSON, text)
    assert found.verdict == verdict
    if verdict != c.VERDICT_REJECTED or not spelling:
        assert found.byte_offset == offset
    assert found.spelling_only == spelling
    assert found.HasField("shortest_completion") == (verdict == c.VERDICT_INCOMPLETE)
    if verdict == c.VERDICT_INCOMPLETE:
        assert valid(SCHEMA, text + found.shortest_completion)
        assert found.expected


def test_what_is_generated_is_complete_when_it_is_checked(constraints, stub):
    for seed in range(3):
        sampling = g.SamplingParams(temperature=1.5, seed=seed)
        response = stub.Generate(ask(constraint=PERSON, sampling=sampling), timeout=TIMEOUT)
        found = checked(constraints, PERSON, response.outputs[0].text)
        assert found.verdict == c.VERDICT_COMPLETE


def test_a_text_of_megabytes_is_judged_and_one_over_the_limit_refused(constraints):
    array = c.Constraint(json_schema='{"type": "array", "items": {"type": "integer"}}')
    text = "[" + "12," * 1_000_000
    found = checked(constraints, array, text)
    assert (found.verdict, found.byte_offset) == (c.VERDICT_INCOMPLETE, len(text))
    call = constraints.CheckText.future(
        c.CheckTextRequest(constraint=array, text=text * 2), timeout=TIMEOUT
    )
    assert call.exception().code() is grpc.StatusCode.RESOURCE_EXHAUSTED


# --- neighbours -------------------------------------------------------------------------------

DEEP = json.dumps({"allOf": [{"properties": {f"k{i}": {"minLength": i}}} for i in range(3_000)]})


def hostile(channel, stop: threading.Event, failures: list) -> None:
    """Asks for what takes long, one after the other, until told to stop."""
    constraints = constraint_pb2_grpc.ConstraintServiceStub(channel)
    tokens = model_pb2_grpc.ModelServiceStub(channel)
    anything = c.Constraint(json_schema="{}")
    number = 0
    while not stop.is_set():
        number += 1
        text = DEEP.replace("k1", f"x{number}")
        pattern = f"(a{{1,{900 - number}}}b){{1,40}}"
        calls = [
            constraints.CheckText.future(
                c.CheckTextRequest(constraint=anything, text=text), timeout=20
            ),
            constraints.CheckText.future(
                c.CheckTextRequest(constraint=anything, text="[" * 300_000), timeout=20
            ),
            constraints.CompileConstraint.future(
                c.CompileConstraintRequest(constraint=c.Constraint(json_schema=text)), timeout=20
            ),
            constraints.CompileConstraint.future(
                c.CompileConstraintRequest(constraint=c.Constraint(regex=pattern)), timeout=20
            ),
            tokens.Tokenize.future(m.TokenizeRequest(text="é" * 200_000), timeout=20),
        ]
        for call in calls:
            while not call.done() and not stop.is_set():
                time.sleep(0.01)
            if call.done() and (error := call.exception()):
                code = error.code()
                if code not in (
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    grpc.StatusCode.DEADLINE_EXCEEDED,
                    grpc.StatusCode.INVALID_ARGUMENT,
                ):
                    failures.append(error)
            call.cancel()


def gaps(stub) -> list[float]:
    """Seconds between the pieces of a stream of 50 tokens."""
    free = ask("Tell me a story.", stopping={"max_tokens": 50, "min_tokens": 50})
    times = []
    for event in stub.GenerateStream(free, timeout=TIMEOUT):
        if event.WhichOneof("event") == "delta":
            times.append(time.monotonic())  # noqa: PERF401 - the time of each
    return [after - before for before, after in pairwise(times)]


def test_hostile_texts_and_schemas_do_not_disturb_a_running_stream(stub, channel):
    alone = gaps(stub)
    stop, failures = threading.Event(), []
    attacker = threading.Thread(target=hostile, args=(channel, stop, failures))
    attacker.start()
    try:
        beside = gaps(stub)
    finally:
        stop.set()
        attacker.join()
    assert not failures
    assert statistics.median(beside) < 2 * statistics.median(alone) + 0.05
    assert max(beside) < max(alone) + 2


def test_the_details_of_a_status_fit_whatever_was_sent(constraints):
    """A place as long as the message itself is cut; the call has its status all the same."""
    name = "é" * 500_000
    constraint = c.Constraint(
        json_schema=json.dumps({"properties": {name: {"not": {"uniqueItems": True}}}})
    )
    with pytest.raises(grpc.RpcError) as caught:
        compiled(constraints, constraint)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert details(caught.value)["ErrorInfo"].reason == "UNSUPPORTED_KEYWORD"
