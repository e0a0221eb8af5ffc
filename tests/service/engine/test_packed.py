"""Weights of 4 and 8 bits: what packing keeps, and products with them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from service.engine.packed import (
    GROUP,
    LANES,
    Packed,
    group_sums,
    pack4,
    pack8,
)
from service.engine.tiles import product
from tests.service.engine.unpack import unpack


def random_weight(outputs, inputs, seed=0):
    return torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(seed))


def multiply(x, packed):
    """All blocks' products, side by side."""
    parts = []
    for codes, scales, lows in zip(*packed, strict=True):
        out = np.empty((len(x), LANES), dtype=np.float32)
        sums = np.empty((len(x), len(codes)), dtype=np.float32)
        group_sums(x, sums)
        product(x, sums, codes, scales, lows, out)
        parts.append(out)
    return np.concatenate(parts, axis=1)


@pytest.mark.parametrize(("pack", "steps"), [(pack4, 15), (pack8, 254)])
@pytest.mark.parametrize("outputs", [64, 70, 200])
def test_a_packed_weight_is_off_by_half_a_step_at_most(pack, steps, outputs):
    weight = random_weight(outputs, 96)
    packed, error = pack(weight)
    groups = weight.numpy().reshape(outputs, 3, GROUP)
    off = np.abs(unpack(packed, outputs) - weight.numpy()).reshape(groups.shape)
    if pack is pack4:
        span = groups.max(-1) - groups.min(-1)
    else:
        span = 2 * np.abs(groups).max(-1)
    assert (off <= span[..., None] / steps / 2 * 1.001 + 1e-6).all()
    assert error == pytest.approx((off.max(-1) / np.abs(groups).max(-1)).max(), rel=1e-4)


def test_groups_of_one_value_are_kept():
    weight = torch.tensor([0.0, -3.5, 2.0]).repeat_interleave(GROUP)[None]
    packed, error = pack4(weight)
    assert error == 0
    assert (unpack(packed, 1) == weight.numpy()).all()
    packed, error = pack8(weight)
    assert error < 1e-6


def test_weights_that_had_four_bits_come_back_though_they_were_rounded_to_bfloat16():
    codes = np.random.default_rng(1).integers(0, 16, size=(64, 2, GROUP))
    codes[..., 0], codes[..., 1] = 0, 15
    scale = np.random.default_rng(2).uniform(0.01, 0.1, size=(64, 2, 1))
    weight = torch.from_numpy((codes - 7.3) * scale).float().reshape(64, 2 * GROUP)
    rounded = weight.bfloat16()
    packed, error = pack4(rounded)
    assert error <= 2**-7
    found = np.concatenate([packed.codes & 15, packed.codes >> 4], axis=2)[0]
    assert (found.transpose(2, 0, 1) == codes).all()
    assert pack4(random_weight(64, 64))[1] > 2**-6  # any other weights are not kept


@pytest.mark.parametrize("pack", [pack4, pack8])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 6, 7, 20])
def test_products_are_those_of_the_unpacked_weights(pack, rows):
    packed, _ = pack(random_weight(130, 160))
    x = random_weight(rows, 160, seed=1).numpy()
    got = multiply(x, packed)
    np.testing.assert_allclose(got[:, :130], x @ unpack(packed, 130).T, rtol=1e-4, atol=1e-4)
    assert (got[:, 130:] == 0).all()


@pytest.mark.parametrize("pack", [pack4, pack8])
def test_the_other_rows_of_a_batch_do_not_change_a_bit(pack):
    packed: Packed = pack(random_weight(64, 96))[0]
    x = random_weight(20, 96, seed=1).numpy()  # tiles of every size, and several
    alone = np.concatenate([multiply(row[None], packed) for row in x])
    for rows in range(1, 21):
        assert (multiply(x[:rows], packed) == alone[:rows]).all()
