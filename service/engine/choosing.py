"""From the logits of some rows to their next tokens: masks, settings, sampling.

Constrained rows come first: their masks are then one block, filled by one call.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from service.engine.endings import Endings
from service.engine.sampling import SamplingRow, sample
from service.engine.scoring import log_probabilities, score
from service.engine.sequence import Sequence
from service.engine.step_times import StepTimes
from service.engine.types import Score

# Of matchers of one kind: all are ``grammar``'s, or all are a test's.
FillMasks = Callable[[Seq[Any], npt.NDArray[np.uint32], Seq[int | None]], None]


class Choice(NamedTuple):
    """A row's next token; ``ok``: its logits were numbers."""

    token: int
    ok: bool
    score: Score | None


class Chooser:
    """For one model, at most ``max_rows`` rows at a time.

    ``vocab_size`` tokens mean something, the rest of ``logit_size`` is padding.
    """

    def __init__(
        self,
        endings: Endings,
        fill_masks: FillMasks,
        *,
        max_rows: int,
        vocab_size: int,
        logit_size: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endings = endings
        self._fill_masks = fill_masks
        self._clock = clock
        self._masks = np.zeros((max_rows, (logit_size + 31) // 32), dtype=np.uint32)
        self._penalizable = np.zeros_like(self._masks)
        self._any_token = _pack(np.arange(logit_size) < vocab_size)
        self._has_padding = vocab_size < logit_size

    def choose(
        self, sequences: Seq[Sequence], logits: torch.Tensor, times: StepTimes
    ) -> list[Choice]:
        """The next token of each; ``logits`` float32[n, logit_size], used up.

        Adds what it took to ``times``, and to the sequences their share of the masks.
        """
        began = self._clock()
        masks, steered = self._fill(sequences)
        filled = self._clock()
        for sequence in sequences:
            sequence.mask_seconds += (filled - began) / len(sequences)
        settings = [self._settings(i, s) for i, s in enumerate(sequences)]
        self._note_overruled(sequences, steered, logits, masks, settings)
        log_probs = [_log_probs(i, s, logits, masks) for i, s in enumerate(sequences)]
        sampled = sample(logits, masks, settings)
        choices = [
            Choice(token, ok, _score(sequence, probs, token))
            for token, ok, sequence, probs in zip(
                sampled.token_ids.tolist(), sampled.ok.tolist(), sequences, log_probs, strict=True
            )
        ]
        times.mask += filled - began
        times.sample += self._clock() - filled
        return choices

    def _fill(self, sequences: Seq[Sequence]) -> tuple[npt.NDArray[np.uint32] | None, list[int]]:
        """uint32[n, words]; None where every row may take any token.

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

    def _settings(self, index: int, sequence: Sequence) -> SamplingRow:
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


def _log_probs(
    index: int, sequence: Sequence, logits: torch.Tensor, masks: npt.NDArray[np.uint32] | None
) -> torch.Tensor | None:
    """Before sampling uses the logits up; None where nobody asks."""
    if sequence.scoring is None:
        return None
    over = masks[index] if sequence.scoring.masked and masks is not None else None
    return log_probabilities(logits[index], over)


def _score(sequence: Sequence, log_probs: torch.Tensor | None, token: int) -> Score | None:
    if log_probs is None or sequence.scoring is None:
        return None
    return score(log_probs, token, sequence.scoring.top)


def _pack(allowed: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint32]:
    """bool[size] to uint32[words], bit i%32 of word i//32."""
    padded = np.zeros(-(-len(allowed) // 32) * 32, dtype=np.bool_)
    padded[: len(allowed)] = allowed
    return np.packbits(padded, bitorder="little").view(np.uint32)
