"""ConstraintService over a real socket, with a scripted compiler behind it."""

import asyncio

import grpc
import pytest

from grammar import Diagnostic, KeywordReport, TooComplex, Unsatisfiable, UnsupportedError
from service.rpc.pb.v1 import constraint_pb2 as c
from service.rpc.pb.v1 import constraint_pb2_grpc, generation_pb2_grpc
from service.rpc.pb.v1 import generation_pb2 as g
from tests.service.rpc.calls import details, refused, until
from tests.service.rpc.fakes import FakeGrammar, serving

YES = c.Constraint(regex="yes")
SCHEMA = c.Constraint(json_schema='{"not": {}}')


@pytest.fixture
async def served():
    async with serving() as each:
        yield each


@pytest.fixture
def stub(served):
    return constraint_pb2_grpc.ConstraintServiceStub(served.channel)


def compiling(constraint=YES, **fields):
    return c.CompileConstraintRequest(constraint=constraint, **fields)


def by_id(constraint_id):
    return c.Constraint(constraint_id=constraint_id)


async def compiled(stub, constraint=YES, **fields):
    return (await stub.CompileConstraint(compiling(constraint, **fields))).constraint


# --- CompileConstraint ------------------------------------------------------------------------


async def test_what_is_known_of_a_constraint(served, stub):
    served.compiler.compiled = FakeGrammar(diagnostics=(Diagnostic("FORMAT_UNKNOWN", "/f", "?"),))
    served.compiler.reports = (
        KeywordReport("/f", "format", "annotation", "unknown"),
        KeywordReport("/type", "type", "enforced", ""),
    )
    first = await compiled(stub)
    assert first.min_output_tokens == 3
    assert first.max_output_tokens == 9
    assert first.example == "yes"
    assert first.compiled_bytes > 100
    assert first.compile_time_us == 17
    assert (first.cached, first.pinned) == (False, False)
    assert [(each.severity, each.code) for each in first.diagnostics] == [
        (c.SEVERITY_WARNING, "FORMAT_UNKNOWN")
    ]
    assert [(each.location, each.keyword, each.treatment) for each in first.keywords] == [
        ("/f", "format", c.KEYWORD_TREATMENT_ANNOTATION),
        ("/type", "type", c.KEYWORD_TREATMENT_ENFORCED),
    ]
    again = await compiled(stub)
    assert again.cached
    assert again.constraint_id == first.constraint_id


async def test_an_infinite_language_has_no_longest_output(served, stub):
    served.compiler.longest = None
    assert not (await compiled(stub)).HasField("max_output_tokens")


async def test_long_reports_are_cut_and_counted(served, stub):
    many = [KeywordReport(f"/{i}", "type", "enforced", "") for i in range(2_000)]
    served.compiler.compiled = FakeGrammar(
        diagnostics=tuple(Diagnostic("OBJECT_CLOSED", "/x" * 100, "") for _ in range(2_000))
    )
    served.compiler.reports = many[:1_000]
    served.compiler.num_keywords = 2_000
    async with serving(max_message_bytes=4 << 20) as roomy:
        roomy.compiler.__dict__.update(served.compiler.__dict__)
        stub = constraint_pb2_grpc.ConstraintServiceStub(roomy.channel)
        found = await compiled(stub)
    assert (len(found.keywords), found.keywords_left_out) == (1_000, 1_000)
    assert (len(found.diagnostics), found.diagnostics_left_out) == (1_000, 1_000)


async def test_every_refused_keyword_is_a_violation(served, stub):
    served.compiler.error = UnsupportedError("not is not enforced yet", "/not", "not")
    served.compiler.reports = (
        KeywordReport("/not", "not", "refused", "not is not enforced yet"),
        KeywordReport("/a/contains", "contains", "refused", "contains is not enforced yet"),
    )
    call = stub.CompileConstraint(compiling(SCHEMA))
    code, reason, metadata = await refused(call)
    assert (code, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "UNSUPPORTED_KEYWORD")
    assert metadata == {"keyword": "not", "location": "/not"}
    found = (await details(call))["BadRequest"].field_violations
    assert [(each.field, each.description) for each in found] == [
        ("constraint.json_schema", "at /not: not is not enforced yet"),
        ("constraint.json_schema", "at /a/contains: contains is not enforced yet"),
    ]


async def test_very_many_refused_keywords_fit_the_status_and_are_counted(served, stub):
    served.compiler.error = UnsupportedError("not enforced", "/not", "not")
    served.compiler.reports = tuple(
        KeywordReport(f"/{i}/not", "not", "refused", "é" * 3_000) for i in range(5_000)
    )
    call = stub.CompileConstraint(compiling(SCHEMA))
    _, _, metadata = await refused(call)
    found = (await details(call))["BadRequest"].field_violations
    assert 1 <= len(found) < 20
    assert int(metadata["violationsLeftOut"]) == 5_000 - len(found)


