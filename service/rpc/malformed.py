"""Bytes that are no message: INVALID_ARGUMENT, where gRPC itself would answer UNKNOWN.

The interceptor lets the deserialiser's error through as the request, and a handler in front of
the real one answers it. Only our own services: others (health) have handlers of other shapes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError
from typing_extensions import override

from service.errors import Code, ServiceError
from service.rpc.convert import status

_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic in the stubs only
_Context = grpc.aio.ServicerContext[Any, Any]


class MalformedMessages(grpc.aio.ServerInterceptor):
    """Answers requests that do not parse."""

    @override
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Handler | None:
        handler = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith("/syntaxd."):
            return handler  # None: no such method, which gRPC answers
        parse = _lenient(handler.request_deserializer)
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(
                _stream(handler.unary_stream), parse, handler.response_serializer
            )
        return grpc.unary_unary_rpc_method_handler(
            _unary(handler.unary_unary), parse, handler.response_serializer
        )


def _lenient(parse: Any) -> Callable[[bytes], Any]:
    """The deserialiser, with its error as the result."""

    def parsed(data: bytes) -> Any:
        try:
            return parse(data)
        except DecodeError as error:
            return error

    return parsed


def _unary(behaviour: Any) -> Any:
    async def handle(request: Any, context: _Context) -> Any:
        await _refuse_malformed(request, context)
        return await behaviour(request, context)

    return handle


def _stream(behaviour: Any) -> Any:
    async def handle(request: Any, context: _Context) -> AsyncIterator[Any]:
        await _refuse_malformed(request, context)
        async for message in behaviour(request, context):
            yield message

    return handle


async def _refuse_malformed(request: Any, context: _Context) -> None:
    if isinstance(request, DecodeError):
        error = ServiceError(
            Code.INVALID_ARGUMENT, "MALFORMED_MESSAGE", f"the request does not parse: {request}"
        )
        await context.abort_with_status(status.to_grpc(error))
