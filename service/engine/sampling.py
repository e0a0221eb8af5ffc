"""From logits to token ids: a pure function over the whole batch.

    penalties    of tokens that were produced before (on content only, where the row says so)
    bias         what the caller adds to the logits of some tokens
    mask         what the constraint forbids has probability zero in all that follows
    temperature  0 is greedy
    top-k        the k likeliest; ties with the k-th stay
    top-p        of those, the likeliest that together have probability p; ties stay
    min-p        none below min_p times the likeliest
    draw         the inverse of the cumulative distribution at one uniform number

The number is a hash of (seed, position): a row's draw depends on nothing else, so neither on its
batch nor on drafted tokens (decision 13). Ties stay because a cut through equal values would
depend on how they were sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from service.engine.types import Sampling

# Tokens looked at before a row is sorted as a whole: top-p rarely needs more, and sorting a
# vocabulary takes a hundred times as long as finding its largest thousand.
_TOP_P_CANDIDATES = 1024

_Words = npt.NDArray[np.uint32]
_Ints = npt.NDArray[np.int64]


class TokenCounts:
    """How often each token occurred, as arrays that grow with the distinct ones."""

    def __init__(self, token_ids: Iterable[int] = ()) -> None:
        self._index: dict[int, int] = {}
        self._tokens = np.zeros(16, dtype=np.int64)
        self._counts = np.zeros(16, dtype=np.float32)
        for token in token_ids:
            self.add(token)

    def add(self, token: int) -> None:
        """One more occurrence."""
        at = self._index.setdefault(token, len(self._index))
        if at == len(self._tokens):
            self._tokens = np.concatenate([self._tokens, np.zeros_like(self._tokens)])
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        self._tokens[at] = token
        self._counts[at] += 1

    @property
    def tokens(self) -> _Ints:
        """int64[distinct]."""
        return self._tokens[: len(self._index)]

    @property
    def counts(self) -> npt.NDArray[np.float32]:
        """float32[distinct], at least 1."""
        return self._counts[: len(self._index)]


class LogitBias(NamedTuple):
    """``tokens`` int64[k], distinct; ``values`` float32[k], added to their logits."""

    tokens: _Ints
    values: npt.NDArray[np.float32]

    @classmethod
    def of(cls, sampling: Sampling) -> LogitBias | None:
        """As arrays; None where there is none."""
        if not sampling.logit_bias:
            return None
        tokens, values = zip(*sampling.logit_bias, strict=True)
        return cls(np.array(tokens, dtype=np.int64), np.array(values, dtype=np.float32))


class SamplingRow(NamedTuple):
    """One row of the batch.

    ``position``: index of the new token in the output. ``counts``: None where no penalty is on.
    ``penalizable``: uint32[words] tokens that penalties may touch, None for all. ``bias``: None
    where there is none.
    """

    sampling: Sampling
    position: int
    counts: TokenCounts | None = None
    penalizable: _Words | None = None
    bias: LogitBias | None = None


class Sampled(NamedTuple):
    """``token_ids``: int64[n]; ``ok``: bool[n], False where the row's logits are not numbers."""

    token_ids: _Ints
    ok: npt.NDArray[np.bool_]

    @classmethod
    def none(cls) -> Sampled:
        """Of no rows."""
        return cls(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_))


def has_penalty(sampling: Sampling) -> bool:
    """Whether the row needs TokenCounts."""
    return (
        sampling.frequency_penalty != 0
        or sampling.presence_penalty != 0
        or sampling.repetition_penalty != 1
    )


@torch.inference_mode()  # the model's logits are inference tensors, and are changed in place
def sample(logits: torch.Tensor, masks: _Words | None, rows: Sequence[SamplingRow]) -> Sampled:
    """``logits`` float32[n, size], used up; ``masks`` uint32[n, words], bit i%32 of word i//32."""
    _penalize(logits, rows)
    _add_bias(logits, rows)
    if masks is not None:
        logits.masked_fill_(~expand_masks(masks, logits), -torch.inf)
    best, chosen = logits.max(dim=1)
    drawing = [i for i, row in enumerate(rows) if row.sampling.temperature > 0]
    if drawing:
        picked = torch.tensor(drawing, device=logits.device)
        chosen[picked] = _draw(logits, best, picked, [rows[i] for i in drawing])
    # One download: ids and verdicts side by side.
    answer = torch.stack([chosen, torch.isfinite(best).long()]).cpu().numpy()
    return Sampled(answer[0], answer[1].astype(np.bool_))


def uniforms(
    seeds: npt.NDArray[np.uint64], positions: npt.NDArray[np.uint64]
) -> npt.NDArray[np.float64]:
    """One number in [0, 1) for each (seed, position): two rounds of SplitMix64's finaliser.

    Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators".
    """
    golden = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):  # arithmetic modulo 2**64 is meant
        mixed = _mix(seeds + golden)
        mixed = _mix(mixed ^ ((positions + np.uint64(1)) * golden))
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _penalize(logits: torch.Tensor, rows: Sequence[SamplingRow]) -> None:
    """Repetition (Keskar et al. 2019), then frequency and presence (as OpenAI documents them)."""
    where: list[_Ints] = []
    tokens: list[_Ints] = []
    repetition: list[npt.NDArray[np.float32]] = []
    minus: list[npt.NDArray[np.float32]] = []
    for i, row in enumerate(rows):
        if row.counts is None:
            continue
        token_ids, counts = row.counts.tokens, row.counts.counts
        if row.penalizable is not None:
            allowed = row.penalizable[token_ids >> 5] >> (token_ids & 31).astype(np.uint32) & 1
            token_ids, counts = token_ids[allowed != 0], counts[allowed != 0]
        s = row.sampling
        where.append(np.full(len(token_ids), i))
        tokens.append(token_ids)
        repetition.append(np.full(len(token_ids), s.repetition_penalty, dtype=np.float32))
        minus.append((counts * s.frequency_penalty + s.presence_penalty).astype(np.float32))
    if not where:
        return
    at = (_upload(where, logits), _upload(tokens, logits))
    values, factor = logits[at], _upload(repetition, logits)
    values = torch.where(values > 0, values / factor, values * factor)
    logits[at] = values - _upload(minus, logits)