async def test_a_place_as_long_as_a_message_fits_the_status(served, stub):
    served.compiler.error = UnsupportedError("not enforced " * 10_000, "/é" * 200_000, "not")
    code, reason, metadata = await refused(stub.CompileConstraint(compiling(SCHEMA)))
    assert (code, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "UNSUPPORTED_KEYWORD")
    assert metadata["location"].endswith("…")


REFUSED = [
    ("INVALID_ARGUMENT", "CONSTRAINT_SYNTAX", {"constraint": c.Constraint(regex="(")}),
    ("INVALID_ARGUMENT", "INVALID_FIELD", {"constraint": c.Constraint()}),
    ("INVALID_ARGUMENT", "INVALID_FIELD", {"constraint": by_id("")}),
    ("NOT_FOUND", "UNKNOWN_MODEL", {"model": "gpt"}),
    ("NOT_FOUND", "UNKNOWN_CONSTRAINT", {"constraint": by_id("none")}),
]


@pytest.mark.parametrize(("code", "reason", "fields"), REFUSED)
async def test_compile_and_check_refuse_alike(stub, code, reason, fields):
    fields = {"constraint": YES, **fields}
    compiling = await refused(stub.CompileConstraint(c.CompileConstraintRequest(**fields)))
    checking = await refused(stub.CheckText(c.CheckTextRequest(text="x", **fields)))
    assert compiling == checking
    assert compiling[:2] == (grpc.StatusCode[code], reason)


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (Unsatisfiable("no text", ""), "INVALID_ARGUMENT", "CONSTRAINT_UNSATISFIABLE"),
        (TooComplex("", "", "max_x"), "RESOURCE_EXHAUSTED", "CONSTRAINT_TOO_COMPLEX"),
        (TimeoutError(), "RESOURCE_EXHAUSTED", "COMPILE_TIMEOUT"),
    ],
)
async def test_compiler_errors(served, stub, error, code, reason):
    served.compiler.error = error
    for call in (
        stub.CompileConstraint(compiling()),
        stub.CheckText(c.CheckTextRequest(constraint=YES, text="x")),
    ):
        found = await refused(call)
        assert found[:2] == (grpc.StatusCode[code], reason)
        assert ("QuotaFailure" in await details(call)) == (code == "RESOURCE_EXHAUSTED")


async def test_json_format_beside_an_id_is_refused(stub):
    known = await compiled(stub)
    both = c.Constraint(constraint_id=known.constraint_id, json_format=c.JsonFormat())
    call = stub.CompileConstraint(compiling(both))
    assert (await refused(call))[1] == "INVALID_FIELD"
    found = (await details(call))["BadRequest"].field_violations
    assert found[0].field == "constraint.json_format"


# --- pins -------------------------------------------------------------------------------------


