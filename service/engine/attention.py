"""Attention of a batch of rows over the paged cache.

The batch is flat: the new tokens of all rows one after the other, each attending to its own row's
cache up to itself. A ``Plan`` holds what is the same in every layer (where to write, what to read,
what to hide) and is built once a step.

    rows       r0 feeds 1 token at 7        r1 feeds 3 tokens at 4        r2 feeds 1 token at 2
    flat       t0                           t1 t2 t3                      t4
    reads      r0[0..7]                     r1[0..4] r1[0..5] r1[0..6]    r2[0..2]

Rows that feed one token go through one padded call together; a longer row goes alone, at its own
length. In reproducible mode every row goes alone, so that padding cannot change its rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import scaled_dot_product_attention

from service.engine.kv_cache import BLOCK, KVCache


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


class Plan:
    """What the layers of one step share. ``positions``: int64[tokens], on the device."""

    def __init__(self, spans: Sequence[Span], kv: KVCache, *, row_by_row: bool) -> None:
        self.kv = kv
        self.device = kv.keys[0].device
        positions = np.concatenate(
            [np.arange(s.position, s.position + s.num_tokens) for s in spans]
        )
        rows = np.repeat([s.kv_row for s in spans], [s.num_tokens for s in spans])
        self.positions = self._upload(positions)
        self._write = self._upload(_slots(kv, rows, positions))
        starts = np.cumsum([0, *(s.num_tokens for s in spans)])
        together: list[tuple[Span, int]] = []
        self._groups: list[_Group] = []
        for span, start in zip(spans, starts.tolist(), strict=False):
            if span.num_tokens == 1 and not row_by_row:
                together.append((span, start))
            else:
                self._groups.append(self._group([(span, start)]))
        if together:
            self._groups.append(self._group(together))

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
        keys, values = self.kv.keys[layer].flatten(0, 1), self.kv.values[layer].flatten(0, 1)
        keys[self._write] = key
        values[self._write] = value
        if len(self._groups) == 1 and self._groups[0].tokens.numel() == len(query):
            return _attend_group(self._groups[0], query, keys, values, scale)
        out = query.new_empty((*query.shape[:-1], values.shape[-1]))
        for group in self._groups:
            out[group.tokens] = _attend_group(group, query[group.tokens], keys, values, scale)
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
