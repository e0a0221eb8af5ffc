"""The front process: starts the engine process, serves, and ends with it.

    bind the port -> start the engine (it loads the model) -> serve -> SIGTERM or SIGINT:
    health NOT_SERVING, refuse new calls, let running ones end -> close the engine -> the port

An engine process that ends by itself is started again (``service.engine.supervisor``); if that is
of no use, this process ends too: with status 1 and the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import signal
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

from grammar import Limits, warmup
from service.config import Config, split_address
from service.engine import garbage
from service.engine.engine import EngineClient, EngineStartError
from service.engine.grammars import Grammars
from service.engine.known import KnownConstraints
from service.engine.supervisor import Restarts, Supervisor
from service.engine.tokenizer import Tokenizer, TokenizerError
from service.engine.types import Constraint, EngineSettings, ModelInfo, Sampling, Stopping
from service.errors import ServiceError
from service.rpc import server as grpc_server
from service.rpc.admin_servicer import AdminServicer
from service.rpc.api_keys import ApiKeys, ApiKeysError, KeyFile
from service.rpc.constraint_servicer import ConstraintServicer
from service.rpc.constraints import Constraints
from service.rpc.convert import model as convert_model
from service.rpc.counting import Counting
from service.rpc.draft import Draft, Report
from service.rpc.front import Front
from service.rpc.generation_servicer import GenerationServicer
from service.rpc.metrics import ExportError, Metrics, exporting
from service.rpc.model_servicer import ModelServicer
from service.rpc.tls import Certificates, TlsError, TlsFiles
from service.rpc.tokens import Tokens

ENGINE_GONE_SECONDS = 1.0  # calls get their UNAVAILABLE in this time; nothing else can come
WARM_UP_SCHEMA = """{
  "type": "object",
  "properties": {
    "a": {"type": "string", "pattern": "^[a-z]+$"},
    "b": {"type": "integer", "minimum": 3},
    "c": {"type": "array", "items": {"enum": [1, true, null]}, "maxItems": 2}
  },
  "required": ["a", "b"]
}"""

_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)


class StartError(Exception):
    """The server cannot start; the message says why."""


async def serve(config: Config, folder: Path) -> int:
    """Serves the model in ``folder`` until told to stop; returns the process's exit status.

    Prints ``serving NAME on HOST:PORT`` once requests are accepted, and before it where
    AdminService and the metrics are, if they have a port of their own. Raises StartError.
    """
    stop = _stop_signal()
    metrics = Metrics()
    async with contextlib.AsyncExitStack() as cleanup:
        try:
            api_keys = _api_keys(config)
            server, admin_server = _bind(config, metrics, api_keys)
            exporter = cleanup.enter_context(exporting(metrics, config.metrics))
            settings = _settings(config, folder)
            restarts = Restarts(max_restarts=config.engine_restarts)
            engine = Supervisor(lambda: EngineClient(settings), restarts)
            cleanup.push_async_callback(engine.close)
            started = await _unless(stop, _start(engine, folder))
        except (
            grpc_server.PortInUseError,
            TlsError,
            ExportError,
            EngineStartError,
            TokenizerError,
        ) as error:
            raise StartError(str(error)) from error
        if started is None:
            return 0
        model, tokenizer = started
        compiler = Grammars(
            tokenizer.vocabulary(),
            timeout_s=config.compile_timeout_ms / 1_000,
            known=KnownConstraints(
                config.constraint_cache_bytes, config.max_pins, config.max_pinned_bytes
            ),
        )
        cleanup.callback(compiler.close)
        tokens = Tokens(tokenizer, model.vocab_size)
        cleanup.callback(tokens.close)
        capacity = config.max_rows + config.max_queue
        constraints = Constraints(compiler, capacity, metrics)
        front = Front(
            model=model,
            engine=engine,
            tokenizer=tokenizer,
            tokens=tokens,
            constraints=constraints,
            watch=metrics,
            capacity=capacity,
        )
        try:
            await _warm_up(front, engine)
        except ServiceError as error:
            raise StartError(f"the first request failed: {error.message}") from error
        engine.on_step = metrics.step

        async def on_change(is_up: bool) -> None:
            if not is_up:
                metrics.engine_died()
            await grpc_server.set_generating(server, model.name, possible=is_up)

        engine.on_change = on_change
        garbage.settle()
        described = convert_model.model(model, Limits(), config.compile_timeout_ms)
        admin = AdminServicer(
            front=front,
            constraints=constraints,
            engine=engine,
            draining=server.draining,
            stop=stop.set,
        )
        grpc_server.register(
            server,
            GenerationServicer(front, api_keys),
            ConstraintServicer(constraints, model),
            ModelServicer(model, described, tokens),
            admin=admin if config.admin == "on" else None,
            with_reflection=config.reflection == "on",
        )
        if admin_server:
            grpc_server.register_admin(
                admin_server, admin, server, with_reflection=config.reflection == "on"
            )
            await admin_server.grpc_server.start()
            cleanup.push_async_callback(grpc_server.stop, admin_server)
        await server.grpc_server.start()
        await grpc_server.set_serving(server, model.name)
        await grpc_server.set_generating(server, model.name, possible=engine.is_up)
        if admin_server:
            host, _ = split_address(config.admin)
            print(f"admin on {host}:{admin_server.port}", flush=True)  # noqa: T201
        if exporter:
            print(f"metrics on {exporter}", flush=True)  # noqa: T201
        print(f"serving {model.name} on {config.host}:{server.port}", flush=True)  # noqa: T201
        return await _until_stopped(config, server, engine, stop)


def _bind(
    config: Config, metrics: Metrics, api_keys: ApiKeys | None
) -> tuple[grpc_server.Server, grpc_server.Server | None]:
    """The server, and another for AdminService if that has a port of its own; neither serves yet.

    Both ask callers for the same. Raises PortInUseError, TlsError.
    """
    certificates = _certificates(config)
    if certificates:
        metrics.watch_certificate(lambda: certificates.expires.timestamp())
    counting = Counting(metrics, log_calls=config.log_calls)

    def bind(host: str, port: int) -> grpc_server.Server:
        return grpc_server.bind(
            host,
            port,
            config.max_message_bytes,
            api_keys=api_keys,
            counting=counting,
            credentials=certificates.credentials() if certificates else None,
        )

    server = bind(config.host, config.port)
    if config.admin in ("off", "on"):
        return server, None
    return server, bind(*split_address(config.admin))


def _api_keys(config: Config) -> ApiKeys | None:
    """Raises StartError."""
    if not config.api_keys:
        return None
    try:
        file = KeyFile(Path(config.api_keys))
    except (ApiKeysError, OSError) as error:
        raise StartError(f"--api-keys: {error}") from error
    return ApiKeys(file.keys, file.reread)


def _certificates(config: Config) -> Certificates | None:
    """Raises TlsError."""
    if config.tls_certificate:
        return Certificates(
            TlsFiles(
                Path(config.tls_certificate),
                Path(config.tls_key),
                Path(config.tls_client_ca) if config.tls_client_ca else None,
            )
        )
    if not _is_loopback(config.host):
        keys = " and API keys" if config.api_keys else ""
        _log.warning("no TLS on %s: texts%s can be read on the network", config.host, keys)
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


async def _warm_up(front: Front, engine: Supervisor) -> None:
    """One small request the whole way: kernels are compiled now, not under the first caller.

    Each engine that is started later answers it too. Raises ServiceError.
    """
    draft = Draft(
        request_id="warm-up",
        input="a",
        sampling=Sampling(),
        stopping=Stopping(max_tokens=32),
        constraint=Constraint(kind="json_schema", text=WARM_UP_SCHEMA),
        guaranteed=True,
        report=Report(),
    )
    accepted = await front.prepare(draft, deadline=None)
    await engine.warm_up(accepted.request, accepted.lexemes)


async def _start(engine: Supervisor, folder: Path) -> tuple[ModelInfo, Tokenizer]:
    """The engine's model, and the tokenizer with its vocabulary built meanwhile."""

    def load_tokenizer() -> Tokenizer:
        tokenizer = Tokenizer.load(folder)
        try:
            tokenizer.vocabulary()
        except ValueError as error:
            raise TokenizerError(f"{folder}: {error}") from error
        warmup()  # before the first compile, whose time is limited
        return tokenizer

    model, tokenizer = await asyncio.gather(engine.start(), asyncio.to_thread(load_tokenizer))
    return model, tokenizer


