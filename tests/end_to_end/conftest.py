"""One real server with the real model for this folder: two rows, two places in the queue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from service.rpc.pb.v1 import generation_pb2_grpc
from tools.local_server import LocalServer

ROWS, QUEUE = 2, 2

# Two threads that wait for each other crawl where other programs want the cores too.
ONE_THREAD = ("--threads", "1")


@pytest.fixture(scope="session")
def server(default_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    log = tmp_path_factory.mktemp("server") / "log"
    flags = ("--max-rows", str(ROWS), "--max-queue", str(QUEUE))
    with LocalServer("--model", str(default_model), *ONE_THREAD, *flags, log=log) as running:
        yield running
    assert "Traceback" not in log.read_text()


@pytest.fixture
def channel(server: LocalServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.address) as opened:
        yield opened


@pytest.fixture
def stub(channel: grpc.Channel) -> generation_pb2_grpc.GenerationServiceStub:
    return generation_pb2_grpc.GenerationServiceStub(channel)
