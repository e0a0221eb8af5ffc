"""Refusals and faults of a request, in the form that travels."""

from __future__ import annotations

import logging
import sys
import uuid

from service.engine.types import ServiceFailure

_log = logging.getLogger(__name__)


def failure(
    code: str, reason: str, message: str, field: str = "", **metadata: int | str
) -> ServiceFailure:
    """See ``ServiceFailure``; metadata becomes text."""
    texts = {key: str(value) for key, value in metadata.items()}
    return ServiceFailure(code=code, reason=reason, message=message, field=field, metadata=texts)


def incident(what: str) -> str:
    """Logs what went wrong, with the exception being handled if there is one; gives its id."""
    name = uuid.uuid4().hex[:12]
    _log.error("incident %s: %s", name, what, exc_info=sys.exc_info()[0] is not None)
    return name


def internal(name: str) -> ServiceFailure:
    """A fault of ours, that the log has under an incident's id."""
    return failure(
        "INTERNAL",
        "INTERNAL",
        f"internal error; the server's log has it as incident {name}",
        incident=name,
    )
