"""A handler with something before it: what the interceptors of our own services share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import grpc

from service.rpc.answering import Context

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic in the stubs only
Guard: TypeAlias = Callable[[Any, Context], Awaitable[None]]  # (request, context); may abort
Parse: TypeAlias = Callable[[bytes], Any]


def is_ours(details: grpc.HandlerCallDetails) -> bool:
    """Whether the method is one of our services: others (health) have handlers of other shapes."""
    return details.method.startswith("/syntaxd.")


def guarded(handler: Handler, guard: Guard, parse: Parse | None = None) -> Handler:
    """The handler, once the guard has passed; ``parse`` replaces its deserialiser."""
    parse = parse or handler.request_deserializer
    if handler.response_streaming:
        return grpc.unary_stream_rpc_method_handler(
            _stream(handler.unary_stream, guard), parse, handler.response_serializer
        )
    return grpc.unary_unary_rpc_method_handler(
        _unary(handler.unary_unary, guard), parse, handler.response_serializer
    )


def _unary(behaviour: Any, guard: Guard) -> Any:
    async def handle(request: Any, context: Context) -> Any:
        await guard(request, context)
        return await behaviour(request, context)

    return handle


def _stream(behaviour: Any, guard: Guard) -> Any:
    async def handle(request: Any, context: Context) -> AsyncIterator[Any]:
        await guard(request, context)
        async for message in behaviour(request, context):
            yield message

    return handle
