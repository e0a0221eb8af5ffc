"""Engines that die: who is told what, how soon there is another, and when there is none."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import aclosing, asynccontextmanager

import pytest

from service.engine import supervisor as module
from service.engine.engine import EngineClient, EngineStartError
from service.engine.supervisor import Restarts, Supervisor
from service.engine.types import Chunk, Constraint, FinishReason, Load, ServiceFailure
from service.errors import Unavailable
from tests.service.engine import tiny
from tests.service.engine.test_engine import collect, make_request, settings
from tests.service.rpc.fakes import MODEL, finish

LOAD = Load(running=0, waiting=0, kv_used_blocks=0, kv_blocks=1, preemptions=0)


class FakeEngine:
    """One that says "a" to each request and does not end before it is let go."""

    def __init__(self, fails=None, error=None, info=MODEL):
        self.died = asyncio.get_running_loop().create_future()
        self.on_step = lambda chunks, load: None
        self.info = info
        self.fails = fails  # an exception at the start
        self.error = error  # the ServiceFailure that ends each request
        self.gate = asyncio.Event()
        self.asked, self.cancelled, self.is_closed = [], [], False

    async def start(self):
        if self.fails:
            raise self.fails
        return self.info

    async def submit(self, request, lexemes):
        self.asked.append((request.request_id, lexemes))
        chunk = Chunk(request_id=request.request_id, text="a")
        self.on_step([chunk], LOAD)
        yield chunk
        if request.request_id != "warm-up":
            died = asyncio.ensure_future(self.gate.wait())
            await asyncio.wait((died, self.died), return_when=asyncio.FIRST_COMPLETED)
            died.cancel()
        if self.died.done():
            raise Unavailable("ENGINE_GONE", "gone")
        reason = FinishReason.ERROR if self.error else FinishReason.STOP
        yield Chunk(request_id=request.request_id, finish=finish(reason=reason, error=self.error))

    def cancel(self, request_id):
        self.cancelled.append(request_id)

    async def close(self):
        self.is_closed = True


class Scene:
    """A supervisor of scripted engines, on a clock of its own that only pauses move."""

    def __init__(self, monkeypatch, *engines, **restarts):
        self.now = 100.0
        self.pauses, self.changes, self.made = [], [], []
        self._engines = iter(engines)
        monkeypatch.setattr(module.asyncio, "sleep", self._sleep)
        policy = Restarts(**{"max_restarts": 3} | restarts)
        self.supervisor = Supervisor(self._make, policy, lambda: self.now)
        self.supervisor.on_change = self._changed

    def _make(self):
        self.made.append(next(self._engines)())
        return self.made[-1]

    async def _sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds

    async def _changed(self, is_up):
        self.changes.append(is_up)

    async def settle(self):
        """Until nothing happens by itself any more."""
        for _ in range(50):
            await asyncio.get_running_loop().run_in_executor(None, lambda: None)


@asynccontextmanager
async def scene(monkeypatch, *engines, **restarts):
    made = Scene(monkeypatch, *engines, **restarts)
    yield made
    await made.supervisor.close()


def broken(text="no memory"):
    return FakeEngine(fails=EngineStartError(text))


async def test_the_next_engine_comes_at_once_and_is_warm_before_anybody_else_uses_it(monkeypatch):
    async with scene(monkeypatch, FakeEngine, FakeEngine) as on:
        steps = []
        assert await on.supervisor.start() is MODEL
        await on.supervisor.warm_up(make_request("warm-up"), {"a": 1})
        on.supervisor.on_step = lambda chunks, load: steps.append(chunks[0].request_id)
        on.made[0].died.set_result("signal 9")
        await on.settle()
        assert on.changes == [False, True]
        assert on.pauses == [0.0]
        assert on.made[1].asked == [("warm-up", {"a": 1})]
        on.made[1].gate.set()
        assert (await collect(on.supervisor, make_request("b")))[-1].finish.complete
        assert steps == ["b"]  # nobody counts the warm-up
        assert on.supervisor.is_up
        on.supervisor.cancel("b")
        assert (on.made[0].cancelled, on.made[1].cancelled) == ([], ["b"])


async def test_requests_in_it_end_and_new_ones_are_told_how_long(monkeypatch):
    async with scene(monkeypatch, FakeEngine, broken, broken, FakeEngine) as on:
        loading = asyncio.Event()

        async def slow_start(self):
            on.now += 8
            return self.info

        monkeypatch.setattr(FakeEngine, "start", slow_start)
        await on.supervisor.start()
        chunks = on.supervisor.submit(make_request("a"))
        await anext(chunks)

        async def held(self):
            await loading.wait()
            return self.info

        monkeypatch.setattr(FakeEngine, "start", held)
        on.made[0].died.set_result("signal 9")
        with pytest.raises(Unavailable, match="gone") as caught:
            await anext(chunks)
        assert (caught.value.reason, caught.value.retry_after_s) == ("ENGINE_GONE", 8)
        await on.settle()
        on.now += 3
        with pytest.raises(Unavailable) as caught:
            on.supervisor.check()
        assert (caught.value.reason, caught.value.retry_after_s) == ("MODEL_LOADING", 5)
        on.now += 30
        with pytest.raises(Unavailable) as caught:
            await collect(on.supervisor, make_request("b"))
        assert caught.value.retry_after_s == 1
        on.supervisor.cancel("a")
        loading.set()
        await on.settle()
        on.supervisor.check()


async def test_failures_in_a_row_pause_longer_each_time_and_then_it_gives_up(monkeypatch):
    async with scene(monkeypatch, FakeEngine, broken, FakeEngine, broken, max_restarts=3) as on:
        await on.supervisor.start()
        on.made[0].died.set_result("signal 9")
        await on.settle()
        assert on.pauses == [0, 1]
        on.made[2].died.set_result("signal 11")
        assert "no memory; failures in a row: 4" in await on.supervisor.gave_up
        assert on.pauses == [0, 1, 2]
        assert on.changes == [False, True, False]
        assert all(engine.is_closed for engine in on.made[1::2])


async def test_an_engine_that_was_up_for_a_while_had_not_failed(monkeypatch):
    async with scene(monkeypatch, *[FakeEngine] * 9, max_restarts=1, stable_s=60) as on:
        await on.supervisor.start()
        for number in range(5):
            on.now += 60
            on.made[number].died.set_result("signal 9")
            await on.settle()
        assert on.pauses == [0] * 5
        assert not on.supervisor.gave_up.done()
        on.made[5].died.set_result("signal 9")  # at once
        assert "failures in a row: 2" in await on.supervisor.gave_up


async def test_without_restarts_the_first_death_is_the_end(monkeypatch):
    async with scene(monkeypatch, FakeEngine, max_restarts=0) as on:
        await on.supervisor.start()
        on.made[0].died.set_result("signal 9")
        assert "signal 9" in await on.supervisor.gave_up
        with pytest.raises(Unavailable):
            on.supervisor.check()


def ill():
    return FakeEngine(error=ServiceFailure(code="INTERNAL", reason="INTERNAL", message="ill"))


def another():
    return FakeEngine(info=MODEL.__class__(**{**vars_of(MODEL), "name": "another"}))


def vars_of(info):
    return {name: getattr(info, name) for name in info.__struct_fields__}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (ill, "its first request failed: ill"),
        (another, "its files have changed"),
        (lambda: FakeEngine(fails=OSError("too many files")), "does not start: too many files"),
    ],
)
async def test_an_engine_that_is_of_no_use_counts_as_a_failure(monkeypatch, bad, said):
    async with scene(monkeypatch, FakeEngine, bad, max_restarts=1) as on:
        await on.supervisor.start()
        await on.supervisor.warm_up(make_request("warm-up"), None)
        on.made[0].died.set_result("signal 9")
        assert said in await on.supervisor.gave_up
        assert on.made[1].is_closed


async def test_a_first_start_that_fails_is_final(monkeypatch):
    async with scene(monkeypatch, broken) as on:
        with pytest.raises(EngineStartError, match="no memory"):
            await on.supervisor.start()
        assert on.made[0].is_closed
        assert not on.pauses


async def test_a_fault_of_the_watcher_is_no_silence(monkeypatch):
    def fault():
        raise KeyError("whatever")

    async with scene(monkeypatch, FakeEngine, fault) as on:
        await on.supervisor.start()
        on.made[0].died.set_result("signal 9")
        assert "whatever" in await on.supervisor.gave_up


async def test_closing_while_it_loads_ends_both(monkeypatch):
    on = Scene(monkeypatch, FakeEngine, FakeEngine)
    await on.supervisor.start()
    never = asyncio.Event()
    monkeypatch.setattr(FakeEngine, "start", lambda self: never.wait())
    on.made[0].died.set_result("signal 9")
    await on.settle()
    await on.supervisor.close()
    assert on.made[1].is_closed
    assert not on.supervisor.gave_up.done()


def test_pauses_double_up_to_the_longest():
    policy = Restarts(first_pause_s=1, longest_pause_s=10)
    assert [policy.pause(n) for n in range(1, 8)] == [0, 1, 2, 4, 8, 10, 10]
    assert policy.pause(1_000_000) == 10


async def test_a_real_process_that_is_killed_is_replaced_and_says_the_same(tmp_path):
    """A constraint compiled for the first goes to the second with the request."""
    folder = tiny.save_folder(tmp_path / "tiny")
    engines = []

    def make():
        engines.append(EngineClient(settings(folder)))
        return engines[-1]

    request = make_request("a", constraint=Constraint(kind="regex", text="[a-f]{20}"), seed=3)
    supervisor, is_back = Supervisor(make), asyncio.Event()

    async def on_change(is_up):
        if is_up:
            is_back.set()

    supervisor.on_change = on_change
    try:
        info = await supervisor.start()
        await supervisor.warm_up(make_request("warm-up", max_tokens=2), None)
        before = "".join(chunk.text for chunk in await collect(supervisor, request))
        async with aclosing(supervisor.submit(make_request("b", max_tokens=500))) as chunks:
            await anext(chunks)
            os.kill(engines[0].pid, signal.SIGKILL)
            with pytest.raises(Unavailable, match="signal 9"):
                async for _ in chunks:
                    pass
        await is_back.wait()
        assert "".join(chunk.text for chunk in await collect(supervisor, request)) == before
        assert supervisor._info == info
    finally:
        await supervisor.close()
    assert engines[1]._process.returncode == 0
