"""Runs one engine over cases in a process of its own, and judges and times each schema.

The child sends a result a case; when one takes longer than the limit, the parent ends the child,
notes a timeout and goes on with a new child.
"""

from __future__ import annotations

import array
import gc
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter_ns

from benchmarks.engines import protocol
from benchmarks.maskbench import Case, Instance

# Before anything is timed, the engine sees a schema with each kind of value.
WARM_UP = Case(
    "warm-up",
    "",
    {
        "type": "object",
        "properties": {
            "text": {"type": "string", "maxLength": 9},
            "number": {"type": "number", "minimum": 0},
            "list": {"type": "array", "items": {"enum": ["a", 1, None, True]}, "maxItems": 5},
            "code": {"type": "string", "pattern": "^[a-z]+$"},
        },
        "required": ["text"],
    },
    (Instance(True, {"text": "é", "number": 1.5, "list": ["a", 1, None, True], "code": "x"}),),
)


@dataclass(slots=True)
class Result:
    """What became of one schema. Times in nanoseconds."""

    refused: str = ""  # why the engine did not serve it
    keyword: str = ""  # ... and the heading that this reason is counted under
    first_mask_ns: int = 0  # compiling and the first mask
    token_ns: array.array[int] = field(default_factory=lambda: array.array("q"))
    wrong: list[str] = field(default_factory=list)  # instances judged wrongly, in words
    valid_rejected: int = 0
    invalid_accepted: int = 0

    @property
    def passing(self) -> bool:
        return not (self.refused or self.wrong)


def run(
    name: str, model: Path, order: protocol.Order, cases: Sequence[Case], limit_s: float
) -> list[Result]:
    """One result for each case; no case takes longer than ``limit_s``."""
    results: list[Result] = []
    while len(results) < len(cases):
        child = _Child(name, model, order, cases[len(results) :])
        try:
            results.extend(child.results(limit_s))
        finally:
            child.end()
    return results


@contextmanager
def _one_thread() -> Iterator[None]:
    """Processes started meanwhile have one thread; this one's own environment is put back.

    Numba reads it again whenever it compiles, and refuses a number that has changed.
    """
    names = ("OMP_NUM_THREADS", "RAYON_NUM_THREADS", "NUMBA_NUM_THREADS")
    before = {name: os.environ.pop(name, None) for name in names}
    os.environ |= dict.fromkeys(names, "1")
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class _Child:
    """A process that works through cases."""

    def __init__(
        self, name: str, model: Path, order: protocol.Order, cases: Sequence[Case]
    ) -> None:
        spawn = multiprocessing.get_context("spawn")  # nothing inherited: as cold as a new program
        self._count = len(cases)
        self._pipe, theirs = spawn.Pipe(duplex=False)
        self._process = spawn.Process(
            target=_work, args=(theirs, name, model, order, cases), daemon=True
        )
        with _one_thread():
            self._process.start()
        theirs.close()

    def results(self, limit_s: float) -> Iterator[Result]:
        """As they come; the last one is a timeout or a crash if the child did not end well."""
        if not self._receive():  # ready: loading and warming up have no limit
            raise RuntimeError("the engine could not be loaded")
        for _ in range(self._count):
            if not self._pipe.poll(limit_s):
                yield Result(refused=f"over {limit_s:g} s", keyword="timeout")
                return
            result = self._receive()
            yield result or Result(refused="the process ended", keyword="crash")
            if result is None:
                return

    def _receive(self) -> Result | None:
        try:
            received = self._pipe.recv()
        except EOFError:
            return None
        assert isinstance(received, Result)
        return received

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _work(
    pipe: Connection, name: str, model: Path, order: protocol.Order, cases: Sequence[Case]
) -> None:
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    engine = protocol.load(name, model, order)
    pipe.send(judge(engine, tokenizer, WARM_UP))
    # What the imports left is not garbage, and looking through it again costs 0.1 s a time.
    gc.collect()
    gc.freeze()
    for case in cases:
        pipe.send(judge(engine, tokenizer, case))


def judge(engine: protocol.Engine, tokenizer: object, case: Case) -> Result:
    """Compiles the case's schema and takes every instance through it, token by token."""
    schema_text = case.schema_text
    result = Result()
    begin = perf_counter_ns()
    try:
        matcher = engine.compile(schema_text)
        matcher.fill_mask()
        result.first_mask_ns = perf_counter_ns() - begin
        for number, instance in enumerate(case.instances):
            ids = tokenizer.encode(instance.text, add_special_tokens=False).ids  # type: ignore[attr-defined]
            matcher.reset()
            taken = walk(matcher, ids, result.token_ns)
            accepted = taken == len(ids) and matcher.is_complete()
            if accepted != instance.valid:
                result.valid_rejected += instance.valid
                result.invalid_accepted += not instance.valid
                seen = tokenizer.decode(ids[max(0, taken - 12) : taken])  # type: ignore[attr-defined]
                verdict = "accepted" if accepted else f"rejected after {taken} tokens …{seen!r}"
                result.wrong.append(
                    f"{'valid' if instance.valid else 'invalid'} instance {number} {verdict}"
                )
    except protocol.Refused as refused:
        return Result(refused=str(refused), keyword=refused.keyword)
    return result


def walk(matcher: protocol.Matcher, ids: Sequence[int], times: array.array[int]) -> int:
    """Takes tokens until one is not in the mask, and returns how many were taken.

    Appends the time of each mask and of taking the token, in nanoseconds.
    """
    for position, token in enumerate(ids):
        begin = perf_counter_ns()
        matcher.fill_mask()
        filled = perf_counter_ns()
        if not matcher.allows(token):
            times.append(filled - begin)
            return position
        allowed = perf_counter_ns()
        taken = matcher.advance(token)
        times.append(filled - begin + perf_counter_ns() - allowed)
        assert taken, "a token of the mask was not taken"
    return len(ids)
