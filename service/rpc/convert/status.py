"""ServiceError -> gRPC status with google.rpc details; every one carries ErrorInfo."""

from __future__ import annotations

import random

import grpc
from google.protobuf import any_pb2, duration_pb2, message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from service.errors import Code, ServiceError

DOMAIN = "syntaxd"
PUSHBACK_KEY = "grpc-retry-pushback-ms"
PUSHBACK_SPREAD = 1.25

# A status travels in the call's trailers, for which gRPC libraries accept 8 KiB by default; the
# message is in it twice, once with what is not ASCII as %XX, and the details as base64.
MAX_MESSAGE_BYTES = 512
MAX_VALUE_BYTES = 512
MAX_VIOLATIONS_BYTES = 2_400
_ELLIPSIS = "…"


def to_proto(error: ServiceError) -> status_pb2.Status:
    """google.rpc.Status with ErrorInfo and whichever of the other details apply.

    Texts that callers sent (a pointer through a key of a megabyte) may be in all of it, so each
    is cut, and there are as many violations as there is room for.
    """
    violations = _violations(error) if error.code is Code.INVALID_ARGUMENT else []
    metadata = {key: cut(value, MAX_VALUE_BYTES) for key, value in error.metadata.items()}
    if left_out := error.num_violations - len(violations) if violations else 0:
        metadata["violationsLeftOut"] = str(left_out)
    message_text = cut(error.message, MAX_MESSAGE_BYTES)
    details: list[message.Message] = [
        error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=metadata)
    ]
    if violations:
        details.append(error_details_pb2.BadRequest(field_violations=violations))
    if error.quota:
        details.append(
            error_details_pb2.QuotaFailure(
                violations=[
                    error_details_pb2.QuotaFailure.Violation(
                        subject=error.quota, description=message_text
                    )
                ]
            )
        )
    if error.retry_after_s is not None:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(round(error.retry_after_s * 1_000))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    return status_pb2.Status(
        code=int(error.code), message=message_text, details=[_packed(each) for each in details]
    )


def cut(text: str, max_bytes: int) -> str:
    """The text, or its beginning and an ellipsis, in at most so many bytes of UTF-8."""
    data = text.encode()
    if len(data) <= max_bytes:
        return text
    return data[: max_bytes - len(_ELLIPSIS.encode())].decode(errors="ignore") + _ELLIPSIS


def _violations(error: ServiceError) -> list[error_details_pb2.BadRequest.FieldViolation]:
    """The first ones, at least one."""
    found: list[error_details_pb2.BadRequest.FieldViolation] = []
    room = MAX_VIOLATIONS_BYTES
    for violation in error.violations:
        each = error_details_pb2.BadRequest.FieldViolation(
            field=violation.field, description=cut(violation.description, MAX_MESSAGE_BYTES)
        )
        room -= each.ByteSize()
        if found and room < 0:
            break
        found.append(each)
    return found


def to_grpc(error: ServiceError) -> grpc.Status:
    """What ``context.abort_with_status`` takes.

    Beside the details it has a word for the retries that gRPC's clients make by themselves, which
    do not read RetryInfo (https://github.com/grpc/proposal/blob/master/A6-client-retries.md).
    """
    found = rpc_status.to_status(to_proto(error))
    pushback = _pushback_ms(error)
    trailers = [*found.trailing_metadata]
    if pushback is not None:
        trailers.append((PUSHBACK_KEY, str(pushback)))
    return _Status(found.code, found.details, tuple(trailers))


class _Status(grpc.Status):
    """gRPC has an interface and no class for it."""

    def __init__(
        self, code: grpc.StatusCode, details: str, trailers: tuple[tuple[str, str | bytes], ...]
    ) -> None:
        self.code = code
        self.details = details
        self.trailing_metadata = trailers


def _pushback_ms(error: ServiceError) -> int | None:
    """Milliseconds until the next attempt; -1: there should be none; None: as the client likes."""
    if error.retry_after_s is not None:
        # Spread: those who were refused together need not come back together.
        return round(error.retry_after_s * 1_000 * random.uniform(1, PUSHBACK_SPREAD))  # noqa: S311
    return -1 if error.code is Code.RESOURCE_EXHAUSTED else None


def _packed(detail: message.Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(detail)
    return packed
