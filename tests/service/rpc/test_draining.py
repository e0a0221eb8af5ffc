"""The end of a server: who is refused, how, and who may go on."""

import asyncio
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from service.rpc import server as grpc_server
from service.rpc.pb.v1 import constraint_pb2 as c
from service.rpc.pb.v1 import constraint_pb2_grpc, generation_pb2_grpc, model_pb2_grpc
from service.rpc.pb.v1 import generation_pb2 as g
from service.rpc.pb.v1 import model_pb2 as m
from tests.service.rpc.calls import details, refused, until
from tests.service.rpc.fakes import MODEL, serving


def all_calls(channel):
    """One call of every RPC."""
    generation = generation_pb2_grpc.GenerationServiceStub(channel)
    constraint = constraint_pb2_grpc.ConstraintServiceStub(channel)
    model = model_pb2_grpc.ModelServiceStub(channel)
    yes = c.Constraint(regex="yes")
    return {
        "Generate": generation.Generate(g.GenerateRequest(prompt="x")),
        "GenerateStream": generation.GenerateStream(g.GenerateRequest(prompt="x")).read(),
        "CompileConstraint": constraint.CompileConstraint(
            c.CompileConstraintRequest(constraint=yes)
        ),
        "CheckText": constraint.CheckText(c.CheckTextRequest(constraint=yes)),
        "GetConstraint": constraint.GetConstraint(c.GetConstraintRequest()),
        "DeleteConstraint": constraint.DeleteConstraint(c.DeleteConstraintRequest()),
        "GetModel": model.GetModel(m.GetModelRequest()),
        "ListModels": model.ListModels(m.ListModelsRequest()),
        "Tokenize": model.Tokenize(m.TokenizeRequest()),
        "Detokenize": model.Detokenize(m.DetokenizeRequest()),
    }


async def test_every_rpc_is_refused_with_words_on_open_and_on_new_connections():
    async with serving() as served:
        served.engine.gate.clear()
        stream = generation_pb2_grpc.GenerationServiceStub(served.channel).GenerateStream(
            g.GenerateRequest(prompt="x")
        )
        assert (await stream.read()).WhichOneof("event") == "started"
        draining = asyncio.create_task(grpc_server.drain(served.server, 30))
        await asyncio.sleep(0)
        address = f"127.0.0.1:{served.server.port}"
        async with grpc.aio.insecure_channel(address) as fresh:
            for channel in (served.channel, fresh):
                for name, call in all_calls(channel).items():
                    code, reason, _ = await refused(call)
                    assert (code, reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING"), name
            tokenize = model_pb2_grpc.ModelServiceStub(fresh).Tokenize(m.TokenizeRequest())
            delay = (await details(tokenize))["RetryInfo"].retry_delay
            assert delay.ToMilliseconds() == 1_000
        assert not draining.done()
        served.engine.gate.set()
        kinds = []
        while (event := await stream.read()) is not grpc.aio.EOF:
            kinds.append(event.WhichOneof("event"))
        assert kinds[-1] == "summary"
        assert await draining


def test_there_is_a_call_of_every_rpc():
    services = (
        g.DESCRIPTOR.services_by_name,
        c.DESCRIPTOR.services_by_name,
        m.DESCRIPTOR.services_by_name,
    )
    names = {rpc.name for each in services for service in each.values() for rpc in service.methods}

    class Anything:
        def __getattr__(self, name):
            return lambda *_, **__: Anything()

        def __call__(self, *_):
            return self

    assert set(all_calls(Anything())) == names


async def test_health_says_not_serving_at_once_and_goes_on_answering():
    async with serving() as served:
        served.engine.gate.clear()
        running = asyncio.ensure_future(
            generation_pb2_grpc.GenerationServiceStub(served.channel).Generate(
                g.GenerateRequest(prompt="x")
            )
        )
        await until(lambda: served.engine.submitted)
        draining = asyncio.create_task(grpc_server.drain(served.server, 30))
        health = health_pb2_grpc.HealthStub(served.channel)
        for name in ("", *grpc_server.SERVICES, MODEL.name):
            found = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert found.status == health_pb2.HealthCheckResponse.NOT_SERVING
        served.engine.gate.set()
        assert (await running).outputs[0].text == "yes"
        assert await draining


async def test_a_call_that_does_not_end_is_not_waited_for_longer_than_told():
    async with serving() as served:
        served.engine.gate.clear()
        running = generation_pb2_grpc.GenerationServiceStub(served.channel).Generate(
            g.GenerateRequest(prompt="x")
        )
        ended = asyncio.ensure_future(running.code())
        await until(lambda: served.engine.submitted)
        began = time.monotonic()
        assert not await grpc_server.drain(served.server, 0.2)
        assert 0.15 < time.monotonic() - began < 5
        await grpc_server.stop(served.server)
        assert await ended is not grpc.StatusCode.OK


async def test_a_cancelled_stream_is_not_waited_for():
    async with serving() as served:
        served.engine.gate.clear()
        stream = generation_pb2_grpc.GenerationServiceStub(served.channel).GenerateStream(
            g.GenerateRequest(prompt="x")
        )
        await stream.read()
        stream.cancel()
        assert await grpc_server.drain(served.server, 30)


async def test_whoever_watches_health_does_not_hold_up_the_end():
    async with serving() as served:
        watch = health_pb2_grpc.HealthStub(served.channel).Watch(health_pb2.HealthCheckRequest())
        await watch.read()
        began = time.monotonic()
        assert await grpc_server.drain(served.server, 30)
        await grpc_server.stop(served.server)
        assert time.monotonic() - began < 5
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        with pytest.raises(grpc.aio.AioRpcError):
            await watch.read()
