"""Weights of 4 and 8 bits.

Reading the weights is most of a step of few rows, so they are kept small: in groups of 32 inputs,
4-bit codes with a scale and a lowest value each (the layout's idea is llama.cpp's Q4_1), or 8-bit
codes with a scale (Q8_0). Activations stay float32. Outputs stand side by side in blocks of
``LANES``, so that products (``tiles``) compute many at once and no sum is ever split:

    an output of a row = the same additions in the same order, whoever else is in the batch

which makes every answer independent, bit for bit, of what shares its step (decision 14 for free).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import torch

GROUP = 32  # inputs that share a scale
LANES = 64  # outputs computed together

_Floats = npt.NDArray[np.float32]
_Bytes = npt.NDArray[Any]


class Packed(NamedTuple):
    """``bits`` 4 or 8 a weight; [..., outputs, inputs] cut into blocks, the last one padded.

    ``codes``: 4 bits uint8[..., blocks, groups, GROUP / 2, LANES], inputs j and j + 16 of a group
    in one byte, the lower half first; 8 bits int8[..., blocks, groups, GROUP, LANES].
    ``scales``, ``lows``: float32[..., blocks, groups, LANES]; a weight is scale * code + low, and
    8-bit codes have no ``lows`` (groups 0).
    """

    codes: _Bytes
    scales: _Floats
    lows: _Floats


def can_pack(inputs: int) -> bool:
    """Whether rows of so many inputs fall into groups."""
    return inputs % GROUP == 0


def pack4(weight: torch.Tensor) -> tuple[Packed, float]:
    """[outputs, inputs] in 4 bits, and the largest error over the largest value of its group."""
    groups = _groups(weight)
    lows, highs = groups.amin(-1), groups.amax(-1)
    scales = (highs - lows) / 15
    codes = _codes(groups - lows[..., None], scales).clamp_(0, 15)
    error = _error(groups, codes * scales[..., None] + lows[..., None])
    halves = codes.to(torch.uint8).reshape(*codes.shape[:-1], 2, GROUP // 2)
    joined = halves[..., 0, :] | halves[..., 1, :] << 4
    return Packed(_blocks(joined), _blocks(scales), _blocks(lows)), error


def pack8(weight: torch.Tensor) -> tuple[Packed, float]:
    """[outputs, inputs] in 8 bits, and the largest error over the largest value of its group."""
    groups = _groups(weight)
    scales = groups.abs().amax(-1) / 127
    codes = _codes(groups, scales)
    error = _error(groups, codes * scales[..., None])
    none = np.empty((-(-len(weight) // LANES), 0, LANES), dtype=np.float32)
    return Packed(_blocks(codes.to(torch.int8)), _blocks(scales), none), error


def stack(layers: list[Packed]) -> Packed:
    """The same matrix of every layer, one after the other along a new first axis."""
    return Packed(*(np.stack(parts) for parts in zip(*layers, strict=True)))


def _groups(weight: torch.Tensor) -> torch.Tensor:
    return weight.detach().float().reshape(len(weight), -1, GROUP)


def _codes(distances: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Rounded to steps; in a group without a step everything is 0."""
    steps = torch.where(scales > 0, scales, 1)[..., None]
    return torch.round(distances / steps)


def _error(groups: torch.Tensor, unpacked: torch.Tensor) -> float:
    largest = groups.abs().amax(-1).clamp_(min=torch.finfo(torch.float32).tiny)
    return float(((unpacked - groups).abs().amax(-1) / largest).max())


def _blocks(parts: torch.Tensor) -> Any:
    """[outputs, groups, ...] to [blocks, groups, ..., LANES]; padding is 0."""
    missing = -len(parts) % LANES
    if missing:
        parts = torch.cat([parts, parts.new_zeros((missing, *parts.shape[1:]))])
    blocks = parts.reshape(-1, LANES, *parts.shape[1:]).movedim(1, -1)
    return blocks.contiguous().numpy()


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def group_sums(x: _Floats, sums: _Floats) -> None:
    """``sums`` [rows, groups] of ``x`` [rows, inputs]: what lowest values are multiplied by."""
    for row in range(x.shape[0]):
        for group in range(x.shape[1] // GROUP):
            total = np.float32(0)
            for k in range(GROUP):
                total += x[row, group * GROUP + k]
            sums[row, group] = total
