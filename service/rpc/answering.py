"""How every call ends: with an answer, a ServiceError (one ``except``, one table), or a fault of
ours, which the log gets in full and the caller as INTERNAL with an id.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import grpc

from service import logs
from service.errors import InternalError, ServiceError
from service.rpc.convert import status

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"  # generic in the stubs only
_log = logging.getLogger(__name__)


@asynccontextmanager
async def answering_errors(context: Context) -> AsyncIterator[None]:
    """Turns exceptions into the call's status. Cancellation passes through."""
    try:
        yield
    except ServiceError as error:
        await context.abort_with_status(status.to_grpc(error))
    except Exception:  # noqa: BLE001 - whatever it is, the caller gets a status and an id
        incident = uuid.uuid4().hex[:12]
        _log.exception("incident %s", incident, extra=logs.fields(incident=incident))
        await context.abort_with_status(status.to_grpc(InternalError(incident)))
