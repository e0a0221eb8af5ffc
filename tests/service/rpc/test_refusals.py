"""Every error has one code, one reason, and the details that a program needs."""

import pytest
from google.rpc import code_pb2, error_details_pb2

from grammar import errors as grammar_errors
from service import errors
from service.engine.types import Constraint, ServiceFailure
from service.errors import Code, ServiceError
from service.rpc import refusals
from service.rpc.convert import status

SCHEMA = Constraint(kind="json_schema", text="{}")


def details(error: ServiceError) -> dict:
    """The details of the status by their type's name."""
    kinds = {
        kind.DESCRIPTOR.full_name: kind
        for kind in vars(error_details_pb2).values()
        if isinstance(kind, type) and hasattr(kind, "DESCRIPTOR")
    }
    found = {}
    for packed in status.to_proto(error).details:
        message = kinds[packed.TypeName()]()
        assert packed.Unpack(message)
        found[packed.TypeName().rpartition(".")[2]] = message
    return found


def subclasses(root):
    return {root, *(each for child in root.__subclasses__() for each in subclasses(child))}


GRAMMAR = {
    grammar_errors.ConstraintSyntaxError: (Code.INVALID_ARGUMENT, "CONSTRAINT_SYNTAX"),
    grammar_errors.UnsupportedError: (Code.INVALID_ARGUMENT, "UNSUPPORTED_KEYWORD"),
    grammar_errors.Unsatisfiable: (Code.INVALID_ARGUMENT, "CONSTRAINT_UNSATISFIABLE"),
    grammar_errors.TooComplex: (Code.RESOURCE_EXHAUSTED, "CONSTRAINT_TOO_COMPLEX"),
}


def test_every_grammar_error_is_in_the_table():
    assert subclasses(grammar_errors.GrammarError) == {
        grammar_errors.GrammarError,
        *GRAMMAR,
    }


@pytest.mark.parametrize("kind", GRAMMAR, ids=lambda kind: kind.__name__)
def test_a_grammar_error_keeps_its_place(kind):
    error = refusals.from_grammar(kind("wrong here", "/properties/a@3"), SCHEMA)
    assert (error.code, error.reason) == GRAMMAR[kind]
    info = details(error)["ErrorInfo"]
    assert (info.domain, info.reason) == ("syntaxd", GRAMMAR[kind][1])
    assert info.metadata["location"] == "/properties/a@3"
    assert "at /properties/a@3: wrong here" in error.message


def test_an_unsupported_keyword_is_named():
    error = refusals.from_grammar(
        grammar_errors.UnsupportedError("not enforced", "/not", "not"), SCHEMA
    )
    found = details(error)
    assert found["ErrorInfo"].metadata["keyword"] == "not"
    violation = found["BadRequest"].field_violations[0]
    assert violation.field == "constraint.json_schema"
    assert violation.description == "at /not: not enforced"


def test_a_limit_is_named_and_no_retry_promised():
    error = refusals.from_grammar(
        grammar_errors.TooComplex("too many", "", "max_branches"), SCHEMA
    )
    found = details(error)
    assert found["QuotaFailure"].violations[0].subject == "max_branches"
    assert "RetryInfo" not in found
    assert "BadRequest" not in found


def test_a_busy_server_says_when_to_retry():
    found = details(errors.Busy("QUEUE_FULL", "full", retry_after_s=1.5, quota="requests"))
    assert found["RetryInfo"].retry_delay.ToMilliseconds() == 1_500


def test_an_engine_refusal_becomes_the_same_kind_of_error():
    error = refusals.from_failure(
        ServiceFailure(
            code="INVALID_ARGUMENT",
            reason="CONTEXT_LENGTH_EXCEEDED",
            message="too long",
            metadata={"promptTokens": "9"},
            field="prompt",
        )
    )
    found = details(error)
    assert found["ErrorInfo"].metadata == {"promptTokens": "9"}
    assert found["BadRequest"].field_violations[0].field == "prompt"


def test_an_unavailable_engine_says_when_to_retry():
    error = refusals.from_failure(
        ServiceFailure(code="UNAVAILABLE", reason="ENGINE_GONE", message="gone")
    )
    assert "RetryInfo" in details(error)


def test_codes_have_the_wire_numbers():
    for code in Code:
        assert code_pb2.Code.Value(code.name) == code.value


def test_the_tree_in_the_docstring_is_whole():
    for kind in subclasses(ServiceError):
        assert kind.__name__ in (errors.__doc__ or "")


def trailers(error):
    return dict(status.to_grpc(error).trailing_metadata)


@pytest.mark.parametrize(
    "error",
    [
        errors.Busy("QUEUE_FULL", "full", retry_after_s=2, quota="requests"),
        errors.Unavailable("DRAINING", "stopping", retry_after_s=2),
    ],
)
def test_retries_of_grpc_itself_are_told_the_time_and_a_little_more(error):
    said = [int(trailers(error)[status.PUSHBACK_KEY]) for _ in range(50)]
    assert all(2_000 <= each <= 2_000 * status.PUSHBACK_SPREAD for each in said)
    assert len(set(said)) > 1  # those who were refused together come back one by one
    assert details(error)["RetryInfo"].retry_delay.ToMilliseconds() == 2_000


def test_they_are_told_not_to_where_it_is_of_no_use():
    hopeless = ServiceError(Code.RESOURCE_EXHAUSTED, "COMPILE_TIMEOUT", "too long", quota="time")
    assert trailers(hopeless)[status.PUSHBACK_KEY] == "-1"
    wrong = errors.InvalidRequest("top_p", "is 2")
    assert status.PUSHBACK_KEY not in trailers(wrong)  # whose code nobody repeats


def test_a_full_engine_says_when_to_come_back_and_a_broken_constraint_does_not():
    def failure(code, reason):
        return refusals.from_failure(ServiceFailure(code=code, reason=reason, message="m"))

    assert failure("RESOURCE_EXHAUSTED", "QUEUE_FULL").retry_after_s == 1
    assert failure("UNAVAILABLE", "X").retry_after_s == 1
    assert failure("RESOURCE_EXHAUSTED", "X").retry_after_s is None
