"""What is counted, under which name, and that the dashboard asks for nothing else."""

from __future__ import annotations

import json
import re
import socket
import urllib.request
from pathlib import Path

import grpc
import pytest

from service.engine.types import Chunk, FinishReason, Load, Token
from service.rpc.api_keys import ApiKeys, Key
from service.rpc.metrics import ExportError, Metrics, exporting
from service.rpc.pb.v1 import constraint_pb2 as c
from service.rpc.pb.v1 import constraint_pb2_grpc, generation_pb2_grpc
from service.rpc.pb.v1 import generation_pb2 as g
from tests.service.rpc.calls import until
from tests.service.rpc.fakes import finish, serving

GENERATE = "syntaxd.v1.GenerationService/Generate"
STREAM = "syntaxd.v1.GenerationService/GenerateStream"
DASHBOARD = Path(__file__).parents[3] / "deploy" / "grafana" / "syntaxd.json"


def value(metrics, name, **labels):
    return metrics.registry.get_sample_value(f"syntaxd_{name}", labels)


def request(**fields):
    return g.GenerateRequest(**{"prompt": "hi", **fields})


async def counted(served, method, code):
    """Waits for the call to be counted: its end reaches the caller before the callback."""
    await until(lambda: value(served.metrics, "calls_total", method=method, code=code))
    return value(served.metrics, "calls_total", method=method, code=code)


async def test_calls_are_counted_by_method_and_code():
    async with serving() as served:
        stub = generation_pb2_grpc.GenerationServiceStub(served.channel)
        for _ in range(2):
            await stub.Generate(request())
        assert [event async for event in stub.GenerateStream(request())]
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.Generate(request(model="gpt"))
        served.engine.gate.clear()
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.Generate(request(), timeout=0.2)
        call = stub.GenerateStream(request())
        assert await call.read()
        call.cancel()
        assert await counted(served, STREAM, "CANCELLED") == 1
        assert await counted(served, GENERATE, "DEADLINE_EXCEEDED") == 1
        assert await counted(served, GENERATE, "NOT_FOUND") == 1
        assert await counted(served, STREAM, "OK") == 1
        assert await counted(served, GENERATE, "OK") == 2
        assert value(served.metrics, "call_seconds_count", method=GENERATE) == 4


async def test_calls_that_the_other_interceptors_refuse_are_counted():
    async with serving(api_keys=ApiKeys([Key(b"a-key-that-is-long")])) as served:
        stub = generation_pb2_grpc.GenerationServiceStub(served.channel)
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.Generate(request())
        assert await counted(served, GENERATE, "UNAUTHENTICATED") == 1


async def test_a_method_that_does_not_exist_makes_no_series():
    async with serving() as served:
        with pytest.raises(grpc.aio.AioRpcError):
            await served.channel.unary_unary("/syntaxd.v1.GenerationService/Nothing")(b"")
        (calls,) = (f for f in served.metrics.registry.collect() if f.name == "syntaxd_calls")
        assert not calls.samples


async def test_a_constraint_is_a_miss_and_then_a_hit():
    async with serving() as served:
        stub = constraint_pb2_grpc.ConstraintServiceStub(served.channel)
        for _ in range(3):
            await stub.CompileConstraint(
                c.CompileConstraintRequest(constraint=c.Constraint(regex="yes"))
            )
        assert value(served.metrics, "constraint_lookups_total", result="miss") == 1
        assert value(served.metrics, "constraint_lookups_total", result="hit") == 2
        assert value(served.metrics, "compile_seconds_count") == 1
        assert value(served.metrics, "compile_seconds_sum") == pytest.approx(17e-6)


async def test_requests_are_those_that_hold_a_place():
    async with serving() as served:
        served.engine.gate.clear()
        stub = generation_pb2_grpc.GenerationServiceStub(served.channel)
        call = stub.GenerateStream(request())
        assert await call.read()
        assert value(served.metrics, "requests") == 1
        call.cancel()
        await until(lambda: value(served.metrics, "requests") == 0)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def tokens(name, *forced, end=None):
    return Chunk(
        request_id=name, text="x", tokens=tuple(Token(1, each) for each in forced), finish=end
    )


def load(**changes):
    usual = {"running": 1, "waiting": 2, "kv_used_blocks": 3, "kv_blocks": 12, "preemptions": 0}
    return Load(**usual | changes)


