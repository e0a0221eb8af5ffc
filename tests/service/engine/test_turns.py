"""One thread, many jobs: they take turns, end in time, and stop when nobody waits."""

import asyncio
import time

import pytest

from service.engine import turns
from service.engine.turns import Turns


@pytest.fixture
def worker(monkeypatch):
    monkeypatch.setattr(turns, "_SLICE", 0)  # a turn is one step
    made = Turns()
    yield made
    made.close()


def job(log, name, steps):
    for _ in range(steps):
        log.append(name)
        yield
    return name


async def test_jobs_alternate_and_each_gets_its_result(worker):
    log = []
    results = await asyncio.gather(
        worker.run(job(log, "a", 4), 60), worker.run(job(log, "b", 4), 60)
    )
    assert results == ["a", "b"]
    assert "".join(log) == "abababab"


async def test_a_job_may_return_nothing(worker):
    def nothing():
        yield

    assert await worker.run(nothing(), 60) is None


async def test_what_a_job_raises_reaches_the_caller(worker):
    def broken():
        yield
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        await worker.run(broken(), 60)


async def test_a_job_that_takes_too_long_is_closed(worker):
    closed = []

    def endless():
        try:
            while True:
                yield
        finally:
            closed.append(True)

    with pytest.raises(TimeoutError, match=r"more than 0\.05 s"):
        await worker.run(endless(), 0.05)
    assert closed


async def test_a_job_whose_caller_went_away_stops(worker):
    steps = []

    def endless():
        while True:
            steps.append(1)
            time.sleep(0.001)
            yield

    task = asyncio.create_task(worker.run(endless(), 60))
    while not steps:  # noqa: ASYNC110 - the job is in a thread
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await worker.run(job([], "after", 1), 60)  # the slice that was under way is over
    so_far = len(steps)
    await worker.run(job([], "after", 20), 60)
    assert len(steps) == so_far


async def test_the_loop_goes_on_beside_a_job(worker):
    def busy():
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            sum(range(1_000))
            yield

    running = asyncio.create_task(worker.run(busy(), 60))
    ticks = 0
    while not running.done():
        await asyncio.sleep(0.001)
        ticks += 1
    assert ticks > 10
