"""A few threads that go through one step together, without a lock between them.

A step is a list of phases; each phase is a number of items that may be done in any order, and
begins when the one before is done. The threads run the same compiled function (it holds no
interpreter lock). In each phase a thread takes items until none is left and then waits until all
are done: what counts is the work, not who did it, so a thread that the system woke late holds
nobody up and finds its way to where the others are.

    while (item := take(board, phase, items)) >= 0:
        ...
        finish(board, phase)
    wait(board, phase, items)
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import intrinsic
from numba.np import arrayobj

Board = npt.NDArray[np.int64]

# A cache line for each counter: threads that write neighbours would slow each other down.
_STRIDE = 8
_SPINS = 2_000  # looks at a counter before the processor is offered to others: some microseconds


class Team:
    """``size`` threads: the caller's, and others that sleep between steps."""

    def __init__(self, size: int) -> None:
        self.size = 1 if numba.config.DISABLE_JIT else size
        self._others = ThreadPoolExecutor(max(1, self.size - 1), thread_name_prefix="model")

    def run(self, work: Callable[..., None], phases: int, *arguments: Any) -> None:
        """``work(board, *arguments)`` on every thread; returns when all have returned."""
        board = np.zeros((phases, 2, _STRIDE), dtype=np.int64)
        waiting = [self._others.submit(work, board, *arguments) for _ in range(self.size - 1)]
        work(board, *arguments)
        for each in waiting:
            each.result()


def _atomic(operation: str) -> Any:
    """An intrinsic ``(array, index, value) -> int64``: fetch-and-add, or a load that acquires."""

    @intrinsic
    def of(_typing: Any, array: Any, _index: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            made = arrayobj.make_array(signature.args[0])(context, builder, arguments[0])
            place = builder.gep(made.data, [arguments[1]])
            if operation == "add":
                return builder.atomic_rmw("add", place, arguments[2], "seq_cst")
            return builder.load_atomic(place, "acquire", 8)

        return types.int64(array, types.int64, types.int64), generate

    return of


def _interpreted_add(array: Board, index: int, value: int) -> int:
    before = int(array[index])
    array[index] += value
    return before


_fetch_add: Any = _atomic("add")
_load: Any = _atomic("load")
_yield: Any = types.ExternalFunction("sched_yield", types.intc())
if numba.config.DISABLE_JIT:  # for coverage; a team then has one thread, which never waits
    _fetch_add = _load = _interpreted_add


@numba.njit(nogil=True, cache=True)
def take(board: Board, phase: int, items: int) -> int:
    """An item of the phase that nobody has taken, or -1."""
    counter = board[phase, 0]
    if _load(counter, 0, 0) >= items:
        return -1
    item = _fetch_add(counter, 0, 1)
    return item if item < items else -1


@numba.njit(nogil=True, cache=True)
def finish(board: Board, phase: int) -> None:
    """Says that a taken item is done."""
    _fetch_add(board[phase, 1], 0, 1)


@numba.njit(nogil=True, cache=True)
def wait(board: Board, phase: int, items: int) -> None:
    """Until every item of the phase is done."""
    counter = board[phase, 1]
    spins = 0
    while _load(counter, 0, 0) < items:
        spins += 1
        if spins > _SPINS:
            _yield()
