"""The decode loop's body: ``step()`` admits, plans, runs the model, samples, advances, emits.

Synchronous, performs no I/O, and owns everything that changes. Each accepted request ends in
exactly one Finish.

How a request ends, first match (decisions 7, 12, 24). "accepted": by the constraint, or the unit
is complete; without either, yes.

    stop token               STOP     complete: the text as returned is accepted
    EOS                      STOP*    complete: the text is accepted
    stop string, stop regex  STOP     complete: the text as returned is accepted
    end of the unit          STOP*    complete
    constraint can only end  STOP*    complete
    max_tokens used up       LENGTH   complete: accepted (without constraint or unit: no)
    cancel                   CANCELLED
    refusal, deadline, fault ERROR    with the error

    * LENGTH with steered_tokens where the budget overruled the model: where the token that it
      would have chosen from the plain mask was not in the budget's.

A GUARANTEED request stops at a stop only where the text as returned is accepted.
"""

from __future__ import annotations

import logging
import sys
import time
import uuid
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from service.engine.endings import Endings
from service.engine.kv_cache import KVCache
from service.engine.model import Model, Row
from service.engine.sampling import Sampled, SamplingRow, sample
from service.engine.scheduler import Planned, Scheduler
from service.engine.sequence import Grammar, Sequence
from service.engine.types import (
    Chunk,
    Finish,
    FinishReason,
    GenerationRequest,
    Load,
    ServiceFailure,
    StopDetail,
)

_log = logging.getLogger(__name__)

# Of matchers of one kind: all are ``grammar``'s, or all are a test's.
FillMasks = Callable[[Seq[Any], npt.NDArray[np.uint32], Seq[int | None]], None]


@dataclass(slots=True)
class StepTimes:
    """Seconds of the last step, by part; ``rows`` and ``positions`` are what it computed."""

    rows: int = 0
    positions: int = 0
    plan: float = 0.0
    model: float = 0.0
    mask: float = 0.0
    sample: float = 0.0
    advance: float = 0.0


