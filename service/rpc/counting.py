"""How each call of our services ended, and when: told to ``metrics``.

gRPC knows the code of a call that was aborted and of no other, so a handler that came to its end
notes that; what did neither was ended by the caller: by a cancel or by its deadline.

The log may have a line for each: the method, the code, how long it took, from where, which trace
the caller has it in (``traceparent``, https://www.w3.org/TR/trace-context). Never its content.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

import grpc
from typing_extensions import override

from service import logs
from service.rpc.answering import Context
from service.rpc.guards import Handler, is_ours

_log = logging.getLogger(__name__)
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


class Counter(Protocol):
    """``metrics.Metrics`` as it is used here."""

    def call_ended(self, method: str, code: str, seconds: float) -> None:
        """A call of ``Service/Method`` ended with this code's name."""
        ...


class Counting(grpc.aio.ServerInterceptor):
    """Counts the calls of methods that exist, whatever the other interceptors say to them."""

    def __init__(self, counter: Counter, *, log_calls: bool = False) -> None:
        self._counter = counter
        self._log_calls = log_calls

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
            call = self._call(method, context)
            response = await behaviour(request, context)
            call.came_to_its_end = True
            return response

        return handle

    def _stream(self, behaviour: Any, method: str) -> Any:
        async def handle(request: Any, context: Context) -> AsyncIterator[Any]:
            call = self._call(method, context)
            async for message in behaviour(request, context):
                yield message
            call.came_to_its_end = True

        return handle

    def _call(self, method: str, context: Context) -> _Call:
        trace_id = _trace_id(context.invocation_metadata()) if self._log_calls else None
        return _Call(self._counter, method, context, self._log_calls, trace_id)


class _Call:
    """One call, until it is counted."""

    def __init__(
        self,
        counter: Counter,
        method: str,
        context: Context,
        is_logged: bool,
        trace_id: str | None,
    ) -> None:
        self.came_to_its_end = False
        self._is_logged = is_logged
        self._trace_id = trace_id
        self._counter = counter
        self._method = method
        self._began = time.monotonic()
        # The callback runs also where a cancelled stream's generator is not closed yet.
        context.add_done_callback(self._ended)  # type: ignore[arg-type]  # stub is no Protocol

    def _ended(self, context: Any) -> None:
        code, seconds = self._code(context).name, time.monotonic() - self._began
        self._counter.call_ended(self._method, code, seconds)
        if self._is_logged:
            _log.info(
                "%s %s in %.3f s",
                self._method,
                code,
                seconds,
                extra=logs.fields(
                    method=self._method,
                    code=code,
                    seconds=round(seconds, 6),
                    peer=context.peer(),
                    trace_id=self._trace_id,
                ),
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


def _trace_id(metadata: Any) -> str | None:
    """Of a well-formed ``traceparent``; another text of the caller's is not written down."""
    for name, value in metadata or ():
        if name == "traceparent" and isinstance(value, str):
            found = _TRACEPARENT.fullmatch(value)
            return found[1] if found else None
    return None
