"""Sampling against its slow, obvious twin; and the laws that a seeded draw obeys."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from service.engine.sampling import LogitBias, SamplingRow, TokenCounts, sample, uniforms
from service.engine.types import Sampling

SIZE = 77


def naive(logits, allowed, row, penalizable=None):
    """One row, one token at a time, in double precision."""
    s = row.sampling
    values = [float(x) for x in logits]
    if row.counts is not None:
        pairs = zip(row.counts.tokens.tolist(), row.counts.counts.tolist(), strict=True)
        for token, count in pairs:
            if penalizable is not None and token not in penalizable:
                continue
            v = values[token]
            v = v / s.repetition_penalty if v > 0 else v * s.repetition_penalty
            values[token] = v - count * s.frequency_penalty - s.presence_penalty
    for token, bias in s.logit_bias:
        values[token] += bias
    kept = sorted(allowed, key=lambda t: -values[t])
    if s.temperature == 0:
        return min(t for t in kept if values[t] == values[kept[0]])
    best = values[kept[0]]
    weight = {t: math.exp((values[t] - best) / s.temperature) for t in kept}
    if 0 < s.top_k < len(kept):
        kept = [t for t in kept if values[t] >= values[kept[s.top_k - 1]]]
    mass = sum(weight[t] for t in kept)
    if s.top_p < 1:
        together = 0.0
        for t in kept:
            together += weight[t]
            if together >= s.top_p * mass:
                kept = [u for u in kept if values[u] >= values[t]]
                break
    kept = [t for t in kept if weight[t] >= s.min_p]
    (number,) = uniforms(np.array([s.seed], np.uint64), np.array([row.position], np.uint64))
    left = number * sum(weight[t] for t in kept)
    for t in sorted(kept):
        left -= weight[t]
        if left < 0:
            return t
    return max(kept)


def pack(tokens):
    bits = np.zeros(-(-SIZE // 32) * 32, dtype=bool)
    bits[list(tokens)] = True
    return np.packbits(bits, bitorder="little").view(np.uint32)


settings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    top_p=st.sampled_from([1.0, 0.95, 0.5, 0.01]),
    top_k=st.sampled_from([0, 1, 3, 50, 1000]),
    min_p=st.sampled_from([0.0, 0.01, 0.3]),
    frequency_penalty=st.sampled_from([0.0, 0.7, -0.5]),
    presence_penalty=st.sampled_from([0.0, 1.1]),
    repetition_penalty=st.sampled_from([1.0, 1.3, 0.8]),
    seed=st.integers(0, 2**64 - 1),
    logit_bias=st.dictionaries(
        st.integers(0, SIZE - 1), st.sampled_from([-100.0, -1.5, 0.25, 100.0]), max_size=5
    ).map(lambda bias: tuple(bias.items())),
)


@given(st.lists(settings, min_size=1, max_size=6), st.integers(0, 10**6))
def test_equals_the_obvious_definition_for_every_row_of_a_batch(each, noise_seed):
    rng = np.random.default_rng(noise_seed)
    logits = rng.normal(size=(len(each), SIZE)).astype(np.float32) * 3
    rows, masks, expected = [], [], []
    for i, sampling in enumerate(each):
        allowed = {int(t) for t in rng.choice(SIZE, size=rng.integers(1, SIZE), replace=False)}
        counts = TokenCounts(rng.integers(0, SIZE, size=rng.integers(0, 40)).tolist())
        scope = {int(t) for t in rng.integers(0, SIZE, size=30)} if i % 2 else None
        row = SamplingRow(
            sampling,
            int(rng.integers(0, 99)),
            counts,
            None if scope is None else pack(scope),
            LogitBias.of(sampling),
        )
        rows.append(row)
        masks.append(pack(allowed))
        expected.append(naive(logits[i], allowed, row, scope))
    got = sample(torch.from_numpy(logits), np.array(masks), rows)
    assert got.ok.all()
    assert got.token_ids.tolist() == expected


def test_a_draw_does_not_depend_on_the_batch():
    rng = np.random.default_rng(1)
    logits = torch.from_numpy(rng.normal(size=(9, SIZE)).astype(np.float32))
    rows = [
        SamplingRow(Sampling(temperature=1.0 + i / 9, top_p=0.9 if i % 2 else 1, seed=i), i)
        for i in range(9)
    ]
    together = sample(logits.clone(), None, rows).token_ids
    alone = [sample(logits[i : i + 1].clone(), None, [rows[i]]).token_ids[0] for i in range(9)]
    assert together.tolist() == alone


def test_the_draws_have_the_distribution_of_the_softmax():
    probabilities = np.array([0.5, 0.25, 0.125, 0.125])
    n = 8000
    logits = torch.log(torch.tensor(probabilities)).float().repeat(n, 1)
    rows = [SamplingRow(Sampling(seed=7), position) for position in range(n)]
    counts = np.bincount(sample(logits, None, rows).token_ids, minlength=4)
    chi_square = ((counts - n * probabilities) ** 2 / (n * probabilities)).sum()
    assert chi_square < 16.3  # 3 degrees of freedom, one in a thousand


def test_uniforms_fill_the_unit_interval_and_differ_by_seed_and_position():
    seeds, positions = np.divmod(np.arange(10_000, dtype=np.uint64), np.uint64(100))
    numbers = uniforms(seeds, positions)
    assert len(set(numbers.tolist())) == 10_000
    assert ((numbers >= 0) & (numbers < 1)).all()
    counts = np.histogram(numbers, bins=100, range=(0, 1))[0]
    assert ((counts - 100) ** 2 / 100).sum() < 149  # 99 degrees of freedom, one in a thousand


@pytest.mark.parametrize("top_p", [0.9, 0.999999])
def test_top_p_is_exact_where_it_needs_more_candidates_than_are_looked_at_first(top_p):
    size = 5000
    logits = torch.linspace(0, 1e-3, size)[None]
    row = SamplingRow(Sampling(top_p=top_p, seed=3), 5)
    weights = logits[0].double().exp().numpy()[::-1]
    needed = int(np.searchsorted(weights.cumsum(), top_p * weights.sum())) + 1
    assert needed > 1024
    kept = set(range(size - needed, size))
    drawn = {
        int(sample(logits.clone(), None, [row._replace(position=p)]).token_ids[0])
        for p in range(300)
    }
    assert drawn <= kept
    assert min(drawn) < size - 1024


def test_a_row_that_is_not_numbers_is_named_and_the_others_are_drawn():
    logits = torch.zeros(3, SIZE)
    logits[1] = torch.nan
    logits[2, 5] = torch.inf
    rows = [SamplingRow(Sampling(temperature=t, seed=1), 0) for t in (0.0, 1.0, 1.0)]
    got = sample(logits, None, rows)
    assert got.ok.tolist() == [True, False, False]
    assert got.token_ids[0] == 0


def test_masked_tokens_do_not_count_in_top_p():
    logits = torch.zeros(1, SIZE)
    logits[0, 0] = 50  # nearly all of the mass, and forbidden
    drawn = {
        int(
            sample(
                logits.clone(),
                pack(range(1, SIZE))[None].copy(),
                [SamplingRow(Sampling(top_p=0.9, seed=s), 0)],
            ).token_ids[0]
        )
        for s in range(200)
    }
    assert len(drawn) > 40
    assert 0 not in drawn


def test_a_bias_decides_among_what_the_mask_allows_and_nothing_else():
    biased = Sampling(temperature=0, logit_bias=((3, 100.0), (4, 50.0)))
    row = SamplingRow(biased, 0, bias=LogitBias.of(biased))
    logits = torch.zeros(1, SIZE)
    assert sample(logits.clone(), None, [row]).token_ids.tolist() == [3]
    without = pack(set(range(SIZE)) - {3})[None].copy()
    assert sample(logits.clone(), without, [row]).token_ids.tolist() == [4]
    assert LogitBias.of(Sampling()) is None
