"""The log line of a call: there when asked for, and without a word of the caller's."""

from __future__ import annotations

import logging

import grpc
import pytest

from service.rpc.pb.v1 import generation_pb2 as g
from service.rpc.pb.v1 import generation_pb2_grpc
from tests.service.rpc.calls import until
from tests.service.rpc.fakes import serving

TRACE = "0af7651916cd43dd8448eb211c80319c"
LOGGER = "service.rpc.counting"


def lines(caplog):
    return [record for record in caplog.records if record.name == LOGGER]


async def calls(served, traceparent):
    stub = generation_pb2_grpc.GenerationServiceStub(served.channel)
    metadata = [("traceparent", traceparent), ("x-secret", "of the caller")]
    await stub.Generate(g.GenerateRequest(prompt="secret prompt"), metadata=metadata)
    refused = g.GenerateRequest(prompt="x", request_id="secret id", model="secret model")
    with pytest.raises(grpc.aio.AioRpcError):
        await stub.Generate(refused, metadata=metadata)


async def test_each_call_has_a_line_with_its_trace(caplog):
    caplog.set_level(logging.INFO, LOGGER)
    async with serving(log_calls=True) as served:
        await calls(served, f"00-{TRACE}-b7ad6b7169203331-01")
        await until(lambda: len(lines(caplog)) == 2)
    good, bad = (record.fields for record in lines(caplog))
    assert good["method"] == bad["method"] == "syntaxd.v1.GenerationService/Generate"
    assert (good["code"], bad["code"]) == ("OK", "NOT_FOUND")
    assert good["trace_id"] == bad["trace_id"] == TRACE
    assert good["seconds"] > 0
    assert good["peer"].startswith("ipv4:127.0.0.1:")
    assert "secret" not in caplog.text + repr((good, bad))


@pytest.mark.parametrize("traceparent", ["", "secret", f"00-{TRACE}", f"00-{TRACE.upper()}-0-01"])
async def test_what_is_no_trace_is_not_written_down(caplog, traceparent):
    caplog.set_level(logging.INFO, LOGGER)
    async with serving(log_calls=True) as served:
        await calls(served, traceparent)
        await until(lambda: len(lines(caplog)) == 2)
    assert all("trace_id" not in record.fields for record in lines(caplog))


async def test_unless_asked_for_there_is_none(caplog):
    caplog.set_level(logging.INFO, LOGGER)
    async with serving() as served:
        await calls(served, f"00-{TRACE}-b7ad6b7169203331-01")
        await until(
            lambda: served.metrics.registry.get_sample_value(
                "syntaxd_calls_total",
                {"method": "syntaxd.v1.GenerationService/Generate", "code": "NOT_FOUND"},
            )
        )
    assert not lines(caplog)
