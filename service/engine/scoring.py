"""Log-probabilities of tokens: of the one that was chosen or forced, and of the likeliest.

RAW is the model's own distribution, before temperature, penalties, bias and mask (decision 15).
MASKED is that distribution over the tokens that could be chosen: what may not be has none, so what
is forced has probability 1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from service.engine.sampling import expand_masks
from service.engine.types import Candidate, Score

FORCED = 0.0  # the log-probability of what has no alternative


@torch.inference_mode()
def log_probabilities(
    logits: torch.Tensor, mask: npt.NDArray[np.uint32] | None = None
) -> torch.Tensor:
    """``logits`` float32[size], left as they are; ``mask`` uint32[words]: over its tokens only."""
    if mask is None:
        return logits.log_softmax(0)
    allowed = expand_masks(mask[None], logits[None])[0]
    return logits.masked_fill(~allowed, -torch.inf).log_softmax(0)


def score(log_probs: torch.Tensor, token: int, top: int) -> Score:
    """Of ``token``, and the ``top`` likeliest that are possible at all."""
    own = log_probs[token]
    values, tokens = log_probs.topk(min(top, len(log_probs)))
    return Score(
        float(own),
        1 + int((log_probs > own).sum()),
        tuple(
            Candidate(candidate, value)
            for candidate, value in zip(tokens.tolist(), values.tolist(), strict=True)
            if value > -np.inf
        ),
    )


def forced_score(token: int, top: int) -> Score:
    """MASKED: of a token without an alternative."""
    return Score(FORCED, 1, (Candidate(token, FORCED),) if top else ())
