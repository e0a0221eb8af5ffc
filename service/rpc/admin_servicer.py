"""AdminService: what an operator asks of a server, and may tell it."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from importlib.metadata import version
from typing import Protocol

from typing_extensions import override

from service.engine.types import Load
from service.errors import NotFound
from service.rpc.answering import Context, answering_errors
from service.rpc.constraints import Constraints
from service.rpc.draining import Draining
from service.rpc.front import Front
from service.rpc.pb.v1 import admin_pb2, admin_pb2_grpc

_log = logging.getLogger(__name__)


class Engine(Protocol):
    """``service.engine.supervisor.Supervisor`` as it is used here."""

    @property
    def is_up(self) -> bool:
        """Whether there is an engine process."""
        ...

    @property
    def load(self) -> Load | None:
        """How full it is; None while there is none."""
        ...


class AdminServicer(admin_pb2_grpc.AdminServiceServicer):
    """GetServerInfo, GetLoad, CancelRequest and Drain."""

    def __init__(
        self,
        *,
        front: Front,
        constraints: Constraints,
        engine: Engine,
        draining: Draining,
        stop: Callable[[], None],
    ) -> None:
        """``stop`` begins the server's end, as SIGTERM does, and returns at once."""
        self._front = front
        self._constraints = constraints
        self._engine = engine
        self._draining = draining
        self._stop = stop
        self._is_told = False
        self._instance_id = uuid.uuid4().hex
        self._started_ms = round(time.time() * 1_000)

    @override
    async def GetServerInfo(
        self, request: admin_pb2.GetServerInfoRequest, context: Context
    ) -> admin_pb2.GetServerInfoResponse:
        async with answering_errors(context):
            return admin_pb2.GetServerInfoResponse(
                version=version("syntaxd"),
                instance_id=self._instance_id,
                model=self._front.model.name,
                device=self._front.model.device,
                start_time_unix_ms=self._started_ms,
                state=self._state(),
            )
        raise AssertionError("abort raises")

    @override
    async def GetLoad(
        self, request: admin_pb2.GetLoadRequest, context: Context
    ) -> admin_pb2.GetLoadResponse:
        async with answering_errors(context):
            load = self._engine.load
            # The engine's word is of its last step, the front's of now.
            running = min(load.running, self._front.num_requests) if load else 0
            return admin_pb2.GetLoadResponse(
                running_requests=running,
                queued_requests=self._front.num_requests - running,
                max_requests=self._front.capacity,
                compiling_constraints=self._constraints.num_compiling,
                used_kv_blocks=load.kv_used_blocks if load else 0,
                total_kv_blocks=load.kv_blocks if load else 0,
                constraint_cache_bytes=self._constraints.nbytes,
            )
        raise AssertionError("abort raises")

    @override
    async def CancelRequest(
        self, request: admin_pb2.CancelRequestRequest, context: Context
    ) -> admin_pb2.CancelRequestResponse:
        async with answering_errors(context):
            if not self._front.cancel(request.request_id):
                message = f"request_id: no generation {request.request_id!r} runs or waits here"
                raise NotFound("UNKNOWN_REQUEST", message)
            _log.info("%s cancelled a generation", context.peer())
            return admin_pb2.CancelRequestResponse()
        raise AssertionError("abort raises")

    @override
    async def Drain(
        self, request: admin_pb2.DrainRequest, context: Context
    ) -> admin_pb2.DrainResponse:
        async with answering_errors(context):
            if not self._is_told:
                _log.info("%s told the server to drain", context.peer())
            self._is_told = True
            self._stop()
            return admin_pb2.DrainResponse(running_calls=self._draining.num_running)
        raise AssertionError("abort raises")

    def _state(self) -> admin_pb2.ServerState:
        if self._is_told or self._draining.has_begun:
            return admin_pb2.SERVER_STATE_DRAINING
        if not self._engine.is_up:
            return admin_pb2.SERVER_STATE_LOADING
        return admin_pb2.SERVER_STATE_SERVING