async def test_pinning_is_bounded_and_deleting_makes_room(served, stub):
    ids = []
    for text in "ab":
        found = await compiled(stub, c.Constraint(regex=text), pin=True)
        assert found.pinned
        ids.append(found.constraint_id)
    third = c.Constraint(regex="c")
    call = stub.CompileConstraint(compiling(third, pin=True))
    code, reason, _ = await refused(call)
    assert (code, reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA")
    assert (await details(call))["QuotaFailure"].violations[0].subject == "max_pins"
    assert (await compiled(stub, third)).cached
    await stub.DeleteConstraint(c.DeleteConstraintRequest(constraint_id=ids[0]))
    assert (await compiled(stub, third, pin=True)).pinned


async def test_pinned_bytes_are_bounded(served, stub):
    served.compiler.compiled = FakeGrammar(nbytes=2_000)
    call = stub.CompileConstraint(compiling(pin=True))
    assert (await refused(call))[1] == "QUOTA"
    assert (await details(call))["QuotaFailure"].violations[0].subject == "max_pinned_bytes"


async def test_one_that_is_known_can_be_pinned_by_its_id(stub):
    known = await compiled(stub)
    pinned = await compiled(stub, by_id(known.constraint_id), pin=True)
    assert (pinned.constraint_id, pinned.pinned) == (known.constraint_id, True)
    assert (await compiled(stub)).pinned  # a call without pin does not unpin


# --- GetConstraint, DeleteConstraint ----------------------------------------------------------


async def test_get_says_again_what_compiling_said(stub):
    first = await compiled(stub, pin=True)
    again = await stub.GetConstraint(c.GetConstraintRequest(constraint_id=first.constraint_id))
    first.cached = True
    assert again.constraint == first


async def test_a_deleted_constraint_is_unknown_to_every_rpc(served, stub):
    known = await compiled(stub, pin=True)
    asked = known.constraint_id
    await stub.DeleteConstraint(c.DeleteConstraintRequest(constraint_id=asked))
    generation = generation_pb2_grpc.GenerationServiceStub(served.channel)
    for call in (
        stub.GetConstraint(c.GetConstraintRequest(constraint_id=asked)),
        stub.DeleteConstraint(c.DeleteConstraintRequest(constraint_id=asked)),
        stub.CheckText(c.CheckTextRequest(constraint=by_id(asked), text="x")),
        stub.CompileConstraint(compiling(by_id(asked))),
        generation.Generate(g.GenerateRequest(prompt="x", constraint=by_id(asked))),
    ):
        code, reason, _ = await refused(call)
        assert (code, reason) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_CONSTRAINT")
        assert "compile the constraint again" in (await call.details())


@pytest.mark.parametrize("rpc", ["GetConstraint", "DeleteConstraint"])
async def test_an_empty_id_is_a_wrong_field(stub, rpc):
    request = getattr(c, f"{rpc}Request")()
    assert (await refused(getattr(stub, rpc)(request)))[1] == "INVALID_FIELD"


# --- ids in requests --------------------------------------------------------------------------


async def test_an_id_stands_for_its_constraint_in_both_ways_to_generate(served, stub):
    known = await compiled(stub)
    generation = generation_pb2_grpc.GenerationServiceStub(served.channel)
    request = g.GenerateRequest(prompt="x", constraint=by_id(known.constraint_id))
    assert (await generation.Generate(request)).outputs[0].text == "yes"
    assert [event async for event in generation.GenerateStream(request)]
    for submitted, lexemes in served.engine.submitted:
        assert submitted.constraint.text == "yes"
        assert lexemes == {"a": "automaton"}


async def test_a_constraint_that_generating_compiled_is_known_by_its_id(served, stub):
    generation = generation_pb2_grpc.GenerationServiceStub(served.channel)
    await generation.Generate(g.GenerateRequest(prompt="x", constraint=YES))
    assert (await compiled(stub)).cached


async def test_the_model_is_told_of_a_constraint_given_by_its_id(served, stub):
    known = await compiled(stub, c.Constraint(json_schema='{ "type" : "null" }'))
    chat = g.ChatInput(
        messages=[g.ChatMessage(role="user", content="?")], describe_constraint=True
    )
    generation = generation_pb2_grpc.GenerationServiceStub(served.channel)
    constraint = by_id(known.constraint_id)
    await generation.Generate(g.GenerateRequest(chat=chat, constraint=constraint))
    ((submitted, _),) = served.engine.submitted
    assert bytes(submitted.prompt_ids).endswith(b'nothing else:\n{"type":"null"}')


# --- CheckText --------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [False, True])
async def test_a_text_is_judged_under_a_constraint_or_its_id(stub, named):
    constraint = by_id((await compiled(stub)).constraint_id) if named else YES
    right = await stub.CheckText(c.CheckTextRequest(constraint=constraint, text="yes"))
    assert (right.verdict, right.byte_offset) == (c.VERDICT_COMPLETE, 3)
    assert list(right.expected) == ["y"]
    assert not right.HasField("shortest_completion")
    wrong = await stub.CheckText(c.CheckTextRequest(constraint=constraint, text="no"))
    assert (wrong.verdict, wrong.byte_offset) == (c.VERDICT_REJECTED, 0)
    assert wrong.spelling_only


async def test_checking_makes_no_constraint_known(stub):
    await stub.CheckText(c.CheckTextRequest(constraint=YES, text="yes"))
    assert not (await compiled(stub)).cached


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError(), "CHECK_TIMEOUT"),
        (TooComplex("tables", "@7", "max_arena_bytes"), "CONSTRAINT_TOO_COMPLEX"),
    ],
)
async def test_a_text_that_takes_too_much_is_not_called_wrong(served, stub, error, reason):
    served.compiler.check_error = error
    call = stub.CheckText(c.CheckTextRequest(constraint=YES, text="yes"))
    code, got, _ = await refused(call)
    assert (code, got) == (grpc.StatusCode.RESOURCE_EXHAUSTED, reason)
    assert (await details(call))["QuotaFailure"].violations[0].subject


async def test_calls_beyond_the_capacity_are_refused_and_places_come_free(served, stub):
    served.compiler.gate.clear()
    running = [
        asyncio.ensure_future(stub.CheckText(c.CheckTextRequest(constraint=YES, text="yes")))
        for _ in range(2)
    ]
    await until(lambda: served.server.draining.num_running == 2)
    await asyncio.sleep(0.05)
    for call in (
        stub.CheckText(c.CheckTextRequest(constraint=YES, text="yes")),
        stub.CompileConstraint(compiling()),
    ):
        code, reason, _ = await refused(call)
        assert (code, reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL")
        assert "RetryInfo" in await details(call)
    running[0].cancel()
    await until(lambda: served.server.draining.num_running == 1)
    served.compiler.gate.set()
    assert await compiled(stub)
    assert (await running[1]).verdict == c.VERDICT_COMPLETE
