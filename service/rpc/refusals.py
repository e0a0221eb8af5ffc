"""Errors of the other layers, as answers: which code, which reason, which field.

A grammar error knows nothing of a service, and the engine process sends plain data; here both
become ServiceErrors.
"""

from __future__ import annotations

from grammar import errors as grammar_errors
from service.engine.known import Excerpt
from service.engine.types import Constraint, ServiceFailure
from service.errors import Code, ServiceError, Violation


def from_grammar(
    error: grammar_errors.GrammarError,
    constraint: Constraint,
    refused: Excerpt | None = None,
) -> ServiceError:
    """A constraint that does not compile, as an answer that names its place and what to do.

    ``refused``: all keywords that are refused, where ``error`` is about the first of them.
    """
    field = constraint.field
    code, reason, quota = Code.INVALID_ARGUMENT, "CONSTRAINT_SYNTAX", ""
    metadata: dict[str, str] = {}
    match error:
        case grammar_errors.UnsupportedError():
            reason, metadata = "UNSUPPORTED_KEYWORD", {"keyword": error.keyword}
        case grammar_errors.Unsatisfiable():
            reason = "CONSTRAINT_UNSATISFIABLE"
        case grammar_errors.TooComplex():
            code, reason, quota = Code.RESOURCE_EXHAUSTED, "CONSTRAINT_TOO_COMPLEX", error.limit
            metadata = {"limit": error.limit}
    place = error.location or "its root"
    refused = refused or Excerpt()
    wrong = [(each.location, each.reason) for each in refused.reports]
    wrong = wrong or [(error.location, error.message)]
    return ServiceError(
        code,
        reason,
        f"{field}: at {place}: {error.message}",
        metadata={"location": error.location, **metadata},
        violations=tuple(
            Violation(field, f"at {location or 'its root'}: {why}") for location, why in wrong
        ),
        num_violations=max(len(wrong), refused.total),
        quota=quota,
    )


def from_failure(failure: ServiceFailure) -> ServiceError:
    """A refusal that the engine process sent."""
    code = Code[failure.code]
    violations = (Violation(failure.field, failure.message),) if failure.field else ()
    return ServiceError(
        code,
        failure.reason,
        failure.message,
        metadata=failure.metadata,
        violations=violations,
        retry_after_s=1.0 if code is Code.UNAVAILABLE or failure.reason == "QUEUE_FULL" else None,
    )