def test_the_first_token_counts_from_the_place_the_others_from_the_step_before():
    clock = Clock()
    metrics = Metrics(clock)
    metrics.arrived("a")
    clock.now += 2
    metrics.step([tokens("a", False)], load())
    clock.now += 0.5
    metrics.step([tokens("a", False)], load())
    clock.now += 3
    metrics.step([tokens("a", True, True, False)], load())
    assert value(metrics, "time_to_first_token_seconds_sum") == 2
    assert value(metrics, "time_to_first_token_seconds_count") == 1
    assert value(metrics, "inter_token_seconds_sum") == 1.5
    assert value(metrics, "inter_token_seconds_count") == 2
    assert value(metrics, "output_tokens_total") == 5
    assert value(metrics, "forced_tokens_total") == 2


def test_what_nobody_waits_for_is_counted_but_not_timed():
    metrics = Metrics()
    metrics.arrived("a")
    metrics.left("a")
    end = finish(2, reason=FinishReason.CANCELLED, complete=False)
    metrics.step([tokens("a", False, end=end)], load())
    assert value(metrics, "output_tokens_total") == 1
    assert value(metrics, "time_to_first_token_seconds_count") == 0
    assert value(metrics, "answers_total", finish_reason="cancelled", complete="false") == 1


def test_a_finish_brings_its_tokens_and_times():
    metrics = Metrics()
    metrics.step([tokens("a", end=finish(2))], load())
    assert value(metrics, "answers_total", finish_reason="stop", complete="true") == 1
    assert value(metrics, "prompt_tokens_total") == 3
    assert value(metrics, "queue_seconds_sum") == pytest.approx(1e-6)
    assert value(metrics, "mask_seconds_total") == pytest.approx(5e-6)
    assert value(metrics, "drafted_tokens_total") == 4
    assert value(metrics, "accepted_draft_tokens_total") == 2


def test_load_is_that_of_the_last_step_and_preemptions_outlive_the_engine():
    metrics = Metrics()
    for preemptions in (2, 3, 1):  # the third is of a new process
        metrics.step([], load(preemptions=preemptions))
    assert value(metrics, "requests_running") == 1
    assert value(metrics, "requests_waiting") == 2
    assert value(metrics, "kv_usage_ratio") == 0.25
    assert value(metrics, "preemptions_total") == 4


def test_with_the_engine_everything_in_it_has_gone():
    metrics = Metrics()
    metrics.step([], Load(running=2, waiting=1, kv_used_blocks=1, kv_blocks=4, preemptions=7))
    metrics.engine_died()
    assert value(metrics, "engine_deaths_total") == 1
    for name in ("requests_running", "requests_waiting", "kv_usage_ratio"):
        assert value(metrics, name) == 0
    metrics.step([], Load(running=0, waiting=0, kv_used_blocks=0, kv_blocks=4, preemptions=1))
    assert value(metrics, "preemptions_total") == 8


def test_it_is_exported_over_http_and_only_while_asked_for():
    metrics = Metrics()
    metrics.call_ended(GENERATE, "OK", 0.5)
    with exporting(metrics, "127.0.0.1:0") as url:
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
        assert f'syntaxd_calls_total{{code="OK",method="{GENERATE}"}} 1.0' in text
        assert "_created" not in text
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=10)
    with exporting(metrics, "") as url:
        assert url is None


def test_a_certificate_is_watched_only_where_there_is_one():
    metrics, name = Metrics(), "certificate_expiry_timestamp_seconds"
    assert value(metrics, name) is None
    expires = iter((5.0, 7.0))
    metrics.watch_certificate(lambda: next(expires))
    assert [value(metrics, name), value(metrics, name)] == [5, 7]


def test_a_port_in_use_is_said():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ExportError, match=address), exporting(Metrics(), address):
            pass


def families():
    """All there are, those included that not every server has."""
    metrics = Metrics()
    metrics.watch_certificate(lambda: 5.0)
    return list(metrics.registry.collect())


def exported_names():
    """Every name that a query may use."""
    for family in families():
        yield from {
            "counter": [f"{family.name}_total"],
            "gauge": [family.name],
            "histogram": [f"{family.name}_{part}" for part in ("bucket", "sum", "count")],
        }[family.type]


def test_the_dashboard_asks_for_what_is_exported_and_shows_all_of_it():
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [
        target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())
    ]
    asked = {name for query in queries for name in re.findall(r"\bsyntaxd_\w+", query)}
    assert asked <= set(exported_names())
    names = {family.name for family in families()}
    unasked = {each for each in names if not any(name.startswith(each) for name in asked)}
    assert not unasked


def test_panels_of_the_dashboard_have_ids_and_places_of_their_own():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert all(x < 24 for x, _ in cells)
