"""Compiled constraints: a cache bounded by memory, and two ways to fill it.

The front compiles in one worker thread, a slice of each compile in flight in turn, and stops what
takes too long. The engine compiles again what the front has shown to compile, in slices of about
a millisecond between the decoder's steps, with the automata that the front built (decision 2).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor

import grammar
from service.engine.types import Constraint

# A compiled constraint is mostly lazily grown tables, so these bound what is kept, not what runs.
DEFAULT_CACHE_BYTES = 256 << 20
_FRONT_SLICE = 0.005  # seconds; a turn of the worker thread
_ENGINE_SLICE = 0.001  # seconds between two steps: decision 2

Steps = Generator[None, None, grammar.Grammar]


def compile_steps(
    constraint: Constraint,
    vocabulary: grammar.Vocabulary,
    limits: grammar.Limits,
    lexemes: Mapping[str, grammar.Dfa] | None = None,
) -> Steps:
    """A compile that yields about every millisecond. Raises grammar.GrammarError on the way.

    Without ``lexemes`` (in the front) every automaton is built, so that the engine gets them.
    """
    form = constraint.json_format
    options = grammar.JsonOptions(
        whitespace=form.whitespace,
        max_whitespace_run=form.max_whitespace_run,
        property_order=form.property_order,
        additional_properties_default=form.additional_properties_default,
        ascii_only=form.ascii_only,
        formats=form.formats,
    )
    return grammar.compile_steps(
        constraint.kind,
        constraint.text,
        list(constraint.choices),
        vocabulary,
        options,
        limits,
        dict(lexemes) if lexemes else None,
        eager=lexemes is None,
    )


class GrammarCache:
    """Least recently used out first, when over ``max_bytes`` in all."""

    def __init__(self, max_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._grammars: OrderedDict[Constraint, grammar.Grammar] = OrderedDict()

    def get(self, constraint: Constraint) -> grammar.Grammar | None:
        """The compiled constraint, if it is kept."""
        found = self._grammars.get(constraint)
        if found is not None:
            self._grammars.move_to_end(constraint)
        return found

    def put(self, constraint: Constraint, compiled: grammar.Grammar) -> None:
        """Keeps it, and lets go of others. One that alone is over the bound is still kept."""
        self._grammars[constraint] = compiled
        self._grammars.move_to_end(constraint)
        # Tables grow while they are used: sizes are asked for now, not remembered.
        while len(self._grammars) > 1 and self._total_bytes() > self._max_bytes:
            self._grammars.popitem(last=False)

    def _total_bytes(self) -> int:
        return sum(each.nbytes for each in self._grammars.values())


class Grammars:
    """The front's compiler. One event loop uses it."""

    def __init__(
        self,
        vocabulary: grammar.Vocabulary,
        *,
        timeout_s: float = 10.0,
        limits: grammar.Limits | None = None,
        max_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        self._vocabulary = vocabulary
        self._timeout_s = timeout_s
        self._limits = limits or grammar.Limits()
        self._cache = GrammarCache(max_bytes)
        self._in_flight: dict[Constraint, asyncio.Task[grammar.Grammar]] = {}
        self._worker = ThreadPoolExecutor(
            max_workers=1, thread_name_prefix="compile", initializer=_step_back
        )

    async def compile(self, constraint: Constraint) -> grammar.Grammar:
        """The compiled constraint; equal constraints in flight are compiled once.

        Raises grammar.GrammarError, or TimeoutError (which says nothing about the constraint and
        is not remembered).
        """
        found = self._cache.get(constraint)
        if found is not None:
            return found
        task = self._in_flight.get(constraint)
        if task is None:
            task = asyncio.ensure_future(self._build(constraint))
            self._in_flight[constraint] = task
            task.add_done_callback(lambda done: self._built(constraint, done))
        # Shielded: a caller that goes away takes nothing from the others who wait.
        return await asyncio.shield(task)

    def close(self) -> None:
        """Stops the worker after its slice."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def _build(self, constraint: Constraint) -> grammar.Grammar:
        loop = asyncio.get_running_loop()
        steps = compile_steps(constraint, self._vocabulary, self._limits)
        give_up = time.monotonic() + self._timeout_s
        while True:
            # Turns of one thread: first come, first served makes compiles in flight alternate.
            done = await loop.run_in_executor(self._worker, _run_slice, steps, _FRONT_SLICE)
            if done is not None:
                return done
            if time.monotonic() > give_up:
                steps.close()
                raise TimeoutError(f"compiling took more than {self._timeout_s:g} s")

    def _built(self, constraint: Constraint, task: asyncio.Task[grammar.Grammar]) -> None:
        del self._in_flight[constraint]
        if not task.cancelled() and task.exception() is None:
            self._cache.put(constraint, task.result())


class SlicedCompiler:
    """The engine's compiler: jobs in a queue, worked on a slice at a time. No threads."""

    def __init__(
        self,
        vocabulary: grammar.Vocabulary,
        *,
        limits: grammar.Limits | None = None,
        max_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        self._vocabulary = vocabulary
        self._limits = limits or grammar.Limits()
        self._cache = GrammarCache(max_bytes)
        self._jobs: OrderedDict[Constraint, Steps] = OrderedDict()
        self._done: deque[tuple[Constraint, grammar.Grammar | grammar.GrammarError]] = deque()

    @property
    def is_busy(self) -> bool:
        """Whether there is work for ``work``."""
        return bool(self._jobs)

    def get(self, constraint: Constraint) -> grammar.Grammar | None:
        """The compiled constraint, if it is there."""
        return self._cache.get(constraint)

    def start(self, constraint: Constraint, lexemes: Mapping[str, grammar.Dfa]) -> None:
        """Queues a compile, unless one of the same constraint is queued."""
        if constraint not in self._jobs:
            self._jobs[constraint] = compile_steps(
                constraint, self._vocabulary, self._limits, lexemes
            )

    def work(
        self, seconds: float = _ENGINE_SLICE
    ) -> tuple[Constraint, grammar.Grammar | grammar.GrammarError] | None:
        """One slice of the oldest job; the constraint and its outcome when that ends it."""
        constraint, steps = next(iter(self._jobs.items()))
        try:
            compiled = _run_slice(steps, seconds)
        except grammar.GrammarError as error:
            del self._jobs[constraint]
            return constraint, error
        if compiled is None:
            return None
        del self._jobs[constraint]
        self._cache.put(constraint, compiled)
        return constraint, compiled


def _step_back() -> None:
    """Lower the priority of this thread: the engine's cores are not for compiling.

    On Linux the nice value belongs to a thread; elsewhere this does nothing.
    """
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 15)


def _run_slice(steps: Steps, seconds: float) -> grammar.Grammar | None:
    """Steps until done (the grammar) or out of time (None)."""
    end = time.perf_counter() + seconds
    while True:
        try:
            next(steps)
        except StopIteration as done:
            compiled: grammar.Grammar = done.value
            return compiled
        if time.perf_counter() >= end:
            return None
