"""One request's state while the decoder works on it.

Where its tokens are, while a forced run waits to be fed (P prompt, O output, F forced):

    token_ids      P P P P P P O F F
    num_computed   |--- 6 ----|          keys and values are in the cache
    pending                    |-----|   fed by the next step
    num_output                 |-----|   3 tokens of the budget are used
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Sequence as Seq
from typing import NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch

from service.engine.lookup import Lookup
from service.engine.sampling import LogitBias, TokenCounts, has_penalty
from service.engine.scoring import forced_score
from service.engine.scoring import score as score_of
from service.engine.stops import Judge, Prefixed, StopHit, Stops
from service.engine.text import Detokenizer
from service.engine.types import (
    Chunk,
    Ending,
    Finish,
    GenerationRequest,
    Score,
    Timing,
    Token,
    Unit,
    Usage,
)
from service.engine.worth import Chances


class Matcher(Prefixed, Protocol):
    """What the decoder uses of a ``grammar`` matcher."""

    steered: bool

    @property
    def is_finished(self) -> bool: ...

    @property
    def min_tokens(self) -> int: ...

    @property
    def num_past_end(self) -> int | None:
        """Of a unit that has ended: bytes of the last token that lie beyond it."""
        ...

    def fill_mask(self, row: npt.NDArray[np.uint32], budget: int | None = None) -> None: ...

    def fill_penalizable(self, row: npt.NDArray[np.uint32]) -> None: ...

    def advance(self, token_id: int) -> bool: ...

    def forced_tokens(self, budget: int | None = None) -> list[int]: ...

    def fork(self) -> Matcher: ...


class Grammar(Protocol):
    """What the decoder uses of a compiled constraint."""

    def matcher(self) -> Matcher: ...


class Drafting(NamedTuple):
    """What guesses of a request's tokens are made of."""

    lookup: Lookup
    chances: Chances


class State(enum.Enum):
    """WAITING -> RUNNING -> FINISHED; RUNNING -> WAITING when preempted; WAITING -> FINISHED."""

    WAITING = enum.auto()
    RUNNING = enum.auto()
    FINISHED = enum.auto()


MOVES = {
    State.WAITING: {State.RUNNING, State.FINISHED},
    State.RUNNING: {State.WAITING, State.FINISHED},
    State.FINISHED: set[State](),
}


