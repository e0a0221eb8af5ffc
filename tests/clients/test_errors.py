"""What is raised for each error."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2 as details

import syntaxd_client
from tests.clients.fake_server import refusal, running
from tests.clients.said import EVENTS, RESPONSE


def info(reason: str, **metadata: str) -> details.ErrorInfo:
    return details.ErrorInfo(reason=reason, domain="syntaxd", metadata=metadata)


def bad(field: str, description: str) -> details.BadRequest:
    return details.BadRequest(
        field_violations=[details.BadRequest.FieldViolation(field=field, description=description)]
    )


S = grpc.StatusCode


ERRORS = [
    (S.INVALID_ARGUMENT, "INVALID_FIELD", syntaxd_client.InvalidRequestError),
    (S.INVALID_ARGUMENT, "CONSTRAINT_SYNTAX", syntaxd_client.ConstraintError),
    (S.INVALID_ARGUMENT, "UNSUPPORTED_KEYWORD", syntaxd_client.ConstraintError),
    (S.INVALID_ARGUMENT, "CONSTRAINT_UNSATISFIABLE", syntaxd_client.ConstraintError),
    (S.INVALID_ARGUMENT, "BUDGET_TOO_SMALL", syntaxd_client.BudgetTooSmallError),
    (S.INVALID_ARGUMENT, "NEW_REASON", syntaxd_client.InvalidRequestError),
    (S.NOT_FOUND, "UNKNOWN_MODEL", syntaxd_client.NotFoundError),
    (S.ALREADY_EXISTS, "REQUEST_ID_IN_USE", syntaxd_client.AlreadyExistsError),
    (S.RESOURCE_EXHAUSTED, "QUEUE_FULL", syntaxd_client.ResourceExhaustedError),
    (S.UNAUTHENTICATED, "UNKNOWN_API_KEY", syntaxd_client.UnauthenticatedError),
    (S.UNAVAILABLE, "DRAINING", syntaxd_client.UnavailableError),
    (S.DEADLINE_EXCEEDED, "", syntaxd_client.DeadlineExceededError),
    (S.CANCELLED, "", syntaxd_client.CallCancelledError),
    (S.INTERNAL, "INTERNAL", syntaxd_client.ServerError),
    (S.UNIMPLEMENTED, "", syntaxd_client.ServerError),
]


@pytest.mark.parametrize("method", ["generate", "stream"])
@pytest.mark.parametrize(("code", "reason", "kind"), ERRORS, ids=lambda each: str(each))
def test_every_status_is_an_exception_of_its_own(open_client, method, code, reason, kind):
    said = refusal(code, "so it is", *([info(reason)] if reason else []))
    answers_ = {"Generate": said, "GenerateStream": [EVENTS[0], EVENTS[1], said]}
    with running(**answers_) as server:
        client = open_client(server.address, retry=None)
        if method == "generate":
            with pytest.raises(kind) as caught:
                client.generate("Hi.")
        else:
            stream = client.stream("Hi.")
            assert next(stream) == '{"name":'
            with pytest.raises(kind) as caught:
                stream.result()
    error = caught.value
    assert type(error) is kind
    assert (error.code, error.reason, error.message) == (code, reason, "so it is")
    assert isinstance(error.__cause__, grpc.RpcError)
    assert (error.pointer, error.field, error.retry_after) == (None, None, None)
    assert str(error) == f"{reason or code.name}: so it is"


def test_an_error_brings_all_its_details(open_client):
    said = refusal(
        S.INVALID_ARGUMENT,
        "m",
        info("UNSUPPORTED_KEYWORD", location="/not", keyword="not"),
        bad("constraint.json_schema", "d"),
        details.QuotaFailure(),  # which we have no use for
        details.RetryInfo(retry_delay=duration_pb2.Duration(seconds=1, nanos=500_000_000)),
    )
    with running(Generate=said) as server, pytest.raises(syntaxd_client.ConstraintError) as caught:
        open_client(server.address).generate("Hi.")
    error = caught.value
    assert error.pointer == "/not"
    assert error.metadata == {"location": "/not", "keyword": "not"}
    assert error.field == "constraint.json_schema"
    assert error.violations == (syntaxd_client.FieldViolation("constraint.json_schema", "d"),)
    assert error.retry_after == 1.5


def test_a_budget_too_small_says_which_one_suffices(open_client):
    said = refusal(S.INVALID_ARGUMENT, "m", info("BUDGET_TOO_SMALL", minOutputTokens="12"))
    with (
        running(Generate=said) as server,
        pytest.raises(syntaxd_client.BudgetTooSmallError) as caught,
    ):
        open_client(server.address).generate("Hi.")
    assert caught.value.min_output_tokens == 12


def test_no_server_is_unavailable(open_client):
    with running() as server:
        address = server.address
    with pytest.raises(syntaxd_client.UnavailableError) as caught:
        open_client(address).generate("Hi.")
    assert caught.value.reason == ""


def test_details_that_are_no_details_do_no_harm(open_client):
    said = refusal(S.INTERNAL, "m")
    said.trailers = (("grpc-status-details-bin", b"\xff\xff"),)
    with running(Generate=said) as server, pytest.raises(syntaxd_client.ServerError) as caught:
        open_client(server.address).generate("Hi.")
    assert caught.value.message == "m"


def test_an_asyncio_call_is_cancelled_with_its_task():
    async def run() -> None:
        def never(request):
            import time

            time.sleep(1)
            return RESPONSE

        with running(Generate=never) as server:
            async with syntaxd_client.AsyncClient(server.address) as client:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(client.generate("Hi."), 0.05)

    asyncio.run(run())


def test_the_public_names_are_those_that_are_there():
    for name in syntaxd_client.__all__:
        assert getattr(syntaxd_client, name).__doc__ or name in ("JsonSchema", "Prompt")


def test_every_exception_has_a_place_in_the_tree():
    public = {
        each
        for each in vars(syntaxd_client).values()
        if isinstance(each, type) and issubclass(each, Exception)
    }
    assert all(issubclass(each, syntaxd_client.SyntaxdError) for each in public)
    drawn = syntaxd_client.errors.__doc__
    assert all(each.__name__ in drawn for each in public)
    assert len(public) == drawn.count("──") + 1
    readme = (Path(__file__).resolve().parents[2] / "clients/python/README.md").read_text()
    assert drawn.partition("::\n\n")[2].replace("``", "`").strip() in indented(readme)


def indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.splitlines())
