"""The front process: starts the engine process, serves, and ends with it.

    bind the port -> start the engine (loads the model) -> serve -> SIGTERM or SIGINT:
    health NOT_SERVING, refuse new requests, let running ones end -> close the engine

If the engine process ends by itself, so does this one: with status 1 and the reason.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path

from grammar.options import Limits
from service.config import Config
from service.engine.engine import EngineClient
from service.engine.grammars import Grammars
from service.engine.tokenizer import Tokenizer
from service.engine.types import EngineSettings
from service.rpc import server as grpc_server
from service.rpc.convert import answer
from service.rpc.front import Front
from service.rpc.servicer import GenerationServicer, ModelServicer

_log = logging.getLogger(__name__)


async def serve(config: Config, folder: Path) -> int:
    """Serves the model in ``folder`` until told to stop; returns the process's exit status.

    Prints one line, ``serving NAME on HOST:PORT``, once requests are accepted. Raises
    PortInUseError, and whatever the engine raises if it cannot start.
    """
    server = grpc_server.bind(config.host, config.port, config.max_message_bytes)
    stop = _stop_signal()
    engine = EngineClient(_settings(config, folder))
    try:
        model = await engine.start()
        tokenizer = await asyncio.to_thread(Tokenizer.load, folder)
        compiler = Grammars(tokenizer.vocabulary(), timeout_s=config.compile_timeout_ms / 1_000)
        front = Front(
            model=model,
            engine=engine,
            tokenizer=tokenizer,
            compiler=compiler,
            capacity=config.max_rows + config.max_queue,
        )
        grpc_server.register(
            server,
            GenerationServicer(front),
            ModelServicer(front, answer.model(model, Limits(), config.compile_timeout_ms)),
        )
        await server.grpc_server.start()
        await grpc_server.set_serving(server, model.name)
        print(f"serving {model.name} on {config.host}:{server.port}", flush=True)  # noqa: T201
        return await _until_stopped(config, server, front, engine, stop)
    finally:
        await engine.close()


def _settings(config: Config, folder: Path) -> EngineSettings:
    """The settings of the engine process: those fields of Config that are its business."""
    return EngineSettings(
        model=str(folder),
        name=config.model_name,
        device=config.device,
        dtype=config.dtype,
        threads=config.threads,
        max_rows=config.max_rows,
        max_queue=config.max_queue,
        max_context=config.max_context,
        kv_bytes=config.kv_bytes,
        step_tokens=config.step_tokens,
        reproducible=config.reproducible,
    )


class StartError(Exception):
    """The server cannot start; the message says why."""


def _stop_signal() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _until_stopped(
    config: Config,
    server: grpc_server.Server,
    front: Front,
    engine: EngineClient,
    stop: asyncio.Event,
) -> int:
    """Waits for a signal or the engine's end, whichever is first."""
    died = asyncio.ensure_future(engine.died)
    told = asyncio.create_task(stop.wait())
    await asyncio.wait((died, told), return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    front.drain()
    if died.done():
        _log.error("the engine process ended: %s", died.result())
        await grpc_server.drain(server, 1.0)
        return 1
    died.cancel()
    _log.info("stopping; %d requests may go on", front.num_requests)
    await grpc_server.drain(server, config.drain_seconds)
    return 0
