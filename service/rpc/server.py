"""The grpc.aio server around the servicers: health, reflection, limits, and its end."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from service.rpc.admin_servicer import AdminServicer
from service.rpc.api_keys import ApiKeys
from service.rpc.constraint_servicer import ConstraintServicer
from service.rpc.counting import Counting
from service.rpc.draining import Draining
from service.rpc.generation_servicer import GenerationServicer
from service.rpc.malformed import MalformedMessages
from service.rpc.model_servicer import ModelServicer
from service.rpc.pb.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    constraint_pb2,
    constraint_pb2_grpc,
    generation_pb2,
    generation_pb2_grpc,
    model_pb2,
    model_pb2_grpc,
)

GENERATION = generation_pb2.DESCRIPTOR.services_by_name["GenerationService"].full_name
CONSTRAINT = constraint_pb2.DESCRIPTOR.services_by_name["ConstraintService"].full_name
MODEL = model_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name
ADMIN = admin_pb2.DESCRIPTOR.services_by_name["AdminService"].full_name
SERVICES = (GENERATION, CONSTRAINT, MODEL)

_LAST_BYTES_SECONDS = 0.5  # for answers on their way; whoever watches health is cut off then


class PortInUseError(OSError):
    """The address cannot be listened on."""


@dataclass(frozen=True, slots=True)
class Server:
    """A grpc.aio server that is bound, its health, and its calls."""

    grpc_server: grpc.aio.Server
    health: health.aio.HealthServicer
    draining: Draining
    port: int


def bind(
    host: str,
    port: int,
    max_message_bytes: int,
    *,
    api_keys: ApiKeys | None = None,
    counting: Counting | None = None,
    credentials: grpc.ServerCredentials | None = None,
) -> Server:
    """A server that has its port and serves nothing yet; with TLS if there are ``credentials``.

    Raises PortInUseError.
    """
    draining = Draining()
    # Counting is the first: it sees how the others end a call.
    interceptors = (counting, api_keys, draining, MalformedMessages())
    server = grpc.aio.server(
        interceptors=[each for each in interceptors if each],
        options=[
            ("grpc.max_receive_message_length", max_message_bytes),
            ("grpc.max_send_message_length", max_message_bytes),
            # A caller whose machine has gone is noticed, and its row freed, in about a minute.
            ("grpc.keepalive_time_ms", 40_000),
            ("grpc.keepalive_timeout_ms", 20_000),
            ("grpc.so_reuseport", 0),  # a second server on this port fails instead of sharing it
        ],
    )
    try:
        if credentials:
            bound = server.add_secure_port(f"{host}:{port}", credentials)
        else:
            bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError:
        raise PortInUseError(f"cannot listen on {host}:{port}") from None
    return Server(server, health.aio.HealthServicer(), draining, bound)


def register(
    server: Server,
    generation: GenerationServicer,
    constraint: ConstraintServicer,
    model: ModelServicer,
    *,
    admin: AdminServicer | None = None,
    with_reflection: bool = True,
) -> None:
    """Adds every service to the server, before it starts; AdminService if there is one."""
    generation_pb2_grpc.add_GenerationServiceServicer_to_server(generation, server.grpc_server)
    constraint_pb2_grpc.add_ConstraintServiceServicer_to_server(constraint, server.grpc_server)
    model_pb2_grpc.add_ModelServiceServicer_to_server(model, server.grpc_server)
    if admin:
        admin_pb2_grpc.add_AdminServiceServicer_to_server(admin, server.grpc_server)
    _finish(server, server.health, SERVICES + ((ADMIN,) if admin else ()), with_reflection)


def register_admin(
    server: Server, admin: AdminServicer, health_of: Server, *, with_reflection: bool = True
) -> None:
    """Adds AdminService, with the health of another, to a server that has nothing else."""
    admin_pb2_grpc.add_AdminServiceServicer_to_server(admin, server.grpc_server)
    _finish(server, health_of.health, (ADMIN,), with_reflection)


def _finish(
    server: Server, healthy: health.aio.HealthServicer, names: tuple[str, ...], reflect: bool
) -> None:
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server.grpc_server)
    if reflect:
        names = (*names, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server.grpc_server)


async def set_serving(server: Server, model: str) -> None:
    """Health SERVING for the server (""), each service, and the model by name."""
    for name in ("", *SERVICES, model):
        await server.health.set(name, health_pb2.HealthCheckResponse.SERVING)


async def set_generating(server: Server, model: str, *, possible: bool) -> None:
    """Health of what needs the engine: the server (""), GenerationService and the model.

    Without effect once the server drains.
    """
    serving = health_pb2.HealthCheckResponse.SERVING
    status = serving if possible else health_pb2.HealthCheckResponse.NOT_SERVING
    for name in ("", GENERATION, model):
        await server.health.set(name, status)


async def drain(server: Server, seconds: float) -> bool:
    """Refuses new calls and lets running ones go on; True once none runs, False after ``seconds``.

    Health is NOT_SERVING from the first moment.
    """
    server.draining.begin()
    await server.health.enter_graceful_shutdown()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(server.draining.idle(), seconds)
    return not server.draining.num_running


async def stop(server: Server) -> None:
    """Closes the port and, a moment later, every call that still runs."""
    await server.grpc_server.stop(_LAST_BYTES_SECONDS)
