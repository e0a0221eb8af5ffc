"""The engine process: one loop that polls its socket between steps and blocks on it when idle.

Started by ``engine.EngineClient``. No other Python thread and no event loop lives here, because
each of torch's small operations would wait for the interpreter lock (decision 1).
"""

from __future__ import annotations

import logging
import select
import socket

import numba
import torch

from service import logs
from service.engine import garbage
from service.engine.core import EngineCore, load
from service.engine.messages import (
    Chunks,
    Failed,
    FrameBuffer,
    Progress,
    Ready,
    Start,
    ToFront,
    decode_to_engine,
    frame,
)
from service.engine.types import EngineSettings

_log = logging.getLogger(__name__)
_READ_BYTES = 1 << 20


class FrontGoneError(Exception):
    """The front process closed the socket, or died."""


class Pipe:
    """The socket to the front, read without waiting unless told to."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = FrameBuffer()
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)

    def receive(self, *, wait: bool) -> list[bytes]:
        """Frames that have arrived; with ``wait``, at least one read. Raises FrontGoneError."""
        frames: list[bytes] = []
        timeout = None if wait else 0
        while self._poll.poll(timeout):
            try:
                data = self._connection.recv(_READ_BYTES)
            except ConnectionError:
                data = b""
            if not data:
                raise FrontGoneError
            frames.extend(self._buffer.push(data))
            timeout = 0
        return frames

    def send(self, message: ToFront) -> None:
        """Writes one frame. Raises FrontGoneError."""
        try:
            self._connection.sendall(frame(message))
        except (BrokenPipeError, ConnectionError):
            raise FrontGoneError from None


def serve(connection: socket.socket) -> int:
    """Loads what ``Start`` says and serves until the front goes. The process's exit status."""
    pipe = Pipe(connection)
    try:
        frames = pipe.receive(wait=True)
        while not frames:
            frames = pipe.receive(wait=True)
        start = decode_to_engine(frames[0])
        assert isinstance(start, Start), "the first message is Start"
        logs.set_up(start.settings.log_level, start.settings.log_format, "engine")
        core = _load(start.settings, pipe)
        if core is None:
            return 1
        run(core, pipe, frames[1:])
    except FrontGoneError:
        _log.info("the front process has gone; the engine ends")
        return 0
    return 0


def run(core: EngineCore, pipe: Pipe, frames: list[bytes]) -> None:
    """Steps while there is work, waits for messages while there is none. Raises FrontGoneError."""
    while True:
        for body in frames:
            core.handle(decode_to_engine(body))
        chunks = core.step()
        if chunks:
            pipe.send(Chunks(chunks, core.load))
        frames = pipe.receive(wait=core.is_idle)


def _load(settings: EngineSettings, pipe: Pipe) -> EngineCore | None:
    """The loaded engine, or None after telling the front why not."""
    if settings.threads:
        torch.set_num_threads(settings.threads)
        numba.set_num_threads(min(settings.threads, numba.config.NUMBA_NUM_THREADS))
    try:
        core = load(settings, lambda message: pipe.send(Progress(message)))
    except (ValueError, OSError) as error:  # what is wrong with the model, in its own words
        pipe.send(Failed(str(error)))
        return None
    except Exception as error:  # noqa: BLE001 - no memory, a damaged file: libraries have their own
        _log.exception("loading %s failed", settings.model)
        pipe.send(Failed(f"cannot load {settings.model}: {type(error).__name__}: {error}"))
        return None
    garbage.settle()
    pipe.send(Ready(core.info))
    return core
