"""The engine as the front uses it: submit a request, iterate over its chunks, cancel it.

``EngineClient`` runs the engine in a process of its own and talks to it over a socket pair;
``LocalEngine`` steps one inside the caller's event loop, for tests. Both give each accepted
request exactly one Finish, or end its iteration with a ServiceError.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import service
from grammar.dfa import Dfa
from service.engine.messages import (
    Cancel,
    Chunks,
    Failed,
    FrameBuffer,
    Progress,
    Ready,
    Start,
    Submit,
    ToEngine,
    ToFront,
    decode_to_front,
    frame,
    pack_lexemes,
)
from service.engine.types import (
    Chunk,
    EngineSettings,
    FinishReason,
    GenerationRequest,
    Load,
    ModelInfo,
)
from service.errors import ServiceError, Unavailable

if TYPE_CHECKING:
    from service.engine.core import EngineCore  # imports torch, which the front does without

_log = logging.getLogger(__name__)
_READ_BYTES = 1 << 16
_CLOSE_SECONDS = 5.0  # for a step to end; then the process is killed


class EngineStartError(Exception):
    """The engine process did not get as far as serving; the message says why."""


class _Streams:
    """The requests in flight and the queue that each one's chunks go to."""

    def __init__(self) -> None:
        self._queues: dict[str, asyncio.Queue[Chunk | ServiceError]] = {}

    def open(self, request_id: str) -> asyncio.Queue[Chunk | ServiceError]:
        assert request_id not in self._queues, f"request id {request_id} is in use"
        queue: asyncio.Queue[Chunk | ServiceError] = asyncio.Queue()
        self._queues[request_id] = queue
        return queue

    def close(self, request_id: str) -> None:
        self._queues.pop(request_id, None)

    def route(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            queue = self._queues.get(chunk.request_id)
            if queue is not None:  # else nobody waits any more
                queue.put_nowait(chunk)

    def fail(self, error: ServiceError) -> None:
        for queue in self._queues.values():
            queue.put_nowait(error)

    async def chunks(
        self, queue: asyncio.Queue[Chunk | ServiceError], num_outputs: int
    ) -> AsyncIterator[Chunk]:
        """Until all outputs have ended, or one did not end well. Raises ServiceError."""
        while num_outputs:
            chunk = await queue.get()
            if isinstance(chunk, ServiceError):
                raise chunk
            yield chunk
            if chunk.finish:
                num_outputs -= 1
                if chunk.finish.reason in {FinishReason.ERROR, FinishReason.CANCELLED}:
                    return


class EngineClient:
    """The engine in a process of its own. Used from one event loop, the one it is made in."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._streams = _Streams()
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._end_reason: str | None = None
        self._closing = False
        #: Told of every step that produced something: the chunks, and how full the engine is.
        self.on_step: Callable[[Sequence[Chunk], Load], None] = lambda chunks, load: None  # noqa: ARG005
        #: Done when the process has ended without ``close``; the result says how.
        self.died: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int | None:
        """The process's id, once it is started."""
        return self._process.pid if self._process else None

    async def start(self, progress: Callable[[str], None] | None = None) -> ModelInfo:
        """Starts the process and waits until the model is loaded. Raises EngineStartError."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "service.engine",
                str(theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                stdin=asyncio.subprocess.DEVNULL,
                env=_environment(self._settings),
            )
        reader, self._writer = await asyncio.open_connection(sock=ours)
        self._send(Start(self._settings))
        messages = _messages(reader)
        async for message in messages:
            match message:
                case Progress(text):
                    (progress or _log.info)(text)
                case Ready(info):
                    self._reading = asyncio.create_task(self._read(messages))
                    return info
                case Failed(text):
                    await self.close()
                    raise EngineStartError(text)
        status = await self._exit_status()
        raise EngineStartError(f"the engine process ended while loading ({status})")

    async def submit(
        self, request: GenerationRequest, lexemes: Mapping[str, Dfa] | None = None
    ) -> AsyncGenerator[Chunk, None]:
        """The request's chunks, until all outputs ended. Leaving early cancels the request.

        Raises Unavailable when the engine is not there, or goes.
        """
        if self._end_reason is not None or self._writer is None:
            raise _gone(self._end_reason or "it is not started")
        queue = self._streams.open(request.request_id)
        num_finished = 0
        try:
            self._send(Submit(request, pack_lexemes(lexemes)))
            async for chunk in self._streams.chunks(queue, request.n):
                num_finished += chunk.finish is not None
                yield chunk
        finally:
            self._streams.close(request.request_id)
            if num_finished < request.n:
                self.cancel(request.request_id)

    def cancel(self, request_id: str) -> None:
        """Frees the request's row within one step; its chunks then end with CANCELLED."""
        if self._end_reason is None and self._writer is not None:
            self._send(Cancel(request_id))

    async def close(self) -> None:
        """Ends the process: asked by closing the socket, killed if it does not listen."""
        self._closing = True
        if self._process is None or self._writer is None:
            return
        self._writer.close()
        try:
            await asyncio.wait_for(self._process.wait(), _CLOSE_SECONDS)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):  # it ended this very moment
                self._process.kill()
            await self._process.wait()
        if self._reading is not None:
            await self._reading

    def _send(self, message: ToEngine) -> None:
        assert self._writer is not None
        self._writer.write(frame(message))

    async def _read(self, messages: AsyncIterator[ToFront]) -> None:
        """Routes chunks until the process ends; then fails who still waits."""
        async for message in messages:
            assert isinstance(message, Chunks), "after Ready there is nothing else"
            self._streams.route(message.chunks)
            self.on_step(message.chunks, message.load)
        assert self._writer is not None
        self._writer.close()
        status = await self._exit_status()
        self._end_reason = "it was closed" if self._closing else f"it ended ({status})"
        self._streams.fail(_gone(self._end_reason))
        if not (self._closing or self.died.done()):
            self.died.set_result(status)

    async def _exit_status(self) -> str:
        assert self._process is not None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), _CLOSE_SECONDS)
        if self._process.returncode is None:  # deaf, but alive
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        status = self._process.returncode or 0
        return f"signal {-status}" if status < 0 else f"exit status {status}"