class Decoder:
    """Continuous batching over one model: requests join and leave at any step.

    ``token_bytes(id)`` is the text of a token; ``vocab_size`` tokens mean something, the rest of
    the logits are padding. ``clock`` gives seconds; deadlines are on it.
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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.times = StepTimes()
        self._model = model
        self._kv = kv
        self._scheduler = Scheduler(kv, step_tokens=step_tokens, reproducible=reproducible)
        self._token_bytes = token_bytes
        self._endings = Endings(eos_ids, model.logit_size, token_bytes)
        self._fill_masks = fill_masks
        self._clock = clock
        self._live: dict[str, Sequence] = {}
        self._chunks: list[Chunk] = []
        words = (model.logit_size + 31) // 32
        self._masks = np.zeros((len(kv.tables), words), dtype=np.uint32)
        self._penalizable = np.zeros_like(self._masks)
        self._any_token = _pack(np.arange(model.logit_size) < vocab_size)
        self._has_padding = vocab_size < model.logit_size

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
            waiting=len(self._scheduler.waiting),
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
        sequence = Sequence(
            request,
            grammar,
            max_output=self._max_output(request),
            arrived=self._clock() if arrived is None else arrived,
            compile_us=compile_us,
        )
        failure = self._refusal(sequence)
        if failure:
            self._chunks.append(self._chunk_of_failure(sequence, failure))
            return
        self._live[request.request_id] = sequence
        self._scheduler.add(sequence)

    def cancel(self, request_id: str) -> None:
        """Frees the request's row now; the next ``step`` emits its Finish. Ignores unknown ids."""
        sequence = self._live.get(request_id)
        if sequence:
            self._finish(sequence, FinishReason.CANCELLED, complete=False)

    def step(self) -> list[Chunk]:
        """One step of everyone who runs. Chunks in order of admission, at most one a request."""
        started = self._clock()
        self._expire(started)
        for sequence in self._scheduler.admit():
            self._begin(sequence)
        planned = self._scheduler.plan()
        self.times = StepTimes(
            rows=len(planned),
            positions=sum(p.num_tokens for p in planned),
            plan=self._clock() - started,
        )
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

    # --- admission ---

    def _max_output(self, request: GenerationRequest) -> int:
        """R of decision 8."""
        bounds = [self._kv.max_row_tokens - len(request.prompt_ids)]
        if request.stopping.max_tokens is not None:
            bounds.append(request.stopping.max_tokens)
        return min(bounds)

    def _refusal(self, sequence: Sequence) -> ServiceFailure | None:
        request = sequence.request
        capacity = self._kv.max_row_tokens
        room = capacity - sequence.num_prompt
        needed = 0
        if sequence.matcher is not None and request.guaranteed:
            needed = sequence.matcher.min_tokens
        if request.request_id in self._live:
            return _failure("ALREADY_EXISTS", "REQUEST_ID_IN_USE", "the request id is in use")
        if not sequence.num_prompt:
            return _failure(
                "INVALID_ARGUMENT", "INVALID_FIELD", "the prompt has no token", "input"
            )
        if max(request.prompt_ids) >= self._model.logit_size or min(request.prompt_ids) < 0:
            return _failure(
                "INVALID_ARGUMENT",
                "INVALID_FIELD",
                "a token id is outside the vocabulary",
                "input",
            )
        if room < max(needed, 1):
            return _failure(
                "INVALID_ARGUMENT",
                "CONTEXT_LENGTH_EXCEEDED",
                f"{sequence.num_prompt} prompt tokens and at least {max(needed, 1)} of output are "
                f"more than the {capacity} that fit",
                "input",
                promptTokens=sequence.num_prompt,
                minOutputTokens=max(needed, 1),
                maxContextTokens=capacity,
            )
        if sequence.max_output < needed:
            return _failure(
                "INVALID_ARGUMENT",
                "BUDGET_TOO_SMALL",
                f"{sequence.max_output} is less than the {needed} tokens that suffice for the "
                "shortest whole answer",
                "stopping.max_tokens",
                minOutputTokens=needed,
                maxTokens=sequence.max_output,
            )
        return None

    def _begin(self, sequence: Sequence) -> None:
        """At (first) admission: what the constraint forces at once needs no model."""
        if sequence.admitted is None:
            sequence.admitted = self._clock()
            self._guarded(sequence, self._settle)

    def _expire(self, now: float) -> None:
        for sequence in list(self._live.values()):
            deadline = sequence.request.deadline
            if deadline is not None and now >= deadline:
                self._fail(
                    sequence,
                    _failure(
                        "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", "the request's deadline passed"
                    ),
                )

    # --- one step ---

    def _advance(self, planned: list[Planned]) -> None:
        """Model, masks, sampling, and what follows for each row."""
        # Constrained rows first: their masks are then one block, filled by one call.
        planned.sort(key=lambda p: p.sequence.matcher is None)
        try:
            sampling, sampled = self._compute(planned)
        except Exception:  # noqa: BLE001 - whatever it is, these requests end and the loop goes on
            incident = _incident("a step failed")
            for p in planned:
                self._fail(p.sequence, _internal(incident))
            return
        at = self._clock()
        for sequence, token, ok in zip(
            sampling, sampled.token_ids.tolist(), sampled.ok.tolist(), strict=True
        ):
            if ok:
                self._guarded(sequence, self._accept_sampled, token)
            else:
                self._fail(sequence, _internal(_incident("the model's logits are not numbers")))
        self._lap("advance", at)

    def _compute(self, planned: list[Planned]) -> tuple[list[Sequence], Sampled]:
        """Runs the model; the sequences that have a new token, and those tokens."""
        rows = [_row(p) for p in planned]
        at = self._clock()
        logits = self._model.forward(rows, self._kv)
        at = self._lap("model", at)
        for p in planned:
            sequence = p.sequence
            sequence.num_computed += p.num_tokens
            self._kv.remember(sequence.kv_row, sequence.token_ids, sequence.num_computed)
        sampling = [p.sequence for p, row in zip(planned, rows, strict=True) if row.num_logits]
        if not sampling:
            return [], Sampled.none()
        masks, steered = self._fill(sampling)
        at = self._lap("mask", at)
        for sequence in sampling:
            sequence.mask_seconds += self.times.mask / len(sampling)
        settings = [self._sampling_row(i, s) for i, s in enumerate(sampling)]
        self._note_overruled(sampling, steered, logits, masks, settings)
        sampled = sample(logits, masks, settings)
        self._lap("sample", at)
        return sampling, sampled

    def _fill(self, sequences: Seq[Sequence]) -> tuple[npt.NDArray[np.uint32] | None, list[int]]:
        """uint32[n, words], constrained rows first; None where every row may take any token.

        Also the rows whose budget narrowed their mask.
        """
        masks = self._masks[: len(sequences)]
        matchers = [s.matcher for s in sequences if s.matcher is not None]
        constrained = len(matchers)
        if matchers:
            budgets = [s.remaining if s.request.guaranteed else None for s in sequences]
            self._fill_masks(matchers, masks[:constrained], budgets[:constrained])
        steered = [i for i, matcher in enumerate(matchers) if matcher.steered]
        for i in steered:
            sequences[i].num_steered += 1
        masks[constrained:] = self._any_token
        any_masked = self._has_padding or bool(matchers)
        for mask, sequence in zip(masks, sequences, strict=True):
            any_masked |= self._endings.restrict(mask, sequence)
        return (masks if any_masked else None), steered

    def _note_overruled(
        self,
        sequences: Seq[Sequence],
        steered: Seq[int],
        logits: torch.Tensor,
        masks: npt.NDArray[np.uint32] | None,
        rows: Seq[SamplingRow],
    ) -> None:
        """Finds out whether a budget that narrowed a mask also changes what is chosen.

        It samples those rows a second time, from the mask without the budget and with the same
        random number. Once a request was overruled there is nothing more to find out.
        """
        asked = [i for i in steered if not sequences[i].overruled]
        if not asked:
            return
        assert masks is not None
        plain = np.zeros_like(masks[: len(asked)])
        for mask, i in zip(plain, asked, strict=True):
            matcher = sequences[i].matcher
            assert matcher is not None
            matcher.fill_mask(mask)
            self._endings.restrict(mask, sequences[i])
        wanted = sample(logits[asked], plain, [rows[i] for i in asked])
        for i, token in zip(asked, wanted.token_ids.tolist(), strict=True):
            allowed = masks[i, token >> 5] >> np.uint32(token & 31) & 1
            sequences[i].overruled = not allowed

    def _sampling_row(self, index: int, sequence: Sequence) -> SamplingRow:
        penalizable = None
        settings = sequence.request.sampling
        if (
            sequence.counts is not None
            and sequence.matcher is not None
            and not sequence.is_unit  # around and in a unit all is content
            and settings.penalty_scope == "free_text"
        ):
            penalizable = self._penalizable[index]
            sequence.matcher.fill_penalizable(penalizable)
        return SamplingRow(
            settings, sequence.num_output, sequence.counts, penalizable, sequence.bias
        )

    # --- one row ---

    def _accept_sampled(self, sequence: Sequence, token: int) -> None:
        if self._endings.may_stop(sequence, token):
            self._stop_at_token(sequence, token)
        elif token in self._endings.eos_ids:
            self._finish_whole(sequence, StopDetail(eos_token_id=token))
        elif not self._append(sequence, token, forced=False):
            self._settle(sequence)

    def _stop_at_token(self, sequence: Sequence, token: int) -> None:
        """The caller's stop token: the end, with its text where that is asked for."""
        matcher = sequence.matcher
        accepted = True
        if self._endings.is_returned(sequence, token):
            accepted = matcher is None or matcher.advance(token)
            if self._append_text(sequence, token, forced=False):
                return
        self._finish(
            sequence,
            FinishReason.STOP,
            complete=matcher is None or (accepted and matcher.is_complete),
            detail=StopDetail(stop_token_id=token),
        )

    def _settle(self, sequence: Sequence) -> None:
        """Ends the request where it must end; else appends what is forced, as far as it goes."""
        matcher = sequence.matcher
        while True:
            if matcher is not None and matcher.is_finished:
                self._finish_whole(sequence, StopDetail(constraint_complete=True))
                return
            if sequence.remaining == 0:
                self._finish_length(sequence)
                return
            if matcher is None:
                return
            budget = sequence.remaining if sequence.request.guaranteed else None
            forced = matcher.forced_tokens(budget)
            if not forced:
                return
            for token in forced[: sequence.remaining]:
                if self._append(sequence, token, forced=True):
                    return

    def _append(self, sequence: Sequence, token: int, *, forced: bool) -> bool:
        """One more token of the answer; whether its text ended the request."""
        if sequence.matcher is not None:
            accepted = sequence.matcher.advance(token)
            assert accepted, f"the constraint allowed token {token} and then refused it"
        return self._append_text(sequence, token, forced=forced)

    def _append_text(self, sequence: Sequence, token: int, *, forced: bool) -> bool:
        sequence.append(token, forced=forced)
        if sequence.first_token is None:
            sequence.first_token = self._clock()
        data = self._token_bytes(token)
        past_end = sequence.num_past_end
        hit = sequence.push_text(data if past_end is None else data[: len(data) - past_end])
        if hit:
            self._finish(sequence, FinishReason.STOP, complete=hit.accepted, detail=hit.detail)
        elif past_end is not None:
            self._finish_whole(sequence, StopDetail(unit=sequence.unit))
        return sequence.is_finished

    def _finish_whole(self, sequence: Sequence, detail: StopDetail) -> None:
        """The model, the constraint or the unit came to an end: by itself, or overruled."""
        complete = sequence.matcher is None or sequence.matcher.is_complete
        if sequence.overruled:
            self._finish_length(sequence)
        else:
            self._finish(sequence, FinishReason.STOP, complete=complete, detail=detail)

    def _finish_length(self, sequence: Sequence) -> None:
        complete = sequence.matcher is not None and sequence.matcher.is_complete
        assert complete or sequence.matcher is None or not sequence.request.guaranteed, (
            "a guaranteed request ran out of budget"
        )
        steered = sequence.num_steered if sequence.overruled else None
        detail = StopDetail(steered_tokens=steered)
        self._finish(sequence, FinishReason.LENGTH, complete=complete, detail=detail)

    def _guarded(self, sequence: Sequence, work: Callable[..., None], *arguments: int) -> None:
        """A fault in one row's work ends that request only."""
        try:
            work(sequence, *arguments)
        except Exception:  # noqa: BLE001 - whatever it is, the others go on
            incident = _incident(f"request {sequence.request.request_id} failed")
            if not sequence.is_finished:
                self._fail(sequence, _internal(incident))

    # --- the end ---

    def _fail(self, sequence: Sequence, failure: ServiceFailure) -> None:
        self._finish(sequence, FinishReason.ERROR, complete=False, error=failure)

    def _finish(
        self,
        sequence: Sequence,
        reason: FinishReason,
        *,
        complete: bool,
        detail: StopDetail = StopDetail(),  # noqa: B008 - frozen
        error: ServiceFailure | None = None,
    ) -> None:
        self._scheduler.remove(sequence)
        del self._live[sequence.request.request_id]
        if detail.stop_string is None and detail.stop_regex is None:  # else nothing may follow
            sequence.flush_text()
        finish = Finish(
            reason=reason,
            complete=complete,
            detail=detail,
            usage=sequence.usage(),
            timing=sequence.timing(self._clock()),
            abandoned=sequence.abandoned,
            error=error,
        )
        chunk = sequence.take_chunk(finish)
        assert chunk is not None, "a finish is something to say"
        self._chunks.append(chunk)

    def _chunk_of_failure(self, sequence: Sequence, failure: ServiceFailure) -> Chunk:
        """The one chunk of a request that was never accepted."""
        finish = Finish(
            reason=FinishReason.ERROR,
            complete=False,
            detail=StopDetail(),
            usage=sequence.usage(),
            timing=sequence.timing(self._clock()),
            error=failure,
        )
        return Chunk(request_id=sequence.request.request_id, finish=finish)

    def _lap(self, part: str, since: float) -> float:
        now = self._clock()
        setattr(self.times, part, now - since)
        return now


