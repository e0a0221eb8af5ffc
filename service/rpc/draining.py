"""The end of a server: new calls are refused, with words, while running ones go on.

gRPC's own way to stop closes the port and lets calls on open connections fail without details.
So the server goes on listening while calls of ours run, and this interceptor refuses new ones in
a way that clients can act on. Health is not refused: it says NOT_SERVING.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from typing_extensions import override

from service.errors import Unavailable
from service.rpc.answering import Context
from service.rpc.convert import status
from service.rpc.guards import Handler, guarded, is_ours

_ADMIN = "/syntaxd.v1.AdminService/"


class Draining(grpc.aio.ServerInterceptor):
    """Counts the running calls of our services; refuses new ones once told to."""

    def __init__(self) -> None:
        self._running = 0
        self._draining = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def has_begun(self) -> bool:
        """Whether new calls are refused."""
        return self._draining

    @property
    def num_running(self) -> int:
        """Calls that have not ended."""
        return self._running

    def begin(self) -> None:
        """From now on no call is accepted; those accepted go on."""
        self._draining = True

    async def idle(self) -> None:
        """Waits until no call runs."""
        await self._idle.wait()

    @override
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        if handler is None or not is_ours(handler_call_details):
            return handler
        if handler_call_details.method.startswith(_ADMIN):  # an operator looks on to the end
            return handler
        return guarded(handler, self._admit)

    async def _admit(self, request: Any, context: Context) -> None:
        del request
        if self._draining:
            error = Unavailable("DRAINING", "the server is stopping")
            await context.abort_with_status(status.to_grpc(error))
        self._running += 1
        self._idle.clear()
        # Of a cancelled stream the handler's end comes only when it is collected; this is at once.
        context.add_done_callback(self._ended)  # type: ignore[arg-type]  # stub is no Protocol

    def _ended(self, context: Any) -> None:
        del context
        self._running -= 1
        if not self._running:
            self._idle.set()
