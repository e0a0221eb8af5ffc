"""A peer's process, and our end of the pipe to it."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.extraction import Run, Task
from benchmarks.generators.protocol import Setup


class PeerProcess:
    """``transformers.generate`` with the logits processor of ``library``, started fresh."""

    def __init__(self, library: str, setup: Setup, dtypes: Sequence[str]) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        # As our engine process has it: threads that wait spin briefly. It helps the peer, on a
        # machine where something else runs as well.
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")
        self._process = spawn.Process(
            target=_serve, args=(theirs, library, setup, dtypes), daemon=True
        )
        self._process.start()
        theirs.close()

    def warm_up(self, tasks: Sequence[Task], schema: dict[str, Any], concurrency: int) -> str:
        return str(self._ask("warm_up", tasks, schema, concurrency))

    def run(self, tasks: Sequence[Task], schema: dict[str, Any], concurrency: int) -> Run:
        answered = self._ask("run", tasks, schema, concurrency)
        assert isinstance(answered, Run)
        return answered

    def close(self) -> None:
        self._pipe.close()
        self._process.join(60)
        self._process.kill()

    def _ask(self, *call: object) -> object:
        self._pipe.send(call)
        try:
            return self._pipe.recv()
        except EOFError:
            raise RuntimeError("the peer's process ended; its error stands above") from None


def _serve(pipe: Connection, library: str, setup: Setup, dtypes: Sequence[str]) -> None:
    from benchmarks.generators.static_batch import StaticBatch

    peer = StaticBatch(library, setup, dtypes)
    while True:
        try:
            method, *arguments = pipe.recv()
        except EOFError:
            return
        pipe.send(getattr(peer, method)(*arguments))
