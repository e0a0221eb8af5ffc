"""The model as the decoder sees it: rows of token ids in, logits of the wanted positions out.

A prefill chunk, a decode step, a forced run and a check of drafted tokens are the same ``Row``;
they differ in length only. Two implementations: ``llama`` (our own forward for that
family) and ``adapter`` (any other causal LM of transformers). ``load`` chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch

from service.engine.kv_cache import KVCache, LayerShape


class Row(NamedTuple):
    """Token ids to feed to one row of the cache, from ``position`` on.

    ``num_logits`` logits are wanted (0: only the cache is filled): those after the last tokens, or
    after the ones at ``offsets``. ``is_prompt``: the tokens belong to a prompt, or begin with the
    rest of one.
    """

    kv_row: int
    position: int
    token_ids: Sequence[int]
    num_logits: int
    is_prompt: bool = False
    offsets: tuple[int, ...] = ()  # ascending

    @property
    def wanted(self) -> Sequence[int]:
        """Offsets of the tokens after which logits are wanted."""
        count = len(self.token_ids)
        return self.offsets or range(count - self.num_logits, count)


class Model(Protocol):
    """A causal language model over our KV cache."""

    @property
    def layers(self) -> Sequence[LayerShape]:
        """What each layer stores for one token."""
        ...

    @property
    def logit_size(self) -> int:
        """Width of the logits."""
        ...

    @property
    def max_context(self) -> int:
        """The longest sequence the model was made for, in tokens."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """What it computes with, and what its cache holds."""
        ...

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        ...

    @property
    def draft_positions(self) -> int:
        """The most positions of a step with drafts (see ``drafting``).

        Beyond them its numbers would be computed in another way than without; 0 where any other
        number of positions may round otherwise, and must not.
        """
        ...

    def forward(self, rows: Sequence[Row], kv: KVCache) -> torch.Tensor:
        """float32[sum of num_logits, logit_size], in the order of ``rows``.

        The cache already has the positions before ``row.position`` and room for the new ones,
        which it holds afterwards.
        """
        ...


#: ``draft_positions`` where nothing else limits them: drafts of a few rows.
ANY_POSITIONS = 64


class UnsupportedModelError(ValueError):
    """The model cannot be run rightly here; the message names it and what is in the way."""


def wanted(rows: Sequence[Row]) -> list[int]:
    """Flat indices of the positions whose logits are wanted."""
    indices: list[int] = []
    start = 0
    for row in rows:
        indices.extend(start + offset for offset in row.wanted)
        start += len(row.token_ids)
    return indices
