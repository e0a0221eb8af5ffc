"""What Prometheus reads from a real server after a few calls of each end."""

from __future__ import annotations

import re
import time
import urllib.request

import grpc
import pytest

from service.rpc.pb.v1 import constraint_pb2 as c
from service.rpc.pb.v1 import generation_pb2 as g
from service.rpc.pb.v1 import generation_pb2_grpc
from tests.end_to_end.conftest import ONE_THREAD
from tools.local_server import LocalServer

GENERATE = 'method="syntaxd.v1.GenerationService/Generate"'
PROMPT = "A text that only the prompt has."


def scrape(url: str) -> dict[str, float]:
    """Every series with its value."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {
        name: float(value)
        for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    }


def scrape_once_counted(url: str, *names: str) -> dict[str, float]:
    """Once these are there: a call's end reaches its caller before it is counted."""
    until = time.monotonic() + 10
    while not set(names) <= (found := scrape(url)).keys():
        assert time.monotonic() < until, names
    return found


@pytest.fixture(scope="module")
def watched(default_model, tmp_path_factory):
    log = tmp_path_factory.mktemp("metrics") / "log"
    flags = ("--metrics", "127.0.0.1:0")
    with LocalServer("--model", str(default_model), *ONE_THREAD, *flags, log=log) as running:
        yield running


def test_calls_tokens_and_times_are_read_where_they_were_asked_for(watched):
    before = scrape(watched.metrics)
    assert before["syntaxd_output_tokens_total"] == 0  # the server's own first request is not one
    asked = g.GenerateRequest(prompt=PROMPT, constraint=c.Constraint(regex="[ab]{12}"))
    with grpc.insecure_channel(watched.address) as channel:
        stub = generation_pb2_grpc.GenerationServiceStub(channel)
        answers = [stub.Generate(asked) for _ in range(2)]
        with pytest.raises(grpc.RpcError):
            stub.Generate(g.GenerateRequest(prompt=PROMPT, model="nobody's"))
    refused = f'syntaxd_calls_total{{code="NOT_FOUND",{GENERATE}}}'
    after = scrape_once_counted(watched.metrics, refused)
    assert after[f'syntaxd_calls_total{{code="OK",{GENERATE}}}'] == 2
    assert after[refused] == 1
    assert after["syntaxd_output_tokens_total"] == sum(a.usage.completion_tokens for a in answers)
    assert after["syntaxd_prompt_tokens_total"] == sum(a.usage.prompt_tokens for a in answers)
    assert after["syntaxd_time_to_first_token_seconds_count"] == 2
    assert after["syntaxd_time_to_first_token_seconds_sum"] > 0
    assert after["syntaxd_inter_token_seconds_count"] > 0
    assert after["syntaxd_mask_seconds_total"] > 0
    for result in ("miss", "hit"):
        lookups = f'syntaxd_constraint_lookups_total{{result="{result}"}}'
        assert after[lookups] - before.get(lookups, 0) == 1
    assert after["syntaxd_requests"] == 0


def test_no_series_has_a_word_of_a_caller(watched):
    names = " ".join(scrape(watched.metrics))
    assert "prompt has" not in names
    assert set(re.findall(r"(\w+)=", names)) <= {
        "method",
        "code",
        "le",
        "finish_reason",
        "complete",
        "result",
    }
