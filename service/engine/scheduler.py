"""Who runs, and what each step computes.

``waiting`` is a queue by arrival, where a step of priority is worth ``PRIORITY_SECONDS``: all that
wait grow old at the same pace, so their order is fixed when they come, and nobody is passed by for
ever. ``running`` has a row of the cache each, in the order in which they got it. A step
computes at most ``step_tokens`` positions: first the rows that decode (one token, or a forced
run), then chunks of prompts with what is left, so a long prompt delays nobody by more than one
step. Blocks are taken as a row grows; when none is free the youngest row is preempted: it gives
its blocks up, waits at the head of the queue and later computes its tokens again. The oldest row
is never preempted, so everyone finishes.

Further outputs of a request are held until its prompt is computed; then each gets a row that
shares what the first one's holds (``fork``), or waits for one like anybody else.

In reproducible mode rows reserve all they may need when admitted and are never preempted, and
chunks end at fixed places: what is computed together then depends on the row alone (decision 14).
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from service.engine.kv_cache import KVCache, blocks_for
from service.engine.sequence import Sequence, State

PRIORITY_SECONDS = 10.0


class Planned(NamedTuple):
    """A row of the next step: the next ``num_tokens`` pending tokens of ``sequence``."""

    sequence: Sequence
    num_tokens: int


class Scheduler:
    """Owns the two queues and hands out rows and blocks of ``kv``."""

    def __init__(self, kv: KVCache, *, step_tokens: int, reproducible: bool = False) -> None:
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.held: list[Sequence] = []
        self.num_preemptions = 0
        self._kv = kv
        self._step_tokens = step_tokens
        self._reproducible = reproducible

    def add(self, sequence: Sequence) -> None:
        """Behind those that came before it, priorities considered, or that have run already."""
        place = len(self.waiting)
        while place and _goes_before(sequence, self.waiting[place - 1]):
            place -= 1
        self.waiting.insert(place, sequence)

    def hold(self, sequence: Sequence) -> None:
        """For ``fork``; meanwhile nobody waits for it."""
        self.held.append(sequence)

    def let_go(self, sequences: list[Sequence]) -> None:
        """Held ones wait like anybody else, before those who came later."""
        for sequence in sequences:
            self.held.remove(sequence)
        self.waiting.extendleft(reversed(sequences))

    def fork(self, sequences: list[Sequence], of: Sequence) -> list[Sequence]:
        """Lets held ones run on from where ``of`` is, those that have room; the others wait."""
        forked, left = [], list(sequences)
        while left and self._kv.num_free_rows:
            row = self._kv.fork(of.kv_row, of.num_computed)
            if row is None:
                break
            if not self._kv.grow(row, max(self._initial_tokens(left[0]), of.num_computed)):
                self._kv.close_row(row)
                break
            sequence = left.pop(0)
            sequence.kv_row, sequence.num_computed = row, of.num_computed
            sequence.move(State.RUNNING)
            forked.append(sequence)
        for sequence in forked:
            self.held.remove(sequence)
        place = self.running.index(of) + 1
        self.running[place:place] = forked
        self.let_go(left)
        return forked

    def admit(self) -> list[Sequence]:
        """Moves those that fit from waiting to running, in order of arrival."""
        admitted = []
        while self.waiting and self._kv.num_free_rows and self._fits(self.waiting[0]):
            sequence = self.waiting.popleft()
            sequence.kv_row = self._kv.open_row()
            # Scores need the logits of their places, so these are computed.
            known = next(iter(sequence.unscored), len(sequence.token_ids))
            sequence.num_computed = self._kv.reuse(sequence.kv_row, sequence.token_ids[:known])
            if sequence.admitted is None:
                sequence.num_cached = sequence.num_computed
            granted = self._kv.grow(sequence.kv_row, self._initial_tokens(sequence))
            assert granted, "free blocks were counted"
            sequence.move(State.RUNNING)
            self.running.append(sequence)
            admitted.append(sequence)
        return admitted

    def plan(self) -> list[Planned]:
        """The rows of the next step, each with room in the cache. Empty when nobody runs."""
        planned: dict[Sequence, int] = {}
        left = self._step_tokens
        for sequence in sorted(self.running, key=lambda s: s.is_prefilling):  # stable
            if sequence.state is not State.RUNNING:  # preempted for one before it
                continue
            num_tokens = self._share(sequence, left)
            if num_tokens and self._make_room(sequence, num_tokens, planned):
                planned[sequence] = num_tokens
                left -= num_tokens
        return [Planned(sequence, num_tokens) for sequence, num_tokens in planned.items()]

    def remove(self, sequence: Sequence) -> None:
        """Takes a finished sequence out; its row and blocks are free at once."""
        if sequence.state is State.RUNNING:
            self.running.remove(sequence)
            self._release_row(sequence)
        elif sequence in self.held:
            self.held.remove(sequence)
        else:
            self.waiting.remove(sequence)
        sequence.move(State.FINISHED)

    def _initial_tokens(self, sequence: Sequence) -> int:
        if self._reproducible:
            return sequence.num_prompt + sequence.max_output
        return len(sequence.token_ids)

    def _fits(self, sequence: Sequence) -> bool:
        # A spare block for each running row: to admit one and preempt it at once is wasted work.
        spare = 0 if self._reproducible else len(self.running)
        return blocks_for(self._initial_tokens(sequence)) + spare <= self._kv.num_free_blocks

    def _share(self, sequence: Sequence, left: int) -> int:
        if self._reproducible:
            to_boundary = self._step_tokens - sequence.num_computed % self._step_tokens
            return min(sequence.num_pending, to_boundary) if left > 0 else 0
        return min(sequence.num_pending, max(left, 0))

    def _make_room(
        self, sequence: Sequence, num_tokens: int, planned: dict[Sequence, int]
    ) -> bool:
        """Preempts the youngest until ``sequence`` can grow; False if it was the youngest."""
        while not self._kv.grow(sequence.kv_row, sequence.num_computed + num_tokens):
            youngest = self.running[-1]
            planned.pop(youngest, None)
            self._preempt(youngest)
            if youngest is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence) -> None:
        assert len(self.running) > 1, "one row alone always fits: see the refusal at admission"
        self.running.remove(sequence)
        self._release_row(sequence)
        sequence.num_computed = 0
        sequence.move(State.WAITING)
        self.waiting.appendleft(sequence)
        self.num_preemptions += 1

    def _release_row(self, sequence: Sequence) -> None:
        self._kv.close_row(sequence.kv_row)
        sequence.kv_row = -1


def _goes_before(newcomer: Sequence, other: Sequence) -> bool:
    if other.admitted is not None:  # preempted: what it has computed is lost while it waits
        return False
    return _virtual_arrival(newcomer) < _virtual_arrival(other)


def _virtual_arrival(sequence: Sequence) -> float:
    """Seconds: when it would have come to stand where it does without a priority."""
    return sequence.arrived - PRIORITY_SECONDS * sequence.request.priority
