"""Every error of a call as an exception, with what the server said about it.

::

    SyntaxdError
    ├── InvalidRequestError       INVALID_ARGUMENT: the request is wrong; do not just repeat it
    │   ├── ConstraintError       CONSTRAINT_SYNTAX, UNSUPPORTED_KEYWORD, CONSTRAINT_UNSATISFIABLE
    │   └── BudgetTooSmallError   BUDGET_TOO_SMALL: ``min_output_tokens`` is enough
    ├── NotFoundError             NOT_FOUND: no such model, or the constraint is not known any more
    ├── AlreadyExistsError        ALREADY_EXISTS: a request with this id is running
    ├── ResourceExhaustedError    RESOURCE_EXHAUSTED: the queue, or a limit on one constraint
    ├── UnauthenticatedError      UNAUTHENTICATED: no API key, or one that the server does not know
    ├── UnavailableError          UNAVAILABLE: no server there, or it is stopping
    ├── DeadlineExceededError     DEADLINE_EXCEEDED: ``timeout`` passed (also a TimeoutError)
    ├── CallCancelledError        CANCELLED: the stream was cancelled
    ├── ServerError               INTERNAL and whatever else: a fault of the server
    ├── AnswerError               no status: the answer came, but the type refuses it
    └── UnmappableTypeError       no status: JSON Schema cannot say this type (also a TypeError)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2

_DETAILS_KEY = "grpc-status-details-bin"


class FieldViolation(NamedTuple):
    """One thing that is wrong with a request."""

    field: str  # its path in the request: "stopping.max_tokens"
    description: str


class SyntaxdError(Exception):
    """What went wrong, in attributes; compare ``reason``, never the message."""

    code: grpc.StatusCode | None
    """The status of the call; None for an error that is not a call's."""
    reason: str
    """UPPER_SNAKE, as the contract lists them; "" where the server gave none."""
    message: str
    """For people."""
    metadata: Mapping[str, str]
    """Numbers and places that belong to the reason: "minOutputTokens", "location", ..."""
    violations: tuple[FieldViolation, ...]
    """What is wrong with the request, field by field."""
    retry_after: float | None
    """Seconds after which the same request may be sent again; None: do not just repeat it."""

    def __init__(
        self,
        message: str,
        *,
        code: grpc.StatusCode | None = None,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        violations: Iterable[FieldViolation] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.metadata = dict(metadata or {})
        self.violations = tuple(violations)
        self.retry_after = retry_after

    @property
    def pointer(self) -> str | None:
        """Where in the constraint (of AnswerError: in the answer).

        A JSON Pointer ("" is the root), "@" and a byte offset into a regex or choice, or both:
        "/properties/zip/pattern@3". None where it is about no place.
        """
        return self.metadata.get("location")

    @property
    def field(self) -> str | None:
        """The path of the first wrong field in the request: "stopping.max_tokens"."""
        return self.violations[0].field if self.violations else None

    def __str__(self) -> str:
        label = self.reason or (self.code.name if self.code else "")
        return f"{label}: {self.message}" if label else self.message


class InvalidRequestError(SyntaxdError):
    """The request is wrong: correct it, do not repeat it unchanged."""


class ConstraintError(InvalidRequestError):
    """The constraint is malformed, not enforceable here, or matches no text."""


class BudgetTooSmallError(InvalidRequestError):
    """``max_tokens`` is less than the shortest whole answer needs."""

    @property
    def min_output_tokens(self) -> int:
        """As ``max_tokens`` this is enough."""
        return int(self.metadata["minOutputTokens"])


class NotFoundError(SyntaxdError):
    """No such model, or a constraint that is not known to the server (any more)."""


class AlreadyExistsError(SyntaxdError):
    """A request with this ``request_id`` is still running."""


class ResourceExhaustedError(SyntaxdError):
    """With ``retry_after``: the server is busy. Without: the request is over a limit."""


class UnauthenticatedError(SyntaxdError):
    """The server asks for an API key: metadata ``authorization: Bearer KEY``."""


class UnavailableError(SyntaxdError):
    """No server answers at the address, or it is stopping: try again later or elsewhere."""


class DeadlineExceededError(SyntaxdError, TimeoutError):
    """``timeout`` passed before the answer was there."""


class CallCancelledError(SyntaxdError):
    """The call was cancelled before its answer was whole."""


class ServerError(SyntaxdError):
    """A fault of the server."""

    @property
    def incident(self) -> str | None:
        """The number under which the server's log tells more."""
        return self.metadata.get("incident")


class AnswerError(SyntaxdError):
    """The answer came, but the type refuses it: by a validator of its own, or it is not whole."""

    text: str
    """The answer as it came."""

    def __init__(self, message: str, text: str, pointer: str | None = None) -> None:
        super().__init__(message, metadata={} if pointer is None else {"location": pointer})
        self.text = text


class UnmappableTypeError(SyntaxdError, TypeError):
    """The Python type has no JSON Schema here; the message names the part and the reason."""


_BY_REASON: dict[str, type[SyntaxdError]] = {
    "CONSTRAINT_SYNTAX": ConstraintError,
    "UNSUPPORTED_KEYWORD": ConstraintError,
    "CONSTRAINT_UNSATISFIABLE": ConstraintError,
    "BUDGET_TOO_SMALL": BudgetTooSmallError,
}
_BY_CODE: dict[grpc.StatusCode, type[SyntaxdError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequestError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExistsError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhaustedError,
    grpc.StatusCode.UNAUTHENTICATED: UnauthenticatedError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceededError,
    grpc.StatusCode.CANCELLED: CallCancelledError,
}


def from_call(error: grpc.RpcError) -> SyntaxdError:
    """The exception for a failed call of grpc or grpc.aio."""
    code, info, bad_request, retry = error.code(), None, None, None
    for detail in _details(error):
        match detail:
            case error_details_pb2.ErrorInfo():
                info = detail
            case error_details_pb2.BadRequest():
                bad_request = detail
            case error_details_pb2.RetryInfo():
                retry = detail.retry_delay
    reason = info.reason if info else ""
    kind = _BY_REASON.get(reason) or _BY_CODE.get(code, ServerError)
    return kind(
        error.details() or "no message",
        code=code,
        reason=reason,
        metadata=info.metadata if info else None,
        violations=[
            FieldViolation(each.field, each.description)
            for each in (bad_request.field_violations if bad_request else ())
        ],
        retry_after=retry.ToTimedelta().total_seconds() if retry else None,
    )


def invalid_field(path: str, message: str) -> InvalidRequestError:
    """What the server would say of a value that the wire cannot even carry."""
    return InvalidRequestError(
        f"{path}: {message}",
        code=grpc.StatusCode.INVALID_ARGUMENT,
        reason="INVALID_FIELD",
        violations=[FieldViolation(path, message)],
    )


def cancelled() -> CallCancelledError:
    """What grpc says of a call that was cancelled on this side."""
    return CallCancelledError("cancelled here", code=grpc.StatusCode.CANCELLED)


def _details(error: grpc.RpcError) -> list[Message]:
    """The google.rpc messages in the trailers; none from a proxy or an unreachable server."""
    # Pairs in either library; the stubs of one know only their attributes.
    trailers = cast("Iterable[tuple[str, bytes]]", error.trailing_metadata() or ())
    for key, value in trailers:
        if key == _DETAILS_KEY:
            try:
                packed = status_pb2.Status.FromString(value).details
            except DecodeError:
                return []
            return [each for each in map(_unpacked, packed) if each is not None]
    return []


def _unpacked(packed: Message) -> Message | None:
    for kind in (
        error_details_pb2.ErrorInfo,
        error_details_pb2.BadRequest,
        error_details_pb2.RetryInfo,
    ):
        message: Message = kind()
        if packed.Unpack(message):  # type: ignore[attr-defined]
            return message
    return None
