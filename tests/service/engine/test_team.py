"""Threads that share the items of phases."""

from __future__ import annotations

import itertools
import time

import numba
import numpy as np
import pytest

from service.engine.team import Team, finish, take, wait


@numba.njit(nogil=True)
def chain(board, items, numbers, done):
    """Each phase adds its neighbour's number of the phase before: wrong if phases overlap."""
    for phase in range(len(numbers) - 1):
        while True:
            item = take(board, phase, items)
            if item < 0:
                break
            numbers[phase + 1, item] = numbers[phase, item] + numbers[phase, (item + 1) % items]
            done[phase, item] += 1
            finish(board, phase)
        wait(board, phase, items)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("items", [1, 2, 7])
def test_every_item_is_done_once_and_phases_do_not_overlap(size, items):
    phases = 300
    numbers = np.zeros((phases + 1, items), dtype=np.uint64)
    numbers[0] = np.arange(items)
    done = np.zeros((phases, items), dtype=np.int64)
    team = Team(size)
    for _ in range(5):
        done[:] = 0
        with np.errstate(over="ignore"):  # interpreted it is said that sums wrap
            team.run(chain, phases, items, numbers, done)
        assert (done == 1).all()
        for before, after in itertools.pairwise(numbers):
            with np.errstate(over="ignore"):
                assert (after == before + np.roll(before, -1)).all()


def test_a_thread_that_comes_late_holds_nobody_up():
    """The others do all the items; it finds every phase done and returns."""
    numbers = np.ones((50, 4), dtype=np.uint64)
    done = np.zeros((49, 4), dtype=np.int64)
    finished = []

    def late(board, *arguments):
        if finished:
            time.sleep(0.2)
        finished.append(False)
        chain(board, *arguments)
        finished.append(True)

    Team(2).run(late, 49, 4, numbers, done)
    assert (done == 1).all()
    assert finished[-1]


def test_what_a_thread_raises_reaches_the_caller():
    def fail(board):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        Team(2).run(fail, 1)
