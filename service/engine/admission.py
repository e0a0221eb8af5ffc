"""Whether a request can be served at all, and how much output it may have (decision 8)."""

from __future__ import annotations

from service.engine.failures import failure
from service.engine.kv_cache import KVCache
from service.engine.sequence import Sequence
from service.engine.types import GenerationRequest, ServiceFailure


def max_output(request: GenerationRequest, kv: KVCache) -> int:
    """R of decision 8; 0 or less where the prompt leaves no room."""
    bounds = [kv.max_row_tokens - len(request.prompt_ids)]
    if request.stopping.max_tokens is not None:
        bounds.append(request.stopping.max_tokens)
    return min(bounds)


def refusal(sequence: Sequence, *, capacity: int, logit_size: int) -> ServiceFailure | None:
    """Why the request cannot be served; None if it can.

    ``capacity``: tokens that a row can hold; ids from ``logit_size`` on are no tokens.
    """
    request = sequence.request
    needed = 0
    if sequence.matcher is not None and request.guaranteed:
        needed = sequence.matcher.min_tokens
    if not sequence.num_prompt:
        return failure("INVALID_ARGUMENT", "INVALID_FIELD", "the prompt has no token", "input")
    if max(request.prompt_ids) >= logit_size or min(request.prompt_ids) < 0:
        return failure(
            "INVALID_ARGUMENT", "INVALID_FIELD", "a token id is outside the vocabulary", "input"
        )
    if capacity - sequence.num_prompt < max(needed, 1):
        return failure(
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
        return failure(
            "INVALID_ARGUMENT",
            "BUDGET_TOO_SMALL",
            f"{sequence.max_output} is less than the {needed} tokens that suffice for the "
            "shortest whole answer",
            "stopping.max_tokens",
            minOutputTokens=needed,
            maxTokens=sequence.max_output,
        )
    return None