def _row(planned: Planned) -> Row:
    sequence, num_tokens = planned
    last = num_tokens == sequence.num_pending
    return Row(
        sequence.kv_row,
        sequence.num_computed,
        sequence.pending(num_tokens),
        1 if last else 0,
        is_prompt=sequence.is_prefilling,
    )


def _pack(allowed: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint32]:
    """bool[size] to uint32[words], bit i%32 of word i//32."""
    padded = np.zeros(-(-len(allowed) // 32) * 32, dtype=np.bool_)
    padded[: len(allowed)] = allowed
    return np.packbits(padded, bitorder="little").view(np.uint32)


def _incident(what: str) -> str:
    """Logs what went wrong, with the exception being handled if there is one; gives its id."""
    incident = uuid.uuid4().hex[:12]
    _log.error("incident %s: %s", incident, what, exc_info=sys.exc_info()[0] is not None)
    return incident


def _internal(incident: str) -> ServiceFailure:
    return _failure(
        "INTERNAL",
        "INTERNAL",
        f"internal error; the server's log has it as incident {incident}",
        incident=incident,
    )


def _failure(
    code: str, reason: str, message: str, field: str = "", **metadata: int | str
) -> ServiceFailure:
    texts = {key: str(value) for key, value in metadata.items()}
    return ServiceFailure(code=code, reason=reason, message=message, field=field, metadata=texts)
