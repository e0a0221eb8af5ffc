"""A step's rows: what is fed, and how much of it turns out to be what is said.

A row feeds its pending tokens (P) and then perhaps a draft (guesses g, forced f). From the logits
after its last pending token the row's next one is chosen as always. While what the row has by then
is what was fed, the logits after that are there too, and the next one is chosen from them: by the
same masks, penalties and random numbers as in a step of its own.

    fed               P P g f g g          the row then has    P P g f x
    logits after        ^   ^ ^ ^                                      x chosen where g was guessed
"""

from __future__ import annotations

import copy
from collections.abc import Sequence as Seq

import torch

from service.engine.drafting import Draft, Drafter
from service.engine.kv_cache import KVCache
from service.engine.model import Row
from service.engine.scheduler import Planned
from service.engine.scoring import log_probabilities
from service.engine.sequence import Sequence


class Fed:
    """One row of a step. ``first_logits``: where its logits begin among those of the step."""

    def __init__(self, planned: Planned, draft: Draft | None, first_logits: int) -> None:
        self.sequence: Sequence = planned.sequence
        is_whole = planned.num_tokens == planned.sequence.num_pending
        self._chooses = is_whole and planned.sequence.ending is None
        self._scored = _score_offsets(*planned)
        self.row = _row(planned, draft, self._scored)
        self.goes_on = False  # whether another token can be chosen in this step
        self._draft = draft
        self._first_logits = first_logits
        self._num_right = 0  # guesses
        self._num_said = planned.num_tokens  # tokens of the row that are the sequence's too

    def give_scores(self, logits: torch.Tensor) -> None:
        """To tokens that were known before, and whose logits this step has."""
        for place in range(len(self._scored)):
            self.sequence.give_score(log_probabilities(logits[self._first_logits + place]))

    def alike(self, sequence: Sequence) -> Fed:
        """The same for a sequence forked from this one, which chooses from the same logits."""
        other = copy.copy(self)
        other.sequence, other._draft = sequence, None  # noqa: SLF001 - its own class
        return other

    @property
    def logits(self) -> int | None:
        """Which logits of the step its next token is chosen from; None if they are not there."""
        last = self._num_said - 1
        if not self._chooses or last not in self.row.wanted:
            return None
        return self._first_logits + self.row.wanted.index(last)

    def compare(self, drafter: Drafter | None) -> None:
        """After a token was chosen: counts what was fed rightly as computed."""
        sequence = self.sequence
        self.goes_on = False
        if self._draft is None or drafter is None or self._num_right == len(self._draft.guesses):
            return
        said = sequence.token_ids[self.row.position + self._num_said :]
        fed = self.row.token_ids[self._num_said :]
        same = _num_same(said, fed)
        drafter.learn(sequence, self._draft.guesses[self._num_right], right=same > 0)
        self._num_right += same > 0
        self._num_said += same
        sequence.num_computed += same
        self.goes_on = 0 < same == len(said) and self.logits is not None


def feed(
    planned: Seq[Planned], kv: KVCache, drafter: Drafter | None, max_positions: int
) -> list[Fed]:
    """The rows of a step; with drafts it has at most ``max_positions``."""
    room = max_positions - sum(p.num_tokens for p in planned)
    if any(p.sequence.is_prefilling for p in planned):
        drafter = None  # such a step is long: a guess more would hold up the others
    fed: list[Fed] = []
    num_logits = 0
    for p in planned:
        draft = None
        may = p.num_tokens == p.sequence.num_pending and p.sequence.scoring is None
        if drafter is not None and may:
            draft = drafter.draft(p.sequence, rows=len(planned), most=room)
        if draft and not kv.grow(p.sequence.kv_row, _num_tokens(p, draft)):
            draft = None
        if draft:
            room -= len(draft.token_ids)
            p.sequence.num_drafted += len(draft.guesses)
        fed.append(Fed(p, draft, num_logits))
        num_logits += fed[-1].row.num_logits
    return fed


def _num_tokens(planned: Planned, draft: Draft) -> int:
    return planned.sequence.num_computed + planned.num_tokens + len(draft.token_ids)


def _num_same(some: Seq[int], others: Seq[int]) -> int:
    count = 0
    for one, other in zip(some, others, strict=False):
        if one != other:
            break
        count += 1
    return count


def _score_offsets(sequence: Sequence, num_tokens: int) -> tuple[int, ...]:
    """Before each token that waits for its score, as far as it is fed now."""
    offsets = (place - 1 - sequence.num_computed for place in sequence.unscored)
    return tuple(offset for offset in offsets if offset < num_tokens)


def _row(planned: Planned, draft: Draft | None, scored: tuple[int, ...]) -> Row:
    sequence, num_tokens = planned
    tokens = sequence.pending(num_tokens)
    if draft is not None:
        before = [num_tokens - 1 + guess.place for guess in draft.guesses]
        tokens = [*tokens, *draft.token_ids]
        offsets = (*before, len(tokens) - 1)
    elif num_tokens == sequence.num_pending and not sequence.ending:
        offsets = (*scored, num_tokens - 1)
    else:
        offsets = scored
    return Row(
        sequence.kv_row,
        sequence.num_computed,
        tokens,
        len(offsets),
        is_prompt=sequence.is_prefilling,
        offsets=offsets,
    )
