"""Compiled constraints: a cache bounded by memory, and two ways to fill it.

The front compiles in one worker thread, where compiles in flight take turns, and stops what takes
too long; there it also judges texts. The engine compiles again what the front has shown to
compile, in slices of about a millisecond between the decoder's steps, with the automata that the
front built (decision 2).
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import OrderedDict, deque
from collections.abc import Generator, Mapping

import grammar
from service.engine.known import (
    DEFAULT_CACHE_BYTES,
    MAX_KEPT,
    Excerpt,
    Known,
    KnownConstraints,
    Summary,
    id_of,
    parsed_bytes,
)
from service.engine.turns import Turns, run_slice
from service.engine.types import Constraint, JsonFormat

RECOGNISER_BYTES = 64 << 20  # the tables of one grammar that judges texts; all keep four times
SHORT = 16 << 10  # characters of a constraint that the event loop may look through: a ms
ANY_WHITESPACE = 1 << 20  # characters in one gap: those who write texts for us have no cap
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
    compiled = yield from grammar.compile_steps(
        constraint.kind,
        constraint.text,
        list(constraint.choices),
        vocabulary,
        _generating(constraint.json_format),
        limits,
        dict(lexemes) if lexemes else None,
        eager=lexemes is None,
    )
    yield from compiled.prepare()  # else the first request would wait for it in one piece
    return compiled


def _generating(form: JsonFormat) -> grammar.JsonOptions:
    return grammar.JsonOptions(
        whitespace=form.whitespace,
        max_whitespace_run=form.max_whitespace_run,
        property_order=form.property_order,
        additional_properties_default=form.additional_properties_default,
        ascii_only=form.ascii_only,
        formats=form.formats,
    )


def _recognising(form: JsonFormat) -> grammar.JsonOptions:
    """Options for judging somebody else's text (decision 16): spelling is free."""
    closed = form.additional_properties_default == "forbid"
    return grammar.JsonOptions.recognise(
        max_whitespace_run=ANY_WHITESPACE,
        additional_properties_default="forbid" if closed else "allow",
        formats=form.formats,
    )


def byte_vocabulary() -> grammar.Vocabulary:
    """Every byte a token: whether a text matches does not depend on a model."""
    return grammar.Vocabulary([bytes([b]) for b in range(256)] + [None], eos_ids=(256,))


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
        while len(self._grammars) > MAX_KEPT or (
            len(self._grammars) > 1 and self._total_bytes() > self._max_bytes
        ):
            self._grammars.popitem(last=False)

    def _total_bytes(self) -> int:
        return sum(
            compiled.nbytes + parsed_bytes(constraint)
            for constraint, compiled in self._grammars.items()
        )


@dataclasses.dataclass(eq=False, slots=True)
class _Flight:
    """A compile that is under way, and how many wait for it."""

    task: asyncio.Task[Known]
    waiting: int = 0


