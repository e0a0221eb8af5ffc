"""The server around the RPCs: port, health, reflection."""

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from service.rpc import server as grpc_server
from tests.service.rpc.fakes import MODEL, serving

NAMES = ["", *grpc_server.SERVICES, MODEL.name]


async def status(served, name):
    stub = health_pb2_grpc.HealthStub(served.channel)
    return (await stub.Check(health_pb2.HealthCheckRequest(service=name))).status


async def test_health_has_each_service_and_the_model():
    async with serving() as served:
        for name in NAMES:
            assert await status(served, name) == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await status(served, "gpt")
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_whoever_watches_health_is_told_of_the_drain_before_calls_end():
    async with serving() as served:
        stub = health_pb2_grpc.HealthStub(served.channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest(service=MODEL.name))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        await served.server.health.enter_graceful_shutdown()
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()


async def test_without_an_engine_only_what_needs_it_is_not_serving():
    async with serving() as served:
        server = served.server
        needy = {"", grpc_server.GENERATION, MODEL.name}
        for possible in (False, True):
            await grpc_server.set_generating(server, MODEL.name, possible=possible)
            for name in NAMES:
                is_serving = await status(served, name) == health_pb2.HealthCheckResponse.SERVING
                assert is_serving == (possible or name not in needy)
        await server.health.enter_graceful_shutdown()
        await grpc_server.set_generating(server, MODEL.name, possible=True)
        assert await status(served, "") == health_pb2.HealthCheckResponse.NOT_SERVING


async def test_a_port_in_use_is_refused():
    async with serving() as served:
        with pytest.raises(grpc_server.PortInUseError, match=f"127.0.0.1:{served.server.port}"):
            grpc_server.bind("127.0.0.1", served.server.port, 4096)
