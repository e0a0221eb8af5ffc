"""Bytes that are no message: INVALID_ARGUMENT, where gRPC itself would answer UNKNOWN.

The interceptor lets the deserialiser's error through as the request, and a guard in front of the
real handler answers it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from typing_extensions import override

from service.errors import Code, ServiceError
from service.rpc.answering import Context
from service.rpc.convert import status
from service.rpc.guards import Handler, Parse, guarded, is_ours


class MalformedMessages(grpc.aio.ServerInterceptor):
    """Answers requests that do not parse."""

    @override
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        if handler is None or not is_ours(handler_call_details):
            return handler  # None: no such method, which gRPC answers
        return guarded(handler, _refuse_malformed, _lenient(handler.request_deserializer))


def _lenient(parse: Any) -> Parse:
    """The deserialiser, with its error as the result."""

    def parsed(data: bytes) -> Any:
        try:
            return parse(data)
        except DecodeError as error:
            return error

    return parsed


async def _refuse_malformed(request: Any, context: Context) -> None:
    if isinstance(request, DecodeError):
        error = ServiceError(
            Code.INVALID_ARGUMENT, "MALFORMED_MESSAGE", f"the request does not parse: {request}"
        )
        await context.abort_with_status(status.to_grpc(error))