class Sequence:
    """One output of an accepted request. Times are seconds on the decoder's clock."""

    def __init__(
        self,
        request: GenerationRequest,
        grammar: Grammar | None,
        *,
        max_output: int,
        arrived: float,
        compile_us: int = 0,
        index: int = 0,
    ) -> None:
        self.request = request
        self.index = index  # of its request's outputs
        self.max_output = max_output  # R of decision 8
        self.token_ids = list(request.prompt_ids)
        self.num_prompt = len(request.prompt_ids)
        self.num_computed = 0
        self.num_cached = 0  # of the prompt, when it was first admitted
        self.num_forced = 0
        self.num_steered = 0
        self.num_drafted = 0
        self.num_accepted = 0  # of those
        self.drafting: Drafting | None = None  # once there was a chance to guess
        self.overruled = False  # whether the budget ever overruled what the model had chosen
        self.matcher = grammar.matcher() if grammar else None
        self.unit = _unit(request)
        self.counts: TokenCounts | None = None
        if has_penalty(request.sampling):
            penalized = request.prompt_ids if request.sampling.penalize_prompt else ()
            self.counts = TokenCounts(penalized)
        self.bias = LogitBias.of(request.sampling)
        self.scoring = request.logprobs
        asked = request.prompt_logprobs is not None and index == 0
        self.prompt_scores: list[Score] | None = [] if asked else None
        self.ending: Ending | None = None  # found, and told once all tokens are scored
        self.stop_ids = frozenset(request.stopping.stop_token_ids)
        self.state = State.WAITING
        self.kv_row = -1  # only while RUNNING
        self.arrived = arrived
        self.compile_us = compile_us
        self.admitted: float | None = None
        self.first_token: float | None = None
        self.mask_seconds = 0.0
        self._detokenizer = Detokenizer()
        self._stops = self._make_stops(grammar)
        self._new_text: list[str] = []
        self._new_tokens: list[Token] = []
        self._unscored: deque[int] = deque()  # the last tokens, forced, that wait for logits

    @property
    def num_output(self) -> int:
        """Tokens of the answer so far; EOS is never one (decision 7)."""
        return len(self.token_ids) - self.num_prompt

    @property
    def remaining(self) -> int:
        """Tokens that the budget still allows."""
        return self.max_output - self.num_output

    @property
    def num_pending(self) -> int:
        """Tokens that are not in the cache yet."""
        return len(self.token_ids) - self.num_computed

    @property
    def is_finished(self) -> bool:
        """Whether its Finish has been made."""
        return self.state is State.FINISHED

    @property
    def is_unit(self) -> bool:
        """Whether it stops at the end of a structural unit."""
        return self.unit is not None

    @property
    def num_past_end(self) -> int | None:
        """Bytes of the last token that are not returned: the unit has ended. Else None."""
        if self.unit is None or self.matcher is None:
            return None
        past_end = self.matcher.num_past_end
        if past_end and self.unit == "line" and self.request.stopping.include_stop_in_output:
            return past_end - 1  # the line break
        return past_end

    @property
    def is_prefilling(self) -> bool:
        """Whether part of the prompt is still to be computed (or, preempted, computed again)."""
        return self.num_computed < self.num_prompt

    def pending(self, num_tokens: int) -> Seq[int]:
        """The next tokens to feed."""
        return self.token_ids[self.num_computed : self.num_computed + num_tokens]

    def move(self, state: State) -> None:
        """To another state, along ``MOVES``."""
        assert state in MOVES[self.state], f"{self.state} -> {state}"
        self.state = state

    @property
    def unscored(self) -> Seq[int]:
        """Places of the tokens that wait for the logits before them: the prompt's, or forced."""
        last = range(len(self.token_ids) - len(self._unscored), len(self.token_ids))
        if self.prompt_scores is None:
            return last
        return [*range(1 + len(self.prompt_scores), self.num_prompt), *last]

    def give_score(self, log_probs: torch.Tensor) -> None:
        """To the first token that waits for one; ``log_probs`` float32[size] of its place."""
        place = self.unscored[0]
        token = self.token_ids[place]
        if place < self.num_prompt:
            assert self.prompt_scores is not None
            assert self.request.prompt_logprobs is not None
            self.prompt_scores.append(score_of(log_probs, token, self.request.prompt_logprobs))
            return
        assert self.scoring is not None
        score = score_of(log_probs, token, self.scoring.top)
        self._new_tokens.append(Token(self._unscored.popleft(), True, score))

    def append(self, token_id: int, *, forced: bool, score: Score | None = None) -> None:
        """One more token of the answer."""
        self.token_ids.append(token_id)
        self.num_forced += forced
        if self.counts is not None:
            self.counts.add(token_id)
        if self.scoring is not None and forced and not self.scoring.masked:
            self._unscored.append(token_id)
            return
        if self.scoring is not None and forced:
            score = forced_score(token_id, self.scoring.top)
        self._new_tokens.append(Token(token_id, forced, score))

    def push_text(self, data: bytes) -> StopHit | None:
        """The bytes of the appended token. The stop text that ends the answer, if one does."""
        text = self._detokenizer.push(data)
        if self._stops is None:
            self._new_text.append(text)
            return None
        may_stop = self.num_output >= self.request.stopping.min_tokens
        given, hit = self._stops.push(text, may_stop=may_stop)
        self._new_text.append(given)
        return hit

    def flush_text(self) -> None:
        """Gives out what was held back for a stop text that did not come."""
        if self._stops is not None:
            self._new_text.append(self._stops.flush())

    @property
    def abandoned(self) -> tuple[int, ...]:
        """The stop regexes, by place, that are no longer watched."""
        return self._stops.abandoned if self._stops is not None else ()

    def take_chunk(self, finish: Finish | None = None) -> Chunk | None:
        """What is new since the last call; None if nothing is."""
        if not (self._new_tokens or finish):
            return None
        chunk = Chunk(
            request_id=self.request.request_id,
            index=self.index,
            text="".join(self._new_text),
            tokens=tuple(self._new_tokens),
            finish=finish,
        )
        self._new_text.clear()
        self._new_tokens.clear()
        return chunk

    def usage(self) -> Usage:
        """Tokens so far."""
        return Usage(
            prompt_tokens=self.num_prompt if self.index == 0 else 0,
            completion_tokens=self.num_output,
            forced_tokens=self.num_forced,
            cached_tokens=self.num_cached if self.index == 0 else 0,
            drafted_tokens=self.num_drafted,
            accepted_draft_tokens=self.num_accepted,
        )

    def timing(self, now: float) -> Timing:
        """Times so far; a phase that did not begin counts as lasting until ``now``."""
        admitted = now if self.admitted is None else self.admitted
        first = now if self.first_token is None else self.first_token
        return Timing(
            queue_us=_us(admitted - self.arrived),
            compile_us=self.compile_us,
            time_to_first_token_us=_us(first - self.arrived),
            decode_us=_us(now - first),
            mask_us=_us(self.mask_seconds),
        )

    def _make_stops(self, grammar: Grammar | None) -> Stops | None:
        stopping = self.request.stopping
        if not Stops.wanted(stopping):
            return None
        judge = Judge(grammar.matcher()) if grammar else None
        return Stops(stopping, judge, only_accepted=self.request.guaranteed)


def _unit(request: GenerationRequest) -> Unit | None:
    constraint = request.constraint
    if constraint is None or constraint.kind != "unit":
        return None
    return cast("Unit", constraint.text)


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
