"""Paged attention on a CPU, compiled by numba: reads the blocks where they are.

A gather would copy a row's whole cache for every new token. Here each (token, key head) walks its
row's block table: scores of the query heads that share the key head, their softmax, the weighted
sum of values. ``attention`` has the slow twin that tests compare with, for other devices.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float32]
_Ints = npt.NDArray[Any]


# Sums may be reordered (for SIMD); NaN and infinity keep their meaning, a NaN row must stay one.
_FAST = {"reassoc", "contract", "arcp", "nsz"}
_LOG2E = 1.4426950408889634


# Multiply-adds from which waking a second thread costs less than it saves.
_PARALLEL_WORK = 500_000


def paged_attention(
    query: _Floats,
    keys: _Floats,
    values: _Floats,
    tables: _Ints,
    rows: _Ints,
    lengths: _Ints,
    scale: float,
    out: _Floats,
) -> None:
    """Attention of each token over the first ``lengths[t]`` positions of row ``rows[t]``.

    ``query`` float32[tokens, heads, dim]; ``keys`` float32[blocks, block, kv_heads, dim];
    ``values`` likewise; ``tables`` int32[rows, blocks of a row]; ``out`` [tokens, heads, dim].
    """
    work = int(lengths.sum()) * query.shape[1] * query.shape[2]
    attend = _attend_parallel if work > _PARALLEL_WORK else _attend_serial
    attend(query, keys, values, tables, rows, lengths, np.float32(scale * _LOG2E), out)


@numba.njit(nogil=True, cache=True, fastmath=_FAST, parallel=True)
def _attend_parallel(
    query: _Floats,
    keys: _Floats,
    values: _Floats,
    tables: _Ints,
    rows: _Ints,
    lengths: _Ints,
    scale: float,
    out: _Floats,
) -> None:
    kv_heads = keys.shape[2]
    for job in numba.prange(query.shape[0] * kv_heads):
        token, kv_head = job // kv_heads, job % kv_heads
        table, length = tables[rows[token]], lengths[token]
        attend_one(query[token], keys, values, table, length, kv_head, scale, out[token])


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _attend_serial(
    query: _Floats,
    keys: _Floats,
    values: _Floats,
    tables: _Ints,
    rows: _Ints,
    lengths: _Ints,
    scale: float,
    out: _Floats,
) -> None:
    for token in range(query.shape[0]):
        table, length = tables[rows[token]], lengths[token]
        for kv_head in range(keys.shape[2]):
            attend_one(query[token], keys, values, table, length, kv_head, scale, out[token])


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def attend_one(
    query: _Floats,
    keys: _Floats,
    values: _Floats,
    table: _Ints,
    length: int,
    kv_head: int,
    scale: float,
    out: _Floats,
) -> None:
    """The query heads of one key head; ``query`` and ``out`` [heads, dim]."""
    group = query.shape[0] // keys.shape[2]
    scores = np.empty((group, length), dtype=np.float32)
    _score(query, keys, table, kv_head, scale, scores)
    for g in range(group):
        _softmax2(scores[g])
    _weigh(scores, values, table, kv_head, out)


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _score(
    query: _Floats, keys: _Floats, table: _Ints, kv_head: int, scale: float, scores: _Floats
) -> None:
    """``scores`` [group, length]: products of the queries with the keys; ``scale`` has log2(e)."""
    group, length = scores.shape
    block, dim = keys.shape[1], keys.shape[3]
    first = kv_head * group
    for start in range(0, length, block):
        page = table[start // block]
        for at in range(min(block, length - start)):
            for g in range(group):
                total = np.float32(0)
                for d in range(dim):
                    total += query[first + g, d] * keys[page, at, kv_head, d]
                scores[g, start + at] = total * scale


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _weigh(weights: _Floats, values: _Floats, table: _Ints, kv_head: int, out: _Floats) -> None:
    """The group's rows of ``out`` [heads, dim]: sums of values by ``weights`` [group, length]."""
    group, length = weights.shape
    block, dim = values.shape[1], values.shape[3]
    first = kv_head * group
    out[first : first + group] = 0
    whole = length - length % 4
    for start in range(0, whole, 4):  # four positions a pass: a quarter of the loads of out
        page, at = table[start // block], start % block
        for g in range(group):
            w0, w1 = weights[g, start], weights[g, start + 1]
            w2, w3 = weights[g, start + 2], weights[g, start + 3]
            for d in range(dim):
                out[first + g, d] += (
                    w0 * values[page, at, kv_head, d]
                    + w1 * values[page, at + 1, kv_head, d]
                    + w2 * values[page, at + 2, kv_head, d]
                    + w3 * values[page, at + 3, kv_head, d]
                )
    for position in range(whole, length):
        page, at = table[position // block], position % block
        for g in range(group):
            for d in range(dim):
                out[first + g, d] += weights[g, position] * values[page, at, kv_head, d]


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _softmax2(x: _Floats) -> None:
    """2**x over its sum, in place.

    2**x by splitting off the integer part, a polynomial for the rest (|error| < 3e-7, Cephes
    exp2f), and the integer written into the exponent: no call, so the loop is SIMD.
    """
    largest = x[0]
    for i in range(1, len(x)):
        largest = max(largest, x[i])
    bits = np.empty(len(x), dtype=np.int32)
    powers = bits.view(np.float32)
    total = np.float32(0)
    for i in range(len(x)):
        y = max(x[i] - largest, np.float32(-126))
        whole = np.int32(y - np.float32(0.5))  # y <= 0: rounds to the nearest
        f = y - np.float32(whole)
        p = np.float32(1.535336188319500e-4)
        p = p * f + np.float32(1.339887440266574e-3)
        p = p * f + np.float32(9.618437357674640e-3)
        p = p * f + np.float32(5.550332471162809e-2)
        p = p * f + np.float32(2.402264791363012e-1)
        p = p * f + np.float32(6.931472028550421e-1)
        p = p * f + np.float32(1)
        bits[i] = (whole + np.int32(127)) << np.int32(23)
        x[i] = p * powers[i]
        total += x[i]
    factor = np.float32(1) / total
    for i in range(len(x)):
        x[i] *= factor
