"""Both clients under one interface, so that each test is about both."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import syntaxd_client


class Blocking:
    """AsyncClient as if it were Client: each call runs in a loop of ours."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._runner = asyncio.Runner()

        async def make() -> syntaxd_client.AsyncClient:
            return syntaxd_client.AsyncClient(*arguments, **options)

        try:
            self._client = self._runner.run(make())
        except BaseException:
            self._runner.close()
            raise

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            async def run() -> Any:
                result = getattr(self._client, name)(*arguments, **options)
                return await result if inspect.isawaitable(result) else result

            result = self._runner.run(run())
            if isinstance(result, syntaxd_client.AsyncStream):
                return BlockingStream(self._runner, result)
            return result

        return call

    def end(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


class BlockingStream:
    """AsyncStream as if it were Stream."""

    def __init__(self, runner: asyncio.Runner, stream: syntaxd_client.AsyncStream[Any]) -> None:
        self._runner, self._stream = runner, stream

    def __iter__(self) -> BlockingStream:
        return self

    def __next__(self) -> str:
        async def run() -> str:
            return await anext(self._stream)

        try:
            return self._runner.run(run())
        except StopAsyncIteration:
            raise StopIteration from None

    def partials(self) -> Iterator[Any]:
        partials = self._stream.partials()

        async def run() -> Any:
            return await anext(partials)

        while True:
            try:
                yield self._runner.run(run())
            except StopAsyncIteration:
                return

    def cancel(self) -> None:
        async def run() -> None:
            self._stream.cancel()

        self._runner.run(run())

    def result(self) -> Any:
        return self._runner.run(self._stream.result())

    @property
    def answer(self) -> syntaxd_client.Answer:
        return self._stream.answer


@pytest.fixture(params=["sync", "asyncio"])
def open_client(request) -> Iterator[Callable[..., Any]]:
    """Opens a client of the one kind or the other; it is closed at the end."""
    opened: list[Any] = []

    def make(*arguments: Any, **options: Any) -> Any:
        kind = syntaxd_client.Client if request.param == "sync" else Blocking
        opened.append(kind(*arguments, **options))
        return opened[-1]

    yield make
    for each in opened:
        each.close() if request.param == "sync" else each.end()