def _settings(config: Config, folder: Path) -> EngineSettings:
    """The settings of the engine process: those fields of Config that are its business."""
    return EngineSettings(
        model=str(folder),
        name=config.model_name,
        device=config.device,
        dtype=config.dtype,
        weights=config.weights,
        threads=config.threads,
        max_rows=config.max_rows,
        max_queue=config.max_queue,
        max_context=config.max_context,
        kv_bytes=config.kv_bytes,
        step_tokens=config.step_tokens,
        reproducible=config.reproducible,
        log_level=config.log_level,
        log_format=config.log_format,
        speculation=config.speculation,
    )


def _stop_signal() -> asyncio.Event:
    """Set by SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _unless(stop: asyncio.Event, work: Awaitable[_Result]) -> _Result | None:
    """The work's result, or None if told to stop before."""
    working = asyncio.ensure_future(work)
    told = asyncio.create_task(stop.wait())
    await asyncio.wait((working, told), return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    if working.done():
        return working.result()
    working.cancel()
    return None


async def _until_stopped(
    config: Config,
    server: grpc_server.Server,
    engine: Supervisor,
    stop: asyncio.Event,
) -> int:
    """Serves until a signal or the engines' end, whichever is first; returns the exit status."""
    reason = await _unless(stop, engine.gave_up)
    if reason is not None:
        _log.error("the engine is not started again: %s", reason)
        await grpc_server.drain(server, ENGINE_GONE_SECONDS)
    else:
        _log.info("stopping; %d calls may go on", server.draining.num_running)
        if not await grpc_server.drain(server, config.drain_seconds):
            _log.warning("%d calls did not end in time", server.draining.num_running)
            await engine.close()  # they end with UNAVAILABLE
    await grpc_server.stop(server)
    return 0 if reason is None else 1
