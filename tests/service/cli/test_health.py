"""``syntaxd health``: its words and its exit status."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from service.cli.main import main

Status = health_pb2.HealthCheckResponse


@pytest.fixture
def server():
    servicer = health.HealthServicer()
    server = grpc.server(ThreadPoolExecutor(2))
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    servicer.set("", Status.SERVING)
    servicer.set("model", Status.NOT_SERVING)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield address
    server.stop(0).wait()


@pytest.mark.parametrize(
    ("service", "status", "said"),
    [
        ([], 0, "SERVING\n"),
        (["--service", "model"], 1, "NOT_SERVING\n"),
        (["--service", "gpt"], 1, "SERVICE_UNKNOWN\n"),
    ],
)
def test_it_says_what_the_server_says(server, capsys, service, status, said):
    assert main(["health", "--server", server, *service]) == status
    assert capsys.readouterr().out == said


def test_where_nobody_answers_nobody_serves(capsys):
    assert main(["health", "--server", "127.0.0.1:1", "--timeout", "5"]) == 1
    assert "no server answers at 127.0.0.1:1" in capsys.readouterr().err
