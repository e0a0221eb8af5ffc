"""Attention of a batch of rows over the paged cache.

The batch is flat: the new tokens of all rows one after the other, each attending to its own row's
cache up to itself. A ``Plan`` holds what is the same in every layer (where to write, what to read,
what to hide) and is built once a step.

    rows       r0 feeds 1 token at 7        r1 feeds 3 tokens at 4        r2 feeds 1 token at 2
    flat       t0                           t1 t2 t3                      t4
    reads      r0[0..7]                     r1[0..4] r1[0..5] r1[0..6]    r2[0..2]

Long rows (prompts) go alone, at their own length. The tokens of short rows go together: on a CPU
through a kernel that reads the blocks in place (``cpu_attention``), elsewhere rows of one token
through one padded call. In reproducible mode nothing is padded, so that who shares the step cannot
change the rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import scaled_dot_product_attention

from service.engine.cpu_attention import paged_attention
from service.engine.kv_cache import BLOCK, KVCache

# From this many new tokens on, a row's attention is worth a matrix product of its own.
_LONG = 32


class Span(NamedTuple):
    """One row's share of a batch: ``num_tokens`` new ones from ``position`` on."""

    kv_row: int
    position: int
    num_tokens: int


class _Group(NamedTuple):
    """Rows that share one attention call.

    ``tokens``: int64[n * t] flat indices of their new tokens; ``slots``: int64[n, longest] cache
    slots to read (padding repeats a row's first slot); ``mask``: bool[n, 1, t, longest] what is
    visible, None where all is.
    """

    tokens: torch.Tensor
    slots: torch.Tensor
    mask: torch.Tensor | None


class _Short(NamedTuple):
    """Tokens for the CPU kernel: their flat indices (None: all), cache rows and lengths."""

    tokens: torch.Tensor | None
    rows: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]


class Plan:
    """What the layers of one step share. ``positions``: int64[tokens], on the device."""

    def __init__(self, spans: Sequence[Span], kv: KVCache, *, row_by_row: bool) -> None:
        self.kv = kv
        self.device = kv.keys[0].device
        counts = np.array([s.num_tokens for s in spans])
        starts = np.cumsum(counts) - counts
        rows = np.repeat([s.kv_row for s in spans], counts)
        positions = np.arange(len(rows)) + np.repeat([s.position for s in spans] - starts, counts)
        self.positions = self._upload(positions)
        self._write = self._upload(_slots(kv, rows, positions))
        by_kernel = kv.keys[0].device.type == "cpu" and kv.keys[0].dtype == torch.float32
        short: list[tuple[Span, int]] = []
        self._groups: list[_Group] = []
        for span, start in zip(spans, starts.tolist(), strict=True):
            if span.num_tokens < _LONG if by_kernel else span.num_tokens == 1 and not row_by_row:
                short.append((span, start))
            else:
                self._groups.append(self._group([(span, start)]))
        self._short: _Short | None = None
        if short and by_kernel:
            is_short = np.repeat(counts < _LONG, counts)
            tokens = self._upload(np.flatnonzero(is_short)) if self._groups else None
            self._short = _Short(tokens, rows[is_short], positions[is_short] + 1)
        elif short:
            self._groups.append(self._group(short))

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float,
    ) -> torch.Tensor:
        """Stores the new keys and values, then attends.

        ``query`` [tokens, heads, key_dim]; ``key``, ``value`` [tokens, kv_heads, dim]; gives
        [tokens, heads, value_dim].
        """
        cache_k, cache_v = self.kv.keys[layer], self.kv.values[layer]
        keys, values = cache_k.flatten(0, 1), cache_v.flatten(0, 1)
        keys[self._write] = key.to(keys.dtype)
        values[self._write] = value.to(values.dtype)
        wide = query.to(keys.dtype)
        if self._short is not None and self._short.tokens is None:
            return self._attend_short(self._short, wide, layer, scale).to(query.dtype)
        if len(self._groups) == 1 and self._groups[0].tokens.numel() == len(query):
            return _attend_group(self._groups[0], wide, keys, values, scale).to(query.dtype)
        out = query.new_empty((*query.shape[:-1], values.shape[-1]))
        if self._short is not None:
            tokens = self._short.tokens
            out[tokens] = self._attend_short(self._short, wide[tokens], layer, scale).to(out.dtype)
        for group in self._groups:
            attended = _attend_group(group, wide[group.tokens], keys, values, scale)
            out[group.tokens] = attended.to(out.dtype)
        return out

    def _attend_short(
        self, short: _Short, query: torch.Tensor, layer: int, scale: float
    ) -> torch.Tensor:
        values = self.kv.values[layer]
        out = query.new_empty((*query.shape[:-1], values.shape[-1]))
        paged_attention(
            query.contiguous().numpy(),
            self.kv.keys[layer].numpy(),
            values.numpy(),
            self.kv.tables,
            short.rows,
            short.lengths,
            scale,
            out.numpy(),
        )
        return out

    def _group(self, members: list[tuple[Span, int]]) -> _Group:
        num_tokens = members[0][0].num_tokens
        ends = np.array([s.position + s.num_tokens for s, _ in members])
        columns = np.arange(ends.max())
        rows = np.array([s.kv_row for s, _ in members])
        read = np.where(columns < ends[:, None], columns, 0)
        slots = _slots(self.kv, rows[:, None], read)
        tokens = np.concatenate([np.arange(start, start + num_tokens) for _, start in members])
        mask: torch.Tensor | None = None
        if num_tokens > 1 or (ends != ends[0]).any():
            last_visible = ends[:, None] - num_tokens + np.arange(num_tokens)
            mask = self._upload(columns <= last_visible[:, None, :, None])
        return _Group(self._upload(tokens), self._upload(slots), mask)

    def _upload(self, array: npt.NDArray[np.generic]) -> torch.Tensor:
        return torch.from_numpy(array).to(self.device, non_blocking=True)


def _slots(
    kv: KVCache, rows: npt.NDArray[np.int64], positions: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    slots: npt.NDArray[np.int64] = kv.tables[rows, positions // BLOCK].astype(np.int64)
    return slots * BLOCK + positions % BLOCK


def _attend_group(
    group: _Group, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float
) -> torch.Tensor:
    num_rows = len(group.slots)
    key, value = keys[group.slots].transpose(1, 2), values[group.slots].transpose(1, 2)
    heads, kv_heads = query.shape[1], key.shape[1]
    # [n * t, heads, d] -> [n, heads, t, d]
    query = query.view(num_rows, -1, heads, query.shape[-1]).transpose(1, 2)
    if query.shape[2] == 1:
        # The query heads that share a key head, laid out as its queries: nothing is repeated.
        query = query.reshape(num_rows, kv_heads, heads // kv_heads, -1)
        out = scaled_dot_product_attention(query, key, value, attn_mask=group.mask, scale=scale)
        return out.reshape(num_rows, heads, -1)
    out = scaled_dot_product_attention(
        query, key, value, attn_mask=group.mask, scale=scale, enable_gqa=heads != kv_heads
    )
    return out.transpose(1, 2).flatten(0, 1)
