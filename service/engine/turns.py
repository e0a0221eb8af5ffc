"""Work in slices, in one thread of its own: jobs in flight take turns.

The thread holds the interpreter's lock while it computes, so the event loop waits for it now and
then (5 ms at the most, Python's switch interval), but for no job as a whole. Jobs are generators
that yield about every millisecond.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_SLICE = 0.005  # seconds; a turn

_Result = TypeVar("_Result")


class Turns:
    """The thread. One event loop uses it."""

    def __init__(self) -> None:
        self._worker = ThreadPoolExecutor(
            max_workers=1, thread_name_prefix="constraints", initializer=step_back
        )

    async def run(self, job: Generator[None, None, _Result], timeout_s: float) -> _Result:
        """The job's result. Raises what the job raises, or TimeoutError after ``timeout_s``.

        A cancelled caller stops the job after its slice.
        """
        loop = asyncio.get_running_loop()
        give_up = time.monotonic() + timeout_s
        while True:
            # Turns of one thread: first come, first served makes the jobs in flight alternate.
            done = await loop.run_in_executor(self._worker, run_slice, job, _SLICE)
            if done is not None:
                return done[0]
            if time.monotonic() > give_up:
                job.close()
                raise TimeoutError(f"took more than {timeout_s:g} s")

    def close(self) -> None:
        """Stops the thread after its slice."""
        self._worker.shutdown(wait=False, cancel_futures=True)


def run_slice(job: Generator[None, None, _Result], seconds: float) -> tuple[_Result] | None:
    """Steps until the job is done (its result) or out of time (None)."""
    end = time.perf_counter() + seconds
    while True:
        try:
            next(job)
        except StopIteration as done:
            result: _Result = done.value
            return (result,)
        if time.perf_counter() >= end:
            return None


def step_back() -> None:
    """Lower the priority of this thread: the engine's cores are not for this.

    On Linux the nice value belongs to a thread; elsewhere this does nothing.
    """
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 15)
