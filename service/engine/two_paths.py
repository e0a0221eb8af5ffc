"""A Llama on a CPU with its weights twice: packed for few positions, by the library for many.

A step of few positions waits for its weights, and 4 bits are a quarter of 16. A step of many, the
chunks of prompts above all, computes instead, and there the processor's matrix instructions win,
which want bfloat16 (float32 where it has none). Both paths read and write the same cache.

The two round differently. A prompt always takes the same path, however much of it the cache holds,
so a request that is alone takes the same paths each time. In company they depend on the others:
where that must not be, take one alone (``weights`` int4, or reproducible mode).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from service.engine.cpu_llama import CpuLlama
from service.engine.kv_cache import BLOCK, KVCache
from service.engine.llama import LlamaModel
from service.engine.model import Row

# Positions of a step that may be the first for the library.
_SIZES = (2, 4, 8, 16, 32, 64)
_REPEATS = 3


class TwoPathLlama:
    """``Model``: ``wide`` for steps with a prompt or ``crossover`` positions, else ``packed``.

    The two were made of one model; ``threads`` are those that ``wide`` computes with.
    """

    def __init__(
        self, packed: CpuLlama, wide: LlamaModel, threads: int, crossover: int = _SIZES[-1]
    ) -> None:
        self.packed = packed
        self.wide = wide
        self.crossover = crossover
        self._threads = threads
        self.layers = packed.layers
        self.logit_size = packed.logit_size
        self.max_context = packed.max_context
        self.dtype = packed.dtype
        self.device = packed.device

    @property
    def draft_positions(self) -> int:
        """Drafts do not change the path of a step."""
        return min(self.crossover - 1, self.packed.draft_positions)

    def forward(self, rows: Sequence[Row], kv: KVCache) -> torch.Tensor:
        """See ``Model.forward``."""
        positions = sum(len(row.token_ids) for row in rows)
        if positions >= self.crossover or any(row.is_prompt for row in rows):
            return self.forward_wide(rows, kv)
        return self.packed.forward(rows, kv)

    def forward_wide(self, rows: Sequence[Row], kv: KVCache) -> torch.Tensor:
        """By the library. Around it torch has one thread: what else it does here is small."""
        before = torch.get_num_threads()
        torch.set_num_threads(self._threads)
        try:
            return self.wide.forward(rows, kv)
        finally:
            torch.set_num_threads(before)

    def calibrate(self) -> None:
        """Sets ``crossover`` by measuring both paths on this machine (about a second)."""
        most = _SIZES[-1]
        kv = KVCache(
            self.layers,
            num_blocks=most,
            max_rows=most,
            max_tokens=BLOCK,
            dtype=self.dtype,
            device=self.device,
        )
        rows = [Row(kv.open_row(), 0, (0,), 1) for _ in range(most)]
        for row in rows:
            kv.grow(row.kv_row, 1)
        self.crossover = most
        for size in _SIZES:
            some = rows[:size]
            if _seconds(self.forward_wide, some, kv) < _seconds(self.packed.forward, some, kv):
                self.crossover = size
                return


def _seconds(forward: Callable[..., object], rows: Sequence[Row], kv: KVCache) -> float:
    """The least of a few: whatever else the machine does only ever adds."""
    times = []
    for _ in range(_REPEATS + 1):  # the first call prepares
        started = time.perf_counter()
        forward(rows, kv)
        times.append(time.perf_counter() - started)
    return min(times[1:])
