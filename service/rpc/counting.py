"""How each call of our services ended, and when: told to ``metrics``.

gRPC knows the code of a call that was aborted and of no other, so a handler that came to its end
notes that; what did neither was ended by the caller: by a cancel or by its deadline.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

import grpc
from typing_extensions import override

from service.rpc.answering import Context
from service.rpc.guards import Handler, is_ours


class Counter(Protocol):
    """``metrics.Metrics`` as it is used here."""

    def call_ended(self, method: str, code: str, seconds: float) -> None:
        """A call of ``Service/Method`` ended with this code's name."""
        ...


class Counting(grpc.aio.ServerInterceptor):
    """Counts the calls of methods that exist, whatever the other interceptors say to them."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    @override
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        if handler is None or not is_ours(handler_call_details):
            return handler
        method = handler_call_details.method.removeprefix("/")
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(
                self._stream(handler.unary_stream, method),
                handler.request_deserializer,
                handler.response_serializer,
            )
        return grpc.unary_unary_rpc_method_handler(
            self._unary(handler.unary_unary, method),
            handler.request_deserializer,
            handler.response_serializer,
        )

    def _unary(self, behaviour: Any, method: str) -> Any:
        async def handle(request: Any, context: Context) -> Any:
            call = _Call(self._counter, method, context)
            response = await behaviour(request, context)
            call.came_to_its_end = True
            return response

        return handle

    def _stream(self, behaviour: Any, method: str) -> Any:
        async def handle(request: Any, context: Context) -> AsyncIterator[Any]:
            call = _Call(self._counter, method, context)
            async for message in behaviour(request, context):
                yield message
            call.came_to_its_end = True

        return handle


class _Call:
    """One call, until it is counted."""

    def __init__(self, counter: Counter, method: str, context: Context) -> None:
        self.came_to_its_end = False
        self._counter = counter
        self._method = method
        self._began = time.monotonic()
        # The callback runs also where a cancelled stream's generator is not closed yet.
        context.add_done_callback(self._ended)  # type: ignore[arg-type]  # stub is no Protocol

    def _ended(self, context: Any) -> None:
        self._counter.call_ended(
            self._method, self._code(context).name, time.monotonic() - self._began
        )

    def _code(self, context: Any) -> grpc.StatusCode:
        aborted: grpc.StatusCode | None = context.code()
        if aborted:
            return aborted
        if self.came_to_its_end:
            return grpc.StatusCode.OK
        remaining = context.time_remaining()
        if remaining is not None and remaining <= 0:
            return grpc.StatusCode.DEADLINE_EXCEEDED
        return grpc.StatusCode.CANCELLED
