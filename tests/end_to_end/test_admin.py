"""An operator's port: what the server does, whose request ends, and the end of the server."""

from __future__ import annotations

import json
import threading

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import syntaxd_client
from service.rpc.pb.v1 import admin_pb2 as a
from service.rpc.pb.v1 import admin_pb2_grpc, generation_pb2_grpc
from tests.end_to_end.calls import LONG, TIMEOUT, ask, refused
from tests.end_to_end.conftest import ONE_THREAD
from tools.local_server import LocalServer


def test_a_port_of_its_own_shows_ends_and_drains(default_model, tmp_path):
    flags = ("--model", str(default_model), *ONE_THREAD, "--admin", "127.0.0.1:0")
    flags += ("--log-format", "json", "--log-calls")
    with (
        LocalServer(*flags, log=tmp_path / "log") as server,
        grpc.insecure_channel(server.address) as channel,
        grpc.insecure_channel(server.admin) as behind,
    ):
        stub = generation_pb2_grpc.GenerationServiceStub(channel)
        admin = admin_pb2_grpc.AdminServiceStub(behind)
        health = health_pb2_grpc.HealthStub(behind)

        info = admin.GetServerInfo(a.GetServerInfoRequest())
        assert (info.model, info.state) == (server.model, a.SERVER_STATE_SERVING)
        assert admin.GetLoad(a.GetLoadRequest()).total_kv_blocks > 0
        checked = health.Check(health_pb2.HealthCheckRequest(service="syntaxd.v1.ModelService"))
        assert checked.status == health_pb2.HealthCheckResponse.SERVING

        # Neither port has what belongs to the other.
        with pytest.raises(grpc.RpcError) as caught:
            admin_pb2_grpc.AdminServiceStub(channel).Drain(a.DrainRequest())
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        with pytest.raises(grpc.RpcError) as caught:
            generation_pb2_grpc.GenerationServiceStub(behind).Generate(ask())
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED

        call = stub.GenerateStream(
            ask(constraint=LONG, request_id="request-of-mine"), timeout=TIMEOUT
        )
        while next(call).WhichOneof("event") != "delta":
            pass
        load = admin.GetLoad(a.GetLoadRequest())
        assert (load.running_requests, load.queued_requests) == (1, 0)
        assert load.used_kv_blocks > 0
        admin.CancelRequest(a.CancelRequestRequest(request_id="request-of-mine"))
        assert refused(lambda: list(call))[:2] == ("CANCELLED", "CANCELLED")
        gone = a.CancelRequestRequest(request_id="request-of-mine")
        assert refused(lambda: admin.CancelRequest(gone))[:2] == ("NOT_FOUND", "UNKNOWN_REQUEST")

        with syntaxd_client.Client(server.address, timeout=TIMEOUT, retry=None) as client:
            stream = client.stream("Count.", regex="[a-z ]{100}")
            assert next(stream)
            done = threading.Thread(target=stream.result)
            done.start()
            assert admin.Drain(a.DrainRequest()).running_calls == 1
            with pytest.raises(syntaxd_client.UnavailableError) as late:
                client.generate("Yes?", choice=["yes"])
            assert late.value.reason == "DRAINING"
            done.join()
            assert stream.answer.complete
        assert server.process.wait(30) == 0
    log = (tmp_path / "log").read_text()
    assert "request-of-mine" not in log  # the caller's name for it is the caller's
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert any("told the server to drain" in each["message"] for each in lines)
    assert {each["process"] for each in lines} == {"front", "engine"}
    codes = {(each["method"].rpartition("/")[2], each["code"]) for each in lines if "code" in each}
    assert {
        ("GenerateStream", "CANCELLED"),
        ("CancelRequest", "NOT_FOUND"),
        ("Drain", "OK"),
    } <= codes