class LocalEngine:
    """The same interface over an EngineCore in this process: steps take turns with the loop."""

    def __init__(self, core: EngineCore) -> None:
        self._core = core
        self._streams = _Streams()
        self._stepping: asyncio.Task[None] | None = None
        self.died: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def start(self) -> ModelInfo:
        """What the core serves."""
        return self._core.info

    async def submit(
        self, request: GenerationRequest, lexemes: Mapping[str, Dfa] | None = None
    ) -> AsyncIterator[Chunk]:
        """See ``EngineClient.submit``."""
        queue = self._streams.open(request.request_id)
        num_finished = 0
        try:
            self._core.submit(request, lexemes or {})
            self._wake()
            async for chunk in self._streams.chunks(queue, request.n):
                num_finished += chunk.finish is not None
                yield chunk
        finally:
            self._streams.close(request.request_id)
            if num_finished < request.n:
                self.cancel(request.request_id)

    def cancel(self, request_id: str) -> None:
        """See ``EngineClient.cancel``."""
        self._core.cancel(request_id)
        self._wake()

    async def close(self) -> None:
        """Stops stepping."""
        if self._stepping is not None:
            self._stepping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._stepping

    def _wake(self) -> None:
        if self._stepping is None or self._stepping.done():
            self._stepping = asyncio.create_task(self._step_until_idle())

    async def _step_until_idle(self) -> None:
        try:
            while not self._core.is_idle:
                self._streams.route(self._core.step())
                await asyncio.sleep(0)
        except Exception as error:
            self._streams.fail(_gone(repr(error)))
            self.died.set_result(repr(error))
            raise


async def _messages(reader: asyncio.StreamReader) -> AsyncIterator[ToFront]:
    """What the engine sends, until its end of the socket closes."""
    buffer = FrameBuffer()
    while True:
        try:
            data = await reader.read(_READ_BYTES)
        except ConnectionError:
            return
        if not data:
            return
        for body in buffer.push(data):
            yield decode_to_front(body)


def _environment(settings: EngineSettings) -> dict[str, str]:
    """This process's, with our packages importable and the number of threads set.

    Libraries read the number when they are imported, before the process reads any message.
    """
    environment = dict(os.environ)
    root = str(Path(next(iter(service.__path__))).parent)
    environment["PYTHONPATH"] = os.pathsep.join(
        [root, *filter(None, [environment.get("PYTHONPATH")])]
    )
    # Torch's waiting threads (OpenMP) spin for milliseconds by default, which takes the cores from
    # whoever else has work, the front for one: on a busy machine a step of 8 rows took 660 ms so
    # and 144 to 232 ms with a short spin. Numba's own pool sleeps between calls.
    environment.setdefault("GOMP_SPINCOUNT", "2000")  # tens of microseconds: to the next product
    environment.setdefault("NUMBA_THREADING_LAYER", "workqueue")
    if settings.threads:
        for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
            environment[name] = str(settings.threads)
    return environment


def _gone(how: str) -> Unavailable:
    return Unavailable("ENGINE_GONE", f"the engine process has gone: {how}")