class Grammars:
    """The front's compiler and judge. One event loop uses it.

    Every grammar here belongs to the worker thread: it alone computes with them.
    """

    def __init__(
        self,
        vocabulary: grammar.Vocabulary,
        *,
        timeout_s: float = 10.0,
        limits: grammar.Limits | None = None,
        known: KnownConstraints | None = None,
    ) -> None:
        """``timeout_s`` bounds one compile and the judging of one text."""
        self._vocabulary = vocabulary
        self._timeout_s = timeout_s
        self._limits = limits or grammar.Limits()
        self.known = known or KnownConstraints()
        self._bytes = byte_vocabulary()
        self._recognisers = GrammarCache(4 * RECOGNISER_BYTES)
        self._in_flight: dict[str, _Flight] = {}
        self._turns = Turns()

    async def compile(self, constraint: Constraint) -> tuple[Known, bool]:
        """The compiled constraint, and whether it was known; equal ones are compiled once.

        Raises grammar.GrammarError, or TimeoutError (which says nothing about the constraint and
        is not remembered).
        """
        constraint_id = await self._id_of(constraint)
        found = self.known.get(constraint_id)
        if found is not None:
            return found, True
        flight = self._in_flight.get(constraint_id)
        if flight is None:
            flight = _Flight(asyncio.ensure_future(self._build(constraint_id, constraint)))
            self._in_flight[constraint_id] = flight
        flight.waiting += 1
        try:
            # Shielded: a caller that goes away takes nothing from the others who wait.
            return await asyncio.shield(flight.task), False
        finally:
            flight.waiting -= 1
            if not flight.waiting:  # it is done, or nobody wants it any more
                flight.task.cancel()
                if self._in_flight.get(constraint_id) is flight:
                    del self._in_flight[constraint_id]

    @property
    def num_compiling(self) -> int:
        """Compiles in flight."""
        return len(self._in_flight)

    async def summary(self, known: Known) -> Summary:
        """What there is to say of it. Raises TimeoutError."""
        if known.summary is None:
            known.summary = await self._turns.run(_summary_steps(known), self._timeout_s)
        return known.summary

    async def refused(self, constraint: Constraint) -> Excerpt:
        """The keywords of a JSON Schema that are refused. Raises GrammarError, TimeoutError."""
        steps = _refused_steps(constraint, self._limits)
        return await self._turns.run(steps, self._timeout_s)

    async def recogniser(self, constraint: Constraint) -> grammar.Grammar:
        """The constraint compiled for ``check``. Raises GrammarError, TimeoutError."""
        found = self._recognisers.get(constraint)
        if found is None:
            steps = self._recogniser_steps(constraint)
            found = await self._turns.run(steps, self._timeout_s)
            self._recognisers.put(constraint, found)
        return found

    async def check(self, recogniser: grammar.Grammar, text: bytes) -> grammar.Check:
        """Judges a text. Raises TooComplex when it needs too large tables, and TimeoutError."""
        return await self._turns.run(grammar.check_steps(recogniser, text), self._timeout_s)

    def close(self) -> None:
        """Stops the worker after its slice."""
        self._turns.close()

    async def _id_of(self, constraint: Constraint) -> str:
        if len(constraint.text) <= SHORT:
            return id_of(constraint, self._vocabulary.digest)
        return await self._turns.run(self._id_steps(constraint), self._timeout_s)

    def _id_steps(self, constraint: Constraint) -> Generator[None, None, str]:
        yield
        return id_of(constraint, self._vocabulary.digest)

    async def _build(self, constraint_id: str, constraint: Constraint) -> Known:
        began = time.monotonic()
        steps = self._build_steps(constraint)
        compiled, min_tokens = await self._turns.run(steps, self._timeout_s)
        known = Known(
            constraint_id=constraint_id,
            constraint=constraint,
            compiled=compiled,
            min_tokens=min_tokens,
            compile_us=round((time.monotonic() - began) * 1e6),
        )
        self.known.put(known)
        return known

    def _build_steps(
        self, constraint: Constraint
    ) -> Generator[None, None, tuple[grammar.Grammar, int]]:
        compiled = yield from compile_steps(constraint, self._vocabulary, self._limits)
        yield
        return compiled, compiled.min_tokens  # here, where it may take its time

    def _recogniser_steps(self, constraint: Constraint) -> Steps:
        return grammar.compile_steps(
            constraint.kind,
            constraint.text,
            list(constraint.choices),
            self._bytes,
            _recognising(constraint.json_format),
            dataclasses.replace(self._limits, max_arena_bytes=RECOGNISER_BYTES),
        )


def _summary_steps(known: Known) -> Generator[None, None, Summary]:
    example = known.compiled.shortest.text
    yield
    longest = known.compiled.max_tokens
    yield
    reports = yield from _explain_steps(known.constraint, known.compiled.limits)
    return Summary(example, longest, Excerpt.of(reports) if reports else Excerpt())


def _refused_steps(
    constraint: Constraint, limits: grammar.Limits
) -> Generator[None, None, Excerpt]:
    reports = yield from _explain_steps(constraint, limits)
    return Excerpt.of(reports.refused()) if reports else Excerpt()


def _explain_steps(
    constraint: Constraint, limits: grammar.Limits
) -> Generator[None, None, grammar.Reports | None]:
    if constraint.kind != "json_schema":
        return None
    options = _generating(constraint.json_format)
    return (yield from grammar.explain_steps(constraint.text, options, limits))


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
            done = run_slice(steps, seconds)
        except grammar.GrammarError as error:
            del self._jobs[constraint]
            return constraint, error
        if done is None:
            return None
        del self._jobs[constraint]
        self._cache.put(constraint, done[0])
        return constraint, done[0]
