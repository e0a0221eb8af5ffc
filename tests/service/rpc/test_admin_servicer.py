"""AdminService: what it says of a server, and whose request it ends."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from service.engine.types import Load
from service.rpc import server as grpc_server
from service.rpc.api_keys import ApiKeys, Key
from service.rpc.pb.v1 import admin_pb2 as a
from service.rpc.pb.v1 import admin_pb2_grpc, generation_pb2_grpc
from service.rpc.pb.v1 import constraint_pb2 as c
from service.rpc.pb.v1 import generation_pb2 as g
from tests.service.rpc.calls import refused, until
from tests.service.rpc.fakes import MODEL, serving


@asynccontextmanager
async def administered(**settings):
    async with serving(with_admin=True, **settings) as served:
        yield served, admin_pb2_grpc.AdminServiceStub(served.channel)


def generate(served, **fields):
    stub = generation_pb2_grpc.GenerationServiceStub(served.channel)
    return stub.Generate(g.GenerateRequest(prompt="x", **fields))


async def test_it_says_what_the_server_is():
    async with administered() as (served, stub):
        info = await stub.GetServerInfo(a.GetServerInfoRequest())
        assert (info.model, info.device) == (MODEL.name, "cpu")
        assert info.version
        assert 0 <= time.time() * 1_000 - info.start_time_unix_ms < 60_000
        assert info.state == a.SERVER_STATE_SERVING
        served.engine.is_up = False
        again = await stub.GetServerInfo(a.GetServerInfoRequest())
        assert again.state == a.SERVER_STATE_LOADING
        assert again.instance_id == info.instance_id
    async with administered() as (_, stub):
        other = await stub.GetServerInfo(a.GetServerInfoRequest())
        assert other.instance_id != info.instance_id


async def test_it_says_how_much_there_is_to_do():
    async with administered(capacity=5) as (served, stub):
        load = await stub.GetLoad(a.GetLoadRequest())
        assert load == a.GetLoadResponse(max_requests=5)
        served.engine.gate.clear()
        calls = [generate(served) for _ in range(3)]
        await until(lambda: len(served.engine.submitted) == 3)
        served.engine.load = Load(
            running=2, waiting=1, kv_used_blocks=4, kv_blocks=9, preemptions=0
        )
        served.compiler.num_compiling = 7
        load = await stub.GetLoad(a.GetLoadRequest())
        assert load == a.GetLoadResponse(
            running_requests=2,
            queued_requests=1,
            max_requests=5,
            compiling_constraints=7,
            used_kv_blocks=4,
            total_kv_blocks=9,
        )
        served.engine.gate.set()
        for call in calls:
            await call
        await generate(served, constraint=c.Constraint(regex="yes"))
        load = await stub.GetLoad(a.GetLoadRequest())
        assert (load.running_requests, load.queued_requests) == (
            0,
            0,
        )  # whatever the last step said
        assert load.constraint_cache_bytes > 0


async def test_a_running_generation_is_cancelled_in_the_engine():
    async with administered() as (served, stub):
        served.engine.gate.clear()
        call = generate(served, request_id="mine")
        await until(lambda: served.engine.submitted)
        await stub.CancelRequest(a.CancelRequestRequest(request_id="mine"))
        assert served.engine.cancelled == ["mine"]
        call.cancel()


async def test_one_that_waits_for_its_constraint_ends_at_once():
    async with administered() as (served, stub):
        served.compiler.gate.clear()
        call = generate(served, request_id="mine", constraint=c.Constraint(regex="yes"))
        await until(lambda: served.front.num_requests)
        await stub.CancelRequest(a.CancelRequestRequest(request_id="mine"))
        code, reason, _ = await refused(call)
        assert (code, reason) == (grpc.StatusCode.CANCELLED, "CANCELLED")
        assert not served.front.num_requests
        assert not served.engine.submitted


async def test_one_whose_reader_is_slow_to_begin_never_reaches_the_engine():
    """Cancelled between its first event and the engine's hearing of it."""
    async with serving() as served:
        front = served.front
        place = front.reserve("mine")
        request = g.GenerateRequest(prompt="x", request_id="mine")
        from service.rpc.convert.request import read

        accepted = await front.unless_cancelled(place, front.prepare(read(request, MODEL), None))
        assert front.cancel("mine")
        with pytest.raises(Exception, match="cancelled"):
            await anext(front.chunks(accepted))
        front.release(place)
        assert not served.engine.submitted


async def test_who_is_not_here_is_not_found():
    async with administered() as (_, stub):
        cancel = stub.CancelRequest(a.CancelRequestRequest(request_id="nobody"))
        assert (await refused(cancel))[:2] == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_REQUEST")


async def test_told_to_drain_it_says_so_and_goes_on_answering():
    async with administered() as (served, stub):
        served.engine.gate.clear()
        call = generate(served)
        await until(lambda: served.engine.submitted)
        assert (await stub.Drain(a.DrainRequest())).running_calls == 1
        assert served.told_to_stop
        served.server.draining.begin()  # as the server then does
        info = await stub.GetServerInfo(a.GetServerInfoRequest())
        assert info.state == a.SERVER_STATE_DRAINING
        assert (await stub.GetLoad(a.GetLoadRequest())).queued_requests == 1
        assert (await stub.Drain(a.DrainRequest())).running_calls == 1
        assert (await refused(generate(served)))[1] == "DRAINING"
        served.engine.gate.set()
        await call


async def test_a_message_that_is_none_is_refused_here_too():
    async with administered() as (served, _):
        call = served.channel.unary_unary("/syntaxd.v1.AdminService/CancelRequest")
        assert (await refused(call(b"\xff\xff")))[:2] == (
            grpc.StatusCode.INVALID_ARGUMENT,
            "MALFORMED_MESSAGE",
        )


async def test_it_asks_for_a_key_as_the_others_do():
    async with administered(api_keys=ApiKeys([Key(b"a-key-for-the-tests")])) as (_, stub):
        assert (await refused(stub.Drain(a.DrainRequest())))[1] == "UNKNOWN_API_KEY"
        metadata = (("authorization", "Bearer a-key-for-the-tests"),)
        assert await stub.GetLoad(a.GetLoadRequest(), metadata=metadata)


async def services(channel):
    ask = reflection_pb2.ServerReflectionRequest(list_services="")
    stream = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([ask]))
    answer = await stream.read()
    return {each.name for each in answer.list_services_response.service}


@pytest.mark.parametrize("with_admin", [False, True])
async def test_without_being_asked_for_it_is_not_there(with_admin):
    async with serving(with_admin=with_admin) as served:
        assert (grpc_server.ADMIN in await services(served.channel)) == with_admin
        if not with_admin:
            stub = admin_pb2_grpc.AdminServiceStub(served.channel)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Drain(a.DrainRequest())
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
