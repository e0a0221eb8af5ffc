"""The decode loop's body: ``step()`` admits, plans, runs the model, chooses, advances, emits.

Synchronous, performs no I/O, and owns everything that changes. Each accepted request ends in
exactly one Finish; ``advancing`` has the table of ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Any

import msgspec
import torch

from service.engine.admission import max_output, refusal
from service.engine.advancing import Advancer
from service.engine.choosing import Choice, Chooser, FillMasks
from service.engine.drafting import Drafter
from service.engine.endings import Endings
from service.engine.failures import failure, incident, internal
from service.engine.feeding import Fed, feed
from service.engine.kv_cache import KVCache
from service.engine.model import Model
from service.engine.scheduler import Planned, Scheduler
from service.engine.sequence import Grammar, Sequence
from service.engine.step_times import StepTimes
from service.engine.types import (
    Chunk,
    Ending,
    Finish,
    FinishReason,
    GenerationRequest,
    Load,
    ServiceFailure,
    StopDetail,
)


class Decoder:
    """Continuous batching over one model: requests join and leave at any step.

    ``token_bytes(id)`` is the text of a token; ``vocab_size`` tokens mean something, the rest of
    the logits are padding. With a ``drafter`` a step checks guessed tokens too, which changes how
    many steps an answer takes, not the answer. ``clock`` gives seconds; deadlines are on it.
    """

    def __init__(
        self,
        model: Model,
        kv: KVCache,
        *,
        token_bytes: Callable[[int], bytes],
        eos_ids: Seq[int],
        vocab_size: int,
        fill_masks: FillMasks,
        step_tokens: int = 512,
        reproducible: bool = False,
        drafter: Drafter | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.times = StepTimes()  # of the last step
        self._model = model
        self._drafter = drafter
        self._step_tokens = step_tokens
        self._kv = kv
        self._scheduler = Scheduler(kv, step_tokens=step_tokens, reproducible=reproducible)
        endings = Endings(eos_ids, model.logit_size, token_bytes)
        self._chooser = Chooser(
            endings,
            fill_masks,
            max_rows=len(kv.tables),
            vocab_size=vocab_size,
            logit_size=model.logit_size,
            clock=clock,
        )
        self._advancer = Advancer(endings, token_bytes, clock)
        self._clock = clock
        self._live: dict[str, list[Sequence]] = {}  # the outputs of a request, by index
        self._chunks: list[Chunk] = []

    @property
    def is_idle(self) -> bool:
        """Nothing to compute and nothing to emit."""
        return not self._live and not self._chunks

    @property
    def num_live(self) -> int:
        """Accepted requests that have not finished."""
        return len(self._live)

    @property
    def load(self) -> Load:
        """How full it is."""
        return Load(
            running=len(self._scheduler.running),
            waiting=len(self._scheduler.waiting) + len(self._scheduler.held),
            kv_used_blocks=self._kv.num_blocks - self._kv.num_free_blocks,
            kv_blocks=self._kv.num_blocks,
            preemptions=self._scheduler.num_preemptions,
        )

    def submit(
        self,
        request: GenerationRequest,
        grammar: Grammar | None = None,
        *,
        arrived: float | None = None,
        compile_us: int = 0,
    ) -> None:
        """Queues the request, or refuses it: the next ``step`` says so in its Finish."""
        sequences = [
            Sequence(
                with_seed_of(request, index),
                grammar,
                max_output=max_output(request, self._kv),
                arrived=self._clock() if arrived is None else arrived,
                compile_us=compile_us,
                index=index,
            )
            for index in range(request.n)
        ]
        first, *others = sequences
        refused = self._refusal(first)
        if refused:
            self._chunks.append(self._chunk_of_failure(first, refused))
            return
        self._live[request.request_id] = sequences
        self._scheduler.add(first)
        for sequence in others:
            self._scheduler.hold(sequence)

    def cancel(self, request_id: str) -> None:
        """Frees the request's row now; the next ``step`` emits its Finish. Ignores unknown ids."""
        self._end(request_id, Ending(FinishReason.CANCELLED, complete=False))

    def step(self) -> list[Chunk]:
        """One step of everyone who runs. Chunks in order of admission, at most one an output."""
        started = self._clock()
        self._expire(started)
        for sequence in self._scheduler.admit():
            self._begin(sequence)
        planned = self._scheduler.plan()
        self.times = StepTimes(rows=len(planned), plan=self._clock() - started)
        if planned:
            self._advance(planned)
        for sequence in self._scheduler.running:
            chunk = sequence.take_chunk()
            if chunk:
                self._chunks.append(chunk)
        chunks, self._chunks = self._chunks, []
        if not self._live:
            self._kv.check_integrity()
        return chunks

    # --- before the model ---

    def _refusal(self, sequence: Sequence) -> ServiceFailure | None:
        if sequence.request.request_id in self._live:
            return failure("ALREADY_EXISTS", "REQUEST_ID_IN_USE", "the request id is in use")
        return refusal(
            sequence, capacity=self._kv.max_row_tokens, logit_size=self._model.logit_size
        )

    def _begin(self, sequence: Sequence) -> None:
        """At (first) admission: what the constraint forces at once needs no model."""
        if sequence.admitted is not None:
            return
        for each in list(self._live[sequence.request.request_id]):
            each.admitted = self._clock()
            if not each.is_finished:  # by a fault in another one
                self._guarded(each, self._advancer.settle)
        # Forced tokens that wait for scores: each row computes its own logits of them.
        self._scheduler.let_go([s for s in self._scheduler.held if s.unscored])

    def _expire(self, now: float) -> None:
        for first, *_ in list(self._live.values()):
            deadline = first.request.deadline
            if deadline is not None and now >= deadline:
                passed = "the request's deadline passed"
                self._fail(first, failure("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", passed))

    # --- one step ---

    def _advance(self, planned: list[Planned]) -> None:
        """Model, choice, and what follows for each row; again for those whose guess was right."""
        planned.sort(key=lambda p: p.sequence.matcher is None)  # see ``choosing``
        try:
            fed, logits = self._compute(planned)
            rows = [each for f in fed if self._score(f, logits) for each in self._with_others(f)]
            while rows:
                rows = self._choose(rows, logits)
        except Exception:  # noqa: BLE001 - whatever it is, these requests end and the loop goes on
            name = incident("a step failed")
            for p in planned:
                if not p.sequence.is_finished:
                    self._fail(p.sequence, internal(name))

    def _compute(self, planned: list[Planned]) -> tuple[list[Fed], torch.Tensor]:
        """Runs the model over the planned tokens, and over drafts where they are worth it."""
        at = self._clock()
        positions = min(self._model.draft_positions, self._step_tokens)
        fed = feed(planned, self._kv, self._drafter, positions)
        rows = [f.row for f in fed]
        self.times.positions = sum(len(row.token_ids) for row in rows)
        began = self._clock()
        self.times.plan += began - at
        logits = self._model.forward(rows, self._kv)
        self.times.model = self._clock() - began
        if self._drafter is not None and not any(row.is_prompt for row in rows):
            self._drafter.cost.add(self.times.positions, self.times.model)
        for p in planned:
            p.sequence.num_computed += p.num_tokens
            self._remember(p.sequence)
        return fed, logits

    def _score(self, fed: Fed, logits: torch.Tensor) -> bool:
        """Scores forced tokens, where that was asked for; whether the row chooses a token now."""
        fed.give_scores(logits)
        sequence = fed.sequence
        if sequence.ending and not sequence.unscored:
            self._finish(sequence, sequence.ending)
        return fed.logits is not None

    def _with_others(self, fed: Fed) -> list[Fed]:
        """The row, and if it was held back for it, the request's other outputs that have room."""
        first = fed.sequence
        others = [s for s in self._live[first.request.request_id] if s in self._scheduler.held]
        if not others:
            return [fed]
        return [fed, *(fed.alike(s) for s in self._scheduler.fork(others, first))]

    def _choose(self, rows: list[Fed], logits: torch.Tensor) -> list[Fed]:
        """The next token of each row; the rows whose token after that can be chosen too."""
        sequences = [f.sequence for f in rows]
        indices = [f.logits for f in rows]
        own = logits if indices == list(range(len(logits))) else logits[indices]
        choices = self._chooser.choose(sequences, own, self.times)
        at = self._clock()
        further = []
        for f, choice in zip(rows, choices, strict=True):
            # Finished already: by a fault in another output of its request.
            if not f.sequence.is_finished and self._take(f, choice):
                further.append(f)
        self.times.advance += self._clock() - at
        return further

    def _take(self, fed: Fed, choice: Choice) -> bool:
        """One row's chosen token; whether it can choose another one in this step."""
        sequence = fed.sequence
        if not choice.ok:
            self._fail(sequence, internal(incident("the model's logits are not numbers")))
            return False
        self._guarded(sequence, self._accept, fed, choice)
        if sequence.is_finished:
            return False
        self._remember(sequence)
        return fed.goes_on

    def _accept(self, sequence: Sequence, fed: Fed, choice: Choice) -> Ending | None:
        ending = self._advancer.accept(sequence, choice.token, choice.score)
        fed.compare(self._drafter)  # before the end is told, with its counts
        return ending

    def _remember(self, sequence: Sequence) -> None:
        self._kv.remember(sequence.kv_row, sequence.token_ids, sequence.num_computed)

    def _guarded(
        self, sequence: Sequence, work: Callable[..., Ending | None], *arguments: Any
    ) -> None:
        """Work on one row, and its end if that comes of it. A fault ends that request only."""
        try:
            ending = work(sequence, *arguments)
        except Exception:  # noqa: BLE001 - whatever it is, the others go on
            name = incident(f"request {sequence.request.request_id} failed")
            self._fail(sequence, internal(name))
            return
        if ending and sequence.unscored:
            sequence.ending = ending  # when the next step has the logits
        elif ending:
            self._finish(sequence, ending)

    # --- the end ---

    def _fail(self, sequence: Sequence, why: ServiceFailure) -> None:
        """An error ends the request, all its outputs."""
        self._end(sequence.request.request_id, Ending(FinishReason.ERROR, complete=False), why)

    def _end(self, request_id: str, ending: Ending, error: ServiceFailure | None = None) -> None:
        for sequence in list(self._live.get(request_id, ())):
            if not sequence.is_finished:
                self._finish(sequence, ending, error)

    def _finish(
        self, sequence: Sequence, ending: Ending, error: ServiceFailure | None = None
    ) -> None:
        self._scheduler.remove(sequence)
        request_id = sequence.request.request_id
        if all(each.is_finished for each in self._live[request_id]):
            del self._live[request_id]
        detail = ending.detail
        if detail.stop_string is None and detail.stop_regex is None:  # else nothing may follow
            sequence.flush_text()
        finish = Finish(
            reason=ending.reason,
            complete=ending.complete,
            detail=detail,
            usage=sequence.usage(),
            timing=sequence.timing(self._clock()),
            abandoned=sequence.abandoned,
            prompt_scores=tuple(sequence.prompt_scores or ()),
            error=error,
        )
        chunk = sequence.take_chunk(finish)
        assert chunk is not None, "a finish is something to say"
        self._chunks.append(chunk)

    def _chunk_of_failure(self, sequence: Sequence, why: ServiceFailure) -> Chunk:
        """The one chunk of a request that was never accepted."""
        finish = Finish(
            reason=FinishReason.ERROR,
            complete=False,
            detail=StopDetail(),
            usage=sequence.usage(),
            timing=sequence.timing(self._clock()),
            error=why,
        )
        return Chunk(request_id=sequence.request.request_id, finish=finish)


def with_seed_of(request: GenerationRequest, index: int) -> GenerationRequest:
    """The request as its output number ``index`` sees it."""
    if index == 0:
        return request
    seed = (request.sampling.seed + index) % 2**64
    return msgspec.structs.replace(
        request, sampling=msgspec.structs.replace(request.sampling, seed=seed)
    )
