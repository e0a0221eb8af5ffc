"""The grpc.aio server around the servicers: health, reflection, limits."""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from service.rpc.malformed import MalformedMessages
from service.rpc.pb.v1 import generation_pb2, generation_pb2_grpc, model_pb2, model_pb2_grpc
from service.rpc.servicer import GenerationServicer, ModelServicer

GENERATION = generation_pb2.DESCRIPTOR.services_by_name["GenerationService"].full_name
MODEL = model_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name


class PortInUseError(OSError):
    """The address cannot be listened on."""


@dataclass(frozen=True, slots=True)
class Server:
    """A grpc.aio server that is bound, and its health."""

    grpc_server: grpc.aio.Server
    health: health.aio.HealthServicer
    port: int


def bind(host: str, port: int, max_message_bytes: int) -> Server:
    """A server that has its port and serves nothing yet. Raises PortInUseError."""
    server = grpc.aio.server(
        interceptors=[MalformedMessages()],
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
        bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError:
        raise PortInUseError(f"cannot listen on {host}:{port}") from None
    return Server(server, health.aio.HealthServicer(), bound)


def register(server: Server, generation: GenerationServicer, model: ModelServicer) -> None:
    """Adds every service to the server, before it starts."""
    generation_pb2_grpc.add_GenerationServiceServicer_to_server(generation, server.grpc_server)
    model_pb2_grpc.add_ModelServiceServicer_to_server(model, server.grpc_server)
    health_pb2_grpc.add_HealthServicer_to_server(server.health, server.grpc_server)
    names = (GENERATION, MODEL, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server.grpc_server)


async def set_serving(server: Server, model: str) -> None:
    """Health SERVING for the server (""), each service, and the model by name."""
    for name in ("", GENERATION, MODEL, model):
        await server.health.set(name, health_pb2.HealthCheckResponse.SERVING)


async def drain(server: Server, seconds: float) -> None:
    """Health NOT_SERVING at once; running calls may go on for ``seconds``, new ones not."""
    await server.health.enter_graceful_shutdown()
    await server.grpc_server.stop(seconds)
