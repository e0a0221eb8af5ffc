"""A stream of text and the result at its end.

Iterating gives pieces of text as they are generated, ``partials()`` what JSON they have come to;
``result()`` reads what is left and gives the whole. Leaving the ``with`` block, or
``cancel()``, stops the model within one step.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

import grpc
import grpc.aio

from syntaxd_client import errors
from syntaxd_client.answers import Answer, Assembly
from syntaxd_client.errors import AnswerError
from syntaxd_client.partial import PartialJson
from syntaxd_client.pb.v1 import generation_pb2

R = TypeVar("R")
Event = generation_pb2.GenerateStreamResponse


class Events(Protocol):
    """A call of grpc, as far as it is used here."""

    def __next__(self) -> Event: ...
    def cancel(self) -> object: ...


class _Result(Generic[R]):
    """What both kinds of stream do once all events are there."""

    def __init__(self, finish: Callable[[Answer], R]) -> None:
        self._finish = finish
        self._assembly = Assembly()
        self._partial: PartialJson | None = None  # once somebody asked

    @property
    def answer(self) -> Answer:
        """The answer as generated. Raises AnswerError before the end of the stream."""
        return self._assembly.answer()

    @property
    def _partial_value(self) -> Any:
        return self._partial.value if self._partial else None

    def _grow(self, piece: str | None) -> bool:
        """Takes the next piece (None: the end); whether there is more to see of the JSON."""
        try:
            has_grown = False
            if self._partial is None:
                self._partial = PartialJson()
                has_grown = self._partial.push(self._assembly.text)  # what was read before, too
            elif piece is not None:
                has_grown = self._partial.push(piece)
            return has_grown or (piece is None and self._partial.end())
        except ValueError as error:
            raise AnswerError(str(error), self._assembly.text) from None


class Stream(_Result[R], Iterator[str]):
    """Pieces of text, then ``result()``. Raises SyntaxdError, as the call itself does."""

    def __init__(self, call: Events, finish: Callable[[Answer], R]) -> None:
        super().__init__(finish)
        self._call = call

    def __next__(self) -> str:
        try:
            while True:
                if text := self._assembly.add(next(self._call)):
                    return text
        except grpc.RpcError as error:
            raise errors.from_call(error) from error

    def partials(self) -> Iterator[Any]:
        """What the answer has come to, as plain Python objects, each time there is more.

        Objects, lists and strings grow; numbers, ``true``, ``false`` and ``null`` come once they
        have ended. Each is a value of its own. The last one is the whole answer, for which
        ``result()`` has the type that was asked for. Raises SyntaxdError, and AnswerError where
        the text is no JSON.
        """
        for piece in self:
            if self._grow(piece):
                yield self._partial_value
        if self._grow(None):
            yield self._partial_value

    def result(self) -> R:
        """Reads the rest; what the call gives as a whole. Raises SyntaxdError."""
        for _ in self:
            pass
        return self._finish(self.answer)

    def cancel(self) -> None:
        """Stops the generation; reading on raises CallCancelledError."""
        self._call.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()


class AsyncStream(_Result[R], AsyncIterator[str]):
    """Pieces of text, then ``await result()``. Raises SyntaxdError, as the call itself does."""

    def __init__(
        self,
        call: grpc.aio.UnaryStreamCall[generation_pb2.GenerateRequest, Event],
        finish: Callable[[Answer], R],
    ) -> None:
        super().__init__(finish)
        self._call = call
        self._events = aiter(call)
        self._cancelled = False

    async def __anext__(self) -> str:
        try:
            async for event in self._events:
                if text := self._assembly.add(event):
                    return text
        except grpc.RpcError as error:
            raise errors.from_call(error) from error
        except asyncio.CancelledError as error:
            if not self._cancelled:
                raise  # it is our caller's task that is cancelled
            raise errors.cancelled() from error
        raise StopAsyncIteration

    async def partials(self) -> AsyncIterator[Any]:
        """As ``Stream.partials``."""
        async for piece in self:
            if self._grow(piece):
                yield self._partial_value
        if self._grow(None):
            yield self._partial_value

    async def result(self) -> R:
        """Reads the rest; what the call gives as a whole. Raises SyntaxdError."""
        async for _ in self:
            pass
        return self._finish(self.answer)

    def cancel(self) -> None:
        """Stops the generation; reading on raises CallCancelledError."""
        self._cancelled = True
        self._call.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()
