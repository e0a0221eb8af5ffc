"""What a token does to its request: more text, what the constraint then forces, or the end.

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

A GUARANTEED request stops at a stop only where the text as returned is accepted. The last two
lines are the decoder's; the others are found here and returned as an ``Ending``.
"""

from __future__ import annotations

from collections.abc import Callable

from service.engine.endings import Endings
from service.engine.sequence import Sequence
from service.engine.types import Ending, FinishReason, Score, StopDetail


class Advancer:
    """Moves sequences on; ``token_bytes(id)`` is the text of a token."""

    def __init__(
        self,
        endings: Endings,
        token_bytes: Callable[[int], bytes],
        clock: Callable[[], float],
    ) -> None:
        self._endings = endings
        self._token_bytes = token_bytes
        self._clock = clock

    def accept(self, sequence: Sequence, token: int, score: Score | None = None) -> Ending | None:
        """The token that was sampled, and what is forced after it; the end, if it is one."""
        if self._endings.may_stop(sequence, token):
            return self._stop_at_token(sequence, token, score)
        if token in self._endings.eos_ids:
            return _whole(sequence, StopDetail(eos_token_id=token))
        return self._append(sequence, token, score=score) or self.settle(sequence)

    def settle(self, sequence: Sequence) -> Ending | None:
        """The end, where it must end; else appends what is forced, as far as it goes."""
        matcher = sequence.matcher
        while True:
            if matcher is not None and matcher.is_finished:
                return _whole(sequence, StopDetail(constraint_complete=True))
            if sequence.remaining == 0:
                return _out_of_budget(sequence)
            if matcher is None:
                return None
            budget = sequence.remaining if sequence.request.guaranteed else None
            forced = matcher.forced_tokens(budget)
            if not forced:
                return None
            for token in forced[: sequence.remaining]:
                ending = self._append(sequence, token, forced=True)
                if ending:
                    return ending

    def _stop_at_token(self, sequence: Sequence, token: int, score: Score | None) -> Ending:
        """The caller's stop token: the end, with its text where that is asked for."""
        matcher = sequence.matcher
        accepted = True
        if self._endings.is_returned(sequence, token):
            accepted = matcher is None or matcher.advance(token)
            ending = self._append_text(sequence, token, score=score)
            if ending:
                return ending
        complete = matcher is None or (accepted and matcher.is_complete)
        return Ending(FinishReason.STOP, complete, StopDetail(stop_token_id=token))

    def _append(
        self, sequence: Sequence, token: int, *, forced: bool = False, score: Score | None = None
    ) -> Ending | None:
        """One more token of the answer; the end, if its text is one."""
        if sequence.matcher is not None:
            accepted = sequence.matcher.advance(token)
            assert accepted, f"the constraint allowed token {token} and then refused it"
        return self._append_text(sequence, token, forced=forced, score=score)

    def _append_text(
        self, sequence: Sequence, token: int, *, forced: bool = False, score: Score | None = None
    ) -> Ending | None:
        sequence.append(token, forced=forced, score=score)
        if sequence.first_token is None:
            sequence.first_token = self._clock()
        data = self._token_bytes(token)
        past_end = sequence.num_past_end
        hit = sequence.push_text(data if past_end is None else data[: len(data) - past_end])
        if hit:
            return Ending(FinishReason.STOP, hit.accepted, hit.detail)
        if past_end is not None:
            return _whole(sequence, StopDetail(unit=sequence.unit))
        return None


def _whole(sequence: Sequence, detail: StopDetail) -> Ending:
    """The model, the constraint or the unit came to an end: by itself, or overruled."""
    if sequence.overruled:
        return _out_of_budget(sequence)
    complete = sequence.matcher is None or sequence.matcher.is_complete
    return Ending(FinishReason.STOP, complete, detail)


def _out_of_budget(sequence: Sequence) -> Ending:
    complete = sequence.matcher is not None and sequence.matcher.is_complete
    assert complete or sequence.matcher is None or not sequence.request.guaranteed, (
        "a guaranteed request ran out of budget"
    )
    steered = sequence.num_steered if sequence.overruled else None
    return Ending(FinishReason.LENGTH, complete, StopDetail(steered_tokens=steered))
