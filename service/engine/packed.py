"""Weights of 4 and 8 bits, and products of float32 rows with them, compiled by numba.

Reading the weights is most of a step of few rows, so they are kept small: in groups of 32 inputs,
4-bit codes with a scale and a lowest value each (the layout's idea is llama.cpp's Q4_1), or 8-bit
codes with a scale (Q8_0). Activations stay float32. Outputs stand side by side in blocks of
``LANES``, so that one loop over a block is SIMD and no sum is ever split:

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

# A product and a sum may become one instruction. Nothing else: the order of sums is a promise.
_EXACT = {"contract"}


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


@numba.njit(nogil=True, cache=True, fastmath=_EXACT)
def product4(
    x: _Floats,
    sums: _Floats,
    codes: _Bytes,
    scales: _Floats,
    lows: _Floats,
    scratch: _Floats,
    out: _Floats,
) -> None:
    """``out`` [rows, LANES]: ``x`` [rows, inputs] times one block of 4-bit weights.

    ``sums`` [rows, groups] as ``group_sums`` makes them; ``scratch`` float32[GROUP + 2, LANES].
    """
    out[:] = 0
    for group in range(codes.shape[0]):
        for j in range(GROUP // 2):
            for lane in range(LANES):
                byte = codes[group, j, lane]
                scratch[j, lane] = np.float32(np.int32(byte & 15))
                scratch[j + GROUP // 2, lane] = np.float32(np.int32(byte >> 4))
        _add_group(x, group, scratch, scales[group], out)
        for row in range(x.shape[0]):
            total = sums[row, group]
            for lane in range(LANES):
                out[row, lane] += total * lows[group, lane]


@numba.njit(nogil=True, cache=True, fastmath=_EXACT)
def product8(x: _Floats, codes: _Bytes, scales: _Floats, scratch: _Floats, out: _Floats) -> None:
    """``out`` [rows, LANES]: ``x`` [rows, inputs] times one block of 8-bit weights.

    ``scratch`` float32[GROUP + 2, LANES].
    """
    out[:] = 0
    for group in range(codes.shape[0]):
        for k in range(GROUP):
            for lane in range(LANES):
                scratch[k, lane] = np.float32(codes[group, k, lane])
        _add_group(x, group, scratch, scales[group], out)


@numba.njit(nogil=True, cache=True, fastmath=_EXACT)
def _add_group(x: _Floats, group: int, codes: _Floats, scales: _Floats, out: _Floats) -> None:
    """``out`` [rows, LANES] plus one group's products; ``codes`` are numbers by now.

    Two rows at a time: each loaded code serves both. The additions of a row are the same either
    way. The last two rows of ``codes`` are for the sums.
    """
    rows, first = x.shape[0], group * GROUP
    one, two = codes[GROUP], codes[GROUP + 1]
    for row in range(0, rows - 1, 2):
        _sum_two(x[row], x[row + 1], first, codes, one, two)
        for lane in range(LANES):
            out[row, lane] += scales[lane] * one[lane]
            out[row + 1, lane] += scales[lane] * two[lane]
    if rows % 2:
        _sum_one(x[rows - 1], first, codes, one)
        for lane in range(LANES):
            out[rows - 1, lane] += scales[lane] * one[lane]


@numba.njit(nogil=True, cache=True, fastmath=_EXACT)
def _sum_one(x: _Floats, first: int, codes: _Floats, total: _Floats) -> None:
    """``total`` [LANES]: one group's sum over its inputs, in their order."""
    total[:] = 0
    for k in range(0, GROUP, 4):  # four inputs a pass: a quarter of the loads of ``total``
        at = first + k
        x0, x1, x2, x3 = x[at], x[at + 1], x[at + 2], x[at + 3]
        for lane in range(LANES):
            t = total[lane]
            t += x0 * codes[k, lane]
            t += x1 * codes[k + 1, lane]
            t += x2 * codes[k + 2, lane]
            t += x3 * codes[k + 3, lane]
            total[lane] = t


@numba.njit(nogil=True, cache=True, fastmath=_EXACT)
def _sum_two(
    x: _Floats, y: _Floats, first: int, codes: _Floats, total_x: _Floats, total_y: _Floats
) -> None:
    """``_sum_one`` of two rows."""
    total_x[:] = 0
    total_y[:] = 0
    for k in range(0, GROUP, 4):
        at = first + k
        x0, x1, x2, x3 = x[at], x[at + 1], x[at + 2], x[at + 3]
        y0, y1, y2, y3 = y[at], y[at + 1], y[at + 2], y[at + 3]
        for lane in range(LANES):
            t, u = total_x[lane], total_y[lane]
            c0, c1, c2, c3 = (
                codes[k, lane],
                codes[k + 1, lane],
                codes[k + 2, lane],
                codes[k + 3, lane],
            )
            t += x0 * c0
            u += y0 * c0
            t += x1 * c1
            u += y1 * c1
            t += x2 * c2
            u += y2 * c2
            t += x3 * c3
            u += y3 * c3
            total_x[lane] = t
            total_y[lane] = u
