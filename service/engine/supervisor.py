"""The engine process, started again whenever it dies.

    loading -> up -> dead: its requests have ended with UNAVAILABLE
                     a pause, longer with each failure in a row -> loading -> up ...
                     after ``max_restarts`` in a row without staying up: given up

What the front knows survives: compiled constraints go to a process with the requests that need
them, so a new one has to be told nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from grammar import Dfa
from service.engine.engine import EngineStartError
from service.engine.types import Chunk, GenerationRequest, Load, ModelInfo
from service.errors import Code, ServiceError, Unavailable

_log = logging.getLogger(__name__)
_SHORTEST_WAIT = 1.0  # seconds: what a caller is told at least


class Engine(Protocol):
    """``engine.EngineClient`` as it is used here."""

    on_step: Callable[[Sequence[Chunk], Load], None]
    died: asyncio.Future[str]

    async def start(self) -> ModelInfo:
        """Loads the model. Raises EngineStartError."""
        ...

    def submit(
        self, request: GenerationRequest, lexemes: Mapping[str, Dfa] | None
    ) -> AsyncGenerator[Chunk, None]:
        """Chunks of one request. Raises Unavailable."""
        ...

    def cancel(self, request_id: str) -> None:
        """Ends the request."""
        ...

    async def close(self) -> None:
        """Ends the process."""
        ...


@dataclass(frozen=True, slots=True)
class Restarts:
    """How often, how soon. The first attempt comes at once: most deaths are single ones."""

    max_restarts: int = 5  # in a row
    first_pause_s: float = 1.0  # before the second attempt; doubles from one to the next
    longest_pause_s: float = 30.0
    stable_s: float = 60.0  # one that was up for so long had not failed: the count begins anew

    def pause(self, num_failures: int) -> float:
        """Seconds to wait after so many failures in a row."""
        if num_failures <= 1:
            return 0.0
        doublings = min(num_failures - 2, 32)  # beyond that a float has no use for them
        return min(self.first_pause_s * 2.0**doublings, self.longest_pause_s)


class Supervisor:
    """One engine at a time. Used from one event loop, the one it is made in."""

    def __init__(
        self,
        make_engine: Callable[[], Engine],
        restarts: Restarts | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make_engine = make_engine
        self._restarts = restarts or Restarts()
        self._clock = clock
        self._engine: Engine | None = None  # None: it is being loaded
        self._info: ModelInfo | None = None
        self._warm_up: tuple[GenerationRequest, Mapping[str, Dfa] | None] | None = None
        self._began = clock()  # of the state it is in: loading or up
        self._load_seconds = 0.0
        self._last_load: Load | None = None  # of the engine that is up
        self._watching: asyncio.Task[None] | None = None
        #: Told of every step that produced something: the chunks, and how full the engine is.
        self.on_step: Callable[[Sequence[Chunk], Load], None] = lambda chunks, load: None  # noqa: ARG005
        #: Awaited when the engine has died (False) and when there is one again (True).
        self.on_change: Callable[[bool], Awaitable[None]] = _nobody_cares
        #: Done when there will be no other; the result says why.
        self.gave_up: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def start(self) -> ModelInfo:
        """Loads the model; a first failure is final. Raises EngineStartError."""
        self._engine = await self._load()
        self._watching = asyncio.create_task(self._watch_to_the_end())
        assert self._info is not None
        return self._info

    async def warm_up(self, request: GenerationRequest, lexemes: Mapping[str, Dfa] | None) -> None:
        """Runs a request now, and on each later engine before anybody else's. Raises ServiceError.

        Nobody is told of its steps.
        """
        self._warm_up = request, lexemes
        assert self._engine is not None, "started"
        await _run(self._engine, request, lexemes)

    @property
    def is_up(self) -> bool:
        """Whether there is an engine."""
        return self._engine is not None

    @property
    def load(self) -> Load | None:
        """How full the engine was after its last step; None while there is none."""
        return self._last_load

    def check(self) -> None:
        """Raises Unavailable while there is no engine."""
        if self._engine is None:
            message = "the model is being loaded again"
            raise Unavailable("MODEL_LOADING", message, retry_after_s=self._seconds_to_go())

    async def submit(
        self, request: GenerationRequest, lexemes: Mapping[str, Dfa] | None = None
    ) -> AsyncIterator[Chunk]:
        """See ``EngineClient.submit``. Raises Unavailable, also while there is no engine."""
        self.check()
        assert self._engine is not None
        try:
            async with contextlib.aclosing(self._engine.submit(request, lexemes)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except Unavailable as error:
            # The engine that has gone does not know how long the next one takes.
            wait = self._seconds_to_go()
            raise Unavailable(error.reason, error.message, retry_after_s=wait) from None

    def cancel(self, request_id: str) -> None:
        """See ``EngineClient.cancel``."""
        if self._engine is not None:
            self._engine.cancel(request_id)

    async def close(self) -> None:
        """Ends the process, and starts no other."""
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching
        if self._engine is not None:
            await self._engine.close()

    async def _watch_to_the_end(self) -> None:
        try:
            self.gave_up.set_result(await self._watch())
        except Exception as error:  # noqa: BLE001 - a server that cannot restart has to say so
            _log.exception("the engine is not watched any more")
            self.gave_up.set_result(repr(error))

    async def _watch(self) -> str:
        """Replaces each engine that dies, until it is of no use; says why."""
        num_failures = 0
        while True:
            assert self._engine is not None
            reason = await self._engine.died
            _log.error("the engine process ended: %s", reason)
            stable = self._clock() - self._began >= self._restarts.stable_s
            num_failures = 1 if stable else num_failures + 1
            self._engine, self._began = None, self._clock()
            self._last_load = None
            await self.on_change(False)
            while self._engine is None:
                if num_failures > self._restarts.max_restarts:
                    return f"{reason}; failures in a row: {num_failures}"
                pause = self._restarts.pause(num_failures)
                self._began = self._clock() + pause
                await asyncio.sleep(pause)
                try:
                    self._engine = await self._load()
                except EngineStartError as error:
                    num_failures, reason = num_failures + 1, str(error)
                    _log.error("the engine did not start: %s", reason)
            await self.on_change(True)
            _log.info("the engine is up again after %.1f s", self._load_seconds)

    async def _load(self) -> Engine:
        """An engine that has answered the warm-up. Raises EngineStartError."""
        began = self._clock()
        engine = self._make_engine()
        engine.on_step = lambda chunks, load: self._stepped((), load)  # noqa: ARG005 - the warm-up's
        try:
            info = await engine.start()
            self._check_model(info)
            if self._warm_up:
                await _run(engine, *self._warm_up)
        except ServiceError as error:
            await engine.close()
            raise EngineStartError(f"its first request failed: {error.message}") from None
        except OSError as error:
            await engine.close()
            raise EngineStartError(f"its process does not start: {error}") from None
        except BaseException:
            await engine.close()
            raise
        self._info = info
        engine.on_step = self._stepped
        self._began = self._clock()
        self._load_seconds = self._began - began
        return engine

    def _stepped(self, chunks: Sequence[Chunk], load: Load) -> None:
        self._last_load = load
        if chunks:
            self.on_step(chunks, load)

    def _check_model(self, info: ModelInfo) -> None:
        """Raises EngineStartError: the front still has the tokenizer of the first one."""
        if self._info and info != self._info:
            raise EngineStartError("it loads another model than before: its files have changed")

    def _seconds_to_go(self) -> float:
        """About how long until there is an engine again."""
        since = self._clock() - self._began if self._engine is None else 0.0
        return max(self._load_seconds - since, _SHORTEST_WAIT)


async def _run(
    engine: Engine, request: GenerationRequest, lexemes: Mapping[str, Dfa] | None
) -> None:
    """Raises ServiceError."""
    async for chunk in engine.submit(request, lexemes):
        if chunk.finish and (error := chunk.finish.error):
            raise ServiceError(Code[error.code], error.reason, error.message)


async def _nobody_cares(is_up: bool) -> None:
    del is_up
