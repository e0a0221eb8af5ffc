"""Paged KV cache: a pool of blocks, a free list, a table of blocks for each running row.

A block holds the keys and values of ``BLOCK`` consecutive tokens of one row, in every layer.
Position ``p`` of row ``r`` lives at slot ``tables[r, p // BLOCK] * BLOCK + p % BLOCK`` of each
layer's tensors (Kwon et al. 2023, PagedAttention). Which row owns which block is plain
bookkeeping here; ``attention`` reads and writes the tensors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

BLOCK = 16  # tokens; half a block is wasted per row on average


class LayerShape(NamedTuple):
    """Sizes of one layer's cache for one token."""

    kv_heads: int
    key_dim: int
    value_dim: int


class KVCache:
    """Blocks for ``max_rows`` rows of at most ``max_tokens`` tokens each.

    ``keys[i]`` is layer ``i``'s [blocks, BLOCK, kv_heads, key_dim]; ``values`` likewise. Where all
    layers are alike they are views of ``key_pool`` and ``value_pool`` [layers, ...], else None.
    ``tables`` is int32[max_rows, blocks per row]; entries beyond a row's blocks are 0.
    """

    def __init__(
        self,
        layers: Sequence[LayerShape],
        *,
        num_blocks: int,
        max_rows: int,
        max_tokens: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.num_blocks = num_blocks
        key_shapes = [(num_blocks, BLOCK, s.kv_heads, s.key_dim) for s in layers]
        value_shapes = [(num_blocks, BLOCK, s.kv_heads, s.value_dim) for s in layers]
        self.key_pool, self.keys = _allocate(key_shapes, dtype, device)
        self.value_pool, self.values = _allocate(value_shapes, dtype, device)
        self.tables: npt.NDArray[np.int32] = np.zeros(
            (max_rows, blocks_for(max_tokens)), dtype=np.int32
        )
        self._row_blocks: list[list[int] | None] = [None] * max_rows
        self._free_blocks = list(range(num_blocks - 1, -1, -1))
        self._free_rows = list(range(max_rows - 1, -1, -1))

    @property
    def num_free_blocks(self) -> int:
        return len(self._free_blocks)

    @property
    def num_free_rows(self) -> int:
        return len(self._free_rows)

    @property
    def max_row_tokens(self) -> int:
        """The most tokens that one row can ever hold."""
        return min(self.num_blocks, int(self.tables.shape[1])) * BLOCK

    def open_row(self) -> int:
        """An unused row, without blocks. There must be one."""
        row = self._free_rows.pop()
        self._row_blocks[row] = []
        return row

    def grow(self, row: int, num_tokens: int) -> bool:
        """Gives ``row`` room for ``num_tokens`` in all; False, and no change, if there is none."""
        blocks = self._row_blocks[row]
        assert blocks is not None, f"row {row} is not open"
        missing = blocks_for(num_tokens) - len(blocks)
        if missing > len(self._free_blocks):
            return False
        for _ in range(missing):
            block = self._free_blocks.pop()
            self.tables[row, len(blocks)] = block
            blocks.append(block)
        return True

    def close_row(self, row: int) -> None:
        """Frees the row and its blocks."""
        blocks = self._row_blocks[row]
        assert blocks is not None, f"row {row} is not open"
        self._free_blocks.extend(reversed(blocks))
        self.tables[row, : len(blocks)] = 0
        self._row_blocks[row] = None
        self._free_rows.append(row)

    def check_integrity(self) -> None:
        """Every block is free or in exactly one row, and tables say the same. AssertionError."""
        seen = sorted(self._free_blocks)
        for row, blocks in enumerate(self._row_blocks):
            assert (blocks is None) == (row in self._free_rows), f"row {row}: open and free"
            held = blocks or []
            seen.extend(held)
            table = self.tables[row]
            assert table[: len(held)].tolist() == held, f"row {row}: its table differs"
            assert not table[len(held) :].any(), f"row {row}: its table has stale blocks"
        assert sorted(seen) == list(range(self.num_blocks)), "a block is lost or held twice"


def blocks_for(num_tokens: int) -> int:
    """Blocks that hold ``num_tokens``."""
    return -(-num_tokens // BLOCK)


def block_bytes(layers: Sequence[LayerShape], dtype: torch.dtype) -> int:
    """Memory of one block over all layers."""
    values = sum(s.kv_heads * (s.key_dim + s.value_dim) for s in layers)
    return values * BLOCK * dtype.itemsize


def _allocate(
    shapes: Sequence[tuple[int, ...]], dtype: torch.dtype, device: torch.device
) -> tuple[torch.Tensor | None, list[torch.Tensor]]:
    if len(set(shapes)) > 1:
        return None, [_lazy_zeros(shape, dtype, device) for shape in shapes]
    pool = _lazy_zeros((len(shapes), *shapes[0]), dtype, device)
    return pool, list(pool.unbind())


def _lazy_zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Zeros; on a CPU the pages are taken from the system only when first written.

    Zeros and not garbage: a padded gather reads slots that nobody wrote, and NaN times a zero
    attention weight is NaN.
    """
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    raw = np.zeros(math.prod(shape) * dtype.itemsize, dtype=np.uint8)
    return torch.from_numpy(raw).view(dtype).view(shape)
