"""What the service answers when it does not answer: one exception, a table of codes, no gRPC.

    ServiceError            anything a caller is told; carries its code, reason and details
    ├── InvalidRequest      a field of the request is wrong (names it)
    ├── NotFound            no such model
    ├── Busy                over a limit that passes: try again after ``retry_after_s``
    ├── Unavailable         loading, draining, or the engine has gone
    ├── DeadlineExceeded    the caller's deadline passed
    └── InternalError       a broken invariant of ours; the message carries an id, never details

``rpc.convert`` is the one place that turns these into a gRPC status.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class Code(enum.IntEnum):
    """The status codes that the service uses, with the numbers of ``google.rpc.Code``."""

    CANCELLED = 1  # the caller went away
    INVALID_ARGUMENT = 3  # the request is wrong, whatever the state of the server
    DEADLINE_EXCEEDED = 4  # the deadline passed, or cannot be met
    NOT_FOUND = 5  # names something that is not here
    ALREADY_EXISTS = 6  # the request id is in use
    RESOURCE_EXHAUSTED = 8  # over a limit: of the queue (retry) or of a constraint (do not)
    INTERNAL = 13  # our fault
    UNAVAILABLE = 14  # not now, or not here: retry elsewhere
    UNAUTHENTICATED = 16  # without a key that this server knows


@dataclass(frozen=True, slots=True)
class Violation:
    """One wrong field: its path in the request (``sampling.top_p``) and what is wrong with it."""

    field: str
    description: str


class ServiceError(Exception):
    """An answer other than a result. Raise a subclass where one fits.

    ``reason`` is UPPER_SNAKE and stable: programs may compare it. ``metadata`` has lowerCamel
    keys with units in their names. ``retry_after_s`` present = retrying the same request may work.
    ``num_violations``: how many there are, where ``violations`` are the first of many.
    ``quota`` names a limit that the request is over, for google.rpc.QuotaFailure.
    """

    def __init__(
        self,
        code: Code,
        reason: str,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        violations: Sequence[Violation] = (),
        num_violations: int | None = None,
        retry_after_s: float | None = None,
        quota: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.metadata = dict(metadata or {})
        self.violations = tuple(violations)
        self.num_violations = num_violations or len(self.violations)
        self.retry_after_s = retry_after_s
        self.quota = quota


class InvalidRequest(ServiceError):  # noqa: N818 - names the verdict
    """A field of the request is wrong: ``field`` is its path, ``message`` says what to change."""

    def __init__(
        self,
        field: str,
        message: str,
        *,
        reason: str = "INVALID_FIELD",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            Code.INVALID_ARGUMENT,
            reason,
            f"{field}: {message}",
            metadata=metadata,
            violations=(Violation(field, message),),
        )
        self.field = field


class NotFound(ServiceError):  # noqa: N818 - names the verdict
    """The request names something that is not here."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(Code.NOT_FOUND, reason, message)


class Busy(ServiceError):  # noqa: N818 - names the verdict
    """The server has as much to do as it accepts."""

    def __init__(self, reason: str, message: str, *, retry_after_s: float, quota: str) -> None:
        super().__init__(
            Code.RESOURCE_EXHAUSTED, reason, message, retry_after_s=retry_after_s, quota=quota
        )


class Unavailable(ServiceError):  # noqa: N818 - names the verdict
    """Not now or not here; nothing was done, so the request may be sent elsewhere."""

    def __init__(self, reason: str, message: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(Code.UNAVAILABLE, reason, message, retry_after_s=retry_after_s)


class DeadlineExceeded(ServiceError):  # noqa: N818 - names the verdict
    """The caller's deadline passed before the answer was whole."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED", message)


class InternalError(ServiceError):
    """A fault of ours. ``incident`` is the id under which the log has the details."""

    def __init__(self, incident: str) -> None:
        super().__init__(
            Code.INTERNAL,
            "INTERNAL",
            f"internal error; the server's log has it as incident {incident}",
            metadata={"incident": incident},
        )
