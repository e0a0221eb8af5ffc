"""Paged KV cache: a pool of blocks, a free list, a table of blocks for each running row.

A block holds the keys and values of ``BLOCK`` consecutive tokens of one row, in every layer.
Position ``p`` of row ``r`` lives at slot ``tables[r, p // BLOCK] * BLOCK + p % BLOCK`` of each
layer's tensors (Kwon et al. 2023, PagedAttention). Which rows hold which block is plain
bookkeeping here; ``attention`` reads and writes the tensors.

With ``share_prefixes`` a full block is remembered under its tokens and all those before it. A new
row that begins with the same tokens holds the same blocks instead of computing them; nobody writes
to a full block, so nothing is ever copied. A remembered block that no row holds is idle: it counts
as free, and the one that was idle longest is forgotten when somebody needs room.

A row may be forked, to go on in two ways: the other one holds the same full blocks, and a copy of
the last one.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

BLOCK = 16  # tokens; half a block is wasted per row on average


_Prefix = tuple[int, tuple[int, ...]]  # id of the block before, and a block's own tokens
_ROOT = 0  # stands for the block before the first


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
        share_prefixes: bool = False,
    ) -> None:
        self.num_blocks = num_blocks
        self.share_prefixes = share_prefixes
        key_shapes = [(num_blocks, BLOCK, s.kv_heads, s.key_dim) for s in layers]
        value_shapes = [(num_blocks, BLOCK, s.kv_heads, s.value_dim) for s in layers]
        self.key_pool, self.keys = _allocate(key_shapes, dtype, device)
        self.value_pool, self.values = _allocate(value_shapes, dtype, device)
        self.tables: npt.NDArray[np.int32] = np.zeros(
            (max_rows, blocks_for(max_tokens)), dtype=np.int32
        )
        self._row_blocks: list[list[int] | None] = [None] * max_rows
        self._free_blocks = list(range(num_blocks - 1, -1, -1))
        self._holders = [0] * num_blocks  # rows that hold each block
        self._remembered: dict[_Prefix, int] = {}  # to block
        self._prefixes: dict[int, _Prefix] = {}  # the same the other way round
        self._ids: dict[int, int] = {}  # of a remembered block, never given twice
        self._next_id = _ROOT + 1
        self._idle: OrderedDict[int, None] = OrderedDict()  # the longest idle first
        self._row_remembered = [0] * max_rows  # blocks of each row that were looked at
        self._free_rows = list(range(max_rows - 1, -1, -1))

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no row holds."""
        return len(self._free_blocks) + len(self._idle)

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
        self._row_remembered[row] = 0
        return row

    def reuse(self, row: int, token_ids: Sequence[int]) -> int:
        """Gives an empty ``row`` the remembered blocks that ``token_ids`` begin with.

        Returns the tokens they hold; at least one token is always left to compute.
        """
        blocks = self._row_blocks[row]
        assert blocks == [], f"row {row} is not open and empty"
        if not self.share_prefixes:
            return 0
        parent = _ROOT
        for start in range(0, (len(token_ids) - 1) // BLOCK * BLOCK, BLOCK):
            prefix = (parent, tuple(token_ids[start : start + BLOCK]))
            block = self._remembered.get(prefix)
            if block is None:
                break
            self._idle.pop(block, None)
            self._holders[block] += 1
            self.tables[row, len(blocks)] = block
            blocks.append(block)
            parent = self._ids[block]
        self._row_remembered[row] = len(blocks)
        return len(blocks) * BLOCK

    def fork(self, row: int, num_computed: int) -> int | None:
        """Another row that holds the first ``num_computed`` tokens of ``row``; None without room.

        There must be an unused row.
        """
        blocks = self._row_blocks[row]
        assert blocks is not None, f"row {row} is not open"
        num_full = num_computed // BLOCK
        other = self.open_row()
        shared = blocks[:num_full]
        for block in shared:
            self._holders[block] += 1
        self._row_blocks[other] = list(shared)
        self.tables[other, :num_full] = shared
        self._row_remembered[other] = min(self._row_remembered[row], num_full)
        if not self.grow(other, num_computed):
            self.close_row(other)
            return None
        if num_computed % BLOCK:
            self._copy(blocks[num_full], int(self.tables[other, num_full]))
        return other

    def remember(self, row: int, token_ids: Sequence[int], num_computed: int) -> None:
        """Notes what the row's full blocks hold: ``token_ids``, the first ``num_computed``."""
        blocks = self._row_blocks[row]
        assert blocks is not None, f"row {row} is not open"
        if not self.share_prefixes:
            return
        for at in range(self._row_remembered[row], num_computed // BLOCK):
            parent = self._ids.get(blocks[at - 1]) if at else _ROOT
            if parent is None:  # somebody else's block is remembered for the tokens before
                return
            prefix = (parent, tuple(token_ids[at * BLOCK : (at + 1) * BLOCK]))
            if prefix in self._remembered:
                return
            block = blocks[at]
            self._remembered[prefix], self._prefixes[block] = block, prefix
            self._ids[block] = self._next_id
            self._next_id += 1
            self._row_remembered[row] = at + 1

    def grow(self, row: int, num_tokens: int) -> bool:
        """Gives ``row`` room for ``num_tokens`` in all; False, and no change, if there is none."""
        blocks = self._row_blocks[row]
        assert blocks is not None, f"row {row} is not open"
        missing = blocks_for(num_tokens) - len(blocks)
        if missing > self.num_free_blocks:
            return False
        for _ in range(missing):
            block = self._free_blocks.pop() if self._free_blocks else self._forget_one()
            self._holders[block] = 1
            self.tables[row, len(blocks)] = block
            blocks.append(block)
        return True

    def close_row(self, row: int) -> None:
        """Frees the row, and those of its blocks that no other row holds."""
        blocks = self._row_blocks[row]
        assert blocks is not None, f"row {row} is not open"
        for block in reversed(blocks):  # of a prefix, the end is forgotten first
            self._holders[block] -= 1
            if self._holders[block] == 0:
                if block in self._ids:
                    self._idle[block] = None
                else:
                    self._free_blocks.append(block)
        self.tables[row, : len(blocks)] = 0
        self._row_blocks[row] = None
        self._free_rows.append(row)

    def check_integrity(self) -> None:
        """Every block is free, idle or in as many rows as it is said to be. AssertionError."""
        held_by = [0] * self.num_blocks
        for row, blocks in enumerate(self._row_blocks):
            assert (blocks is None) == (row in self._free_rows), f"row {row}: open and free"
            held = blocks or []
            for block in held:
                held_by[block] += 1
            table = self.tables[row]
            assert table[: len(held)].tolist() == held, f"row {row}: its table differs"
            assert not table[len(held) :].any(), f"row {row}: its table has stale blocks"
        assert held_by == self._holders, "a block is held by other rows than were counted"
        unheld = [block for block, count in enumerate(held_by) if not count]
        assert sorted([*self._free_blocks, *self._idle]) == unheld, (
            "a block is lost, or held twice"
        )
        assert self._idle.keys() <= self._ids.keys(), "an idle block is of no use"
        assert not self._ids.keys() & set(self._free_blocks), "a remembered block is free"
        found = {block: prefix for prefix, block in self._remembered.items()}
        assert found == self._prefixes, "a block is remembered as something else"
        assert found.keys() == self._ids.keys(), "a remembered block has no id"

    def _copy(self, source: int, target: int) -> None:
        if self.key_pool is not None and self.value_pool is not None:
            self.key_pool[:, target] = self.key_pool[:, source]
            self.value_pool[:, target] = self.value_pool[:, source]
            return
        for layer in (*self.keys, *self.values):
            layer[target] = layer[source]

    def _forget_one(self) -> int:
        """The block that was idle longest; what follows it is never found again."""
        block, _ = self._idle.popitem(last=False)
        del self._remembered[self._prefixes.pop(block)]
        del self._ids[block]
        return block


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