def _add_bias(logits: torch.Tensor, rows: Sequence[SamplingRow]) -> None:
    biased = [(i, row.bias) for i, row in enumerate(rows) if row.bias is not None]
    if not biased:
        return
    where = [np.full(len(bias.tokens), i) for i, bias in biased]
    at = (_upload(where, logits), _upload([bias.tokens for _, bias in biased], logits))
    logits[at] += _upload([bias.values for _, bias in biased], logits)


def _upload(parts: Sequence[npt.NDArray[np.generic]], like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.concatenate(parts)).to(like.device)


def expand_masks(masks: _Words, logits: torch.Tensor) -> torch.Tensor:
    """Packed words to bool[n, size]. Packed they cross to the device: 32 times less."""
    words = torch.from_numpy(masks.view(np.int32)).to(logits.device)
    if logits.device.type == "cpu":
        bits = np.unpackbits(masks.view(np.uint8), axis=1, bitorder="little")
        return torch.from_numpy(bits.view(np.bool_))[:, : logits.shape[1]]
    shifts = torch.arange(32, device=logits.device, dtype=torch.int32)
    bits_of = (words[:, :, None] >> shifts) & 1
    return bits_of.flatten(1)[:, : logits.shape[1]].bool()


def _draw(
    logits: torch.Tensor, best: torch.Tensor, picked: torch.Tensor, rows: Sequence[SamplingRow]
) -> torch.Tensor:
    """int64[picked]: token ids drawn from the truncated distributions."""

    def column(values: Sequence[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32, device=logits.device)[:, None]

    settings = [row.sampling for row in rows]
    # Relative to the best: the largest is 0, and its weight exp(0) = 1 whatever the scale.
    scaled = (logits[picked] - best[picked, None]) / column([s.temperature for s in settings])
    floor = _top_k_floor(scaled, [s.top_k for s in settings])
    floor = _top_p_floor(scaled, floor, [s.top_p for s in settings])
    if any(s.min_p > 0 for s in settings):
        floor = torch.maximum(floor, column([s.min_p for s in settings]).log())
    weights = torch.where(scaled >= floor, scaled, -torch.inf).exp_()
    cumulative = weights.cumsum(dim=1, dtype=torch.float64)
    seeds = np.array([s.seed for s in settings], dtype=np.uint64)
    numbers = uniforms(seeds, np.array([row.position for row in rows], dtype=np.uint64))
    total = cumulative[:, -1:]
    target = torch.from_numpy(numbers).to(logits.device)[:, None] * total
    # Rounding may reach the total, which no token lies above.
    target = torch.minimum(target, torch.nextafter(total, torch.zeros_like(total)))
    tokens = torch.searchsorted(cumulative, target, right=True)[:, 0]
    return tokens.clamp_(max=logits.shape[1] - 1)  # NaN rows answer nonsense; they are not ok


def _top_k_floor(scaled: torch.Tensor, top_k: Sequence[int]) -> torch.Tensor:
    """float32[n, 1]: the k-th largest value, -inf where top-k is off."""
    floor = torch.full_like(scaled[:, :1], -torch.inf)
    size = scaled.shape[1]
    limited = [i for i, k in enumerate(top_k) if 0 < k < size]
    if limited:
        values = scaled[limited].topk(max(top_k[i] for i in limited), dim=1).values
        last = torch.tensor([top_k[i] - 1 for i in limited], device=scaled.device)[:, None]
        floor[limited] = values.gather(1, last)
    return floor


def _top_p_floor(
    scaled: torch.Tensor, floor: torch.Tensor, top_p: Sequence[float]
) -> torch.Tensor:
    """``floor`` raised to the value at which the cumulative probability reaches top_p."""
    limited = [i for i, p in enumerate(top_p) if p < 1]
    if not limited:
        return floor
    floor, size = floor.clone(), scaled.shape[1]
    for num_candidates in (min(_TOP_P_CANDIDATES, size), size):
        rows = scaled[limited].masked_fill(scaled[limited] < floor[limited], -torch.inf)
        wanted = torch.tensor([top_p[i] for i in limited], dtype=torch.float64)
        wanted = wanted.to(scaled.device)[:, None]
        mass = rows.exp().sum(dim=1, keepdim=True, dtype=torch.float64)
        values = rows.topk(num_candidates, dim=1).values
        reached = values.exp().cumsum(dim=1, dtype=torch.float64) >= wanted * mass
        enough = reached[:, -1] | (num_candidates == size)
        # With every token a candidate, rounding may still miss a top_p close to 1: keep all.
        first = torch.where(
            reached.any(dim=1),
            reached.int().argmax(dim=1),
            torch.full_like(enough, num_candidates - 1, dtype=torch.long),
        )
        found = values.gather(1, first[:, None])
        decided = enough.tolist()
        done = [i for i, yes in zip(limited, decided, strict=True) if yes]
        if done:
            floor[done] = found[enough]
        limited = [i for i, yes in zip(limited, decided, strict=True) if not yes]
        if not limited:
            break
    return floor
