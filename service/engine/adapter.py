"""Any causal LM of transformers over our cache: a registered attention function, packed rows.

The rows go through the library's modules as one sequence of a batch of one; ``position_ids`` tell
positions apart and our attention function keeps rows apart. That is right for models whose only
mixing of tokens is causal attention through the library's attention interface: ``check_config``
and a probe at load refuse the others by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AttentionInterface

from service.engine.attention import Plan, Span
from service.engine.kv_cache import KVCache, LayerShape
from service.engine.model import ANY_POSITIONS, Row, UnsupportedModelError, wanted

_NAME = "syntaxd_paged"
# Their angles depend on the length of the whole sequence, which differs from row to row.
_LENGTH_DEPENDENT_ROPE = {"dynamic", "longrope"}

_Attend = Callable[[Any, torch.Tensor, torch.Tensor, torch.Tensor, float], torch.Tensor]


def check_config(config: Any) -> None:
    """Refuses by name what would run wrongly. Raises UnsupportedModelError."""
    what = None
    if getattr(config, "is_encoder_decoder", False):
        what = "an encoder-decoder model"
    layer_types = set(getattr(config, "layer_types", None) or ["full_attention"])
    if others := layer_types - {"full_attention"}:
        what = f"layers of type {', '.join(sorted(others))}"
    window = getattr(config, "sliding_window", None)
    if window and getattr(config, "use_sliding_window", True):
        what = f"sliding-window attention ({window} tokens)"
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") in _LENGTH_DEPENDENT_ROPE:
        what = f"rotary positions of type {rope['rope_type']}"
    if getattr(config, "alibi", False) or config.model_type in {"mpt", "bloom"}:
        what = "ALiBi positions"
    if what:
        raise UnsupportedModelError(f"{config.model_type}: {what} is not supported")


class AdaptedModel:
    """``Model`` through the library's own modules."""

    def __init__(self, causal_lm: Any, *, reproducible: bool = False) -> None:
        check_config(causal_lm.config)
        self._causal_lm = causal_lm
        self._reproducible = reproducible
        weight = causal_lm.get_input_embeddings().weight
        self.dtype, self.device = weight.dtype, weight.device
        self.logit_size = causal_lm.config.vocab_size
        self.max_context = causal_lm.config.max_position_embeddings
        self._expected = _stock_logits(causal_lm, _PROBE)
        causal_lm.set_attn_implementation(_NAME)
        self.layers = _probe_layers(causal_lm)
        self.draft_positions = 0 if reproducible else ANY_POSITIONS

    @torch.inference_mode()
    def forward(self, rows: Sequence[Row], kv: KVCache) -> torch.Tensor:
        """See ``Model.forward``."""
        if self._reproducible and len(rows) > 1:
            return torch.cat([self._run([row], kv) for row in rows])
        return self._run(rows, kv)

    def _run(self, rows: Sequence[Row], kv: KVCache) -> torch.Tensor:
        spans = [Span(row.kv_row, row.position, len(row.token_ids)) for row in rows]
        plan = Plan(spans, kv, row_by_row=self._reproducible)
        flat = list(itertools.chain.from_iterable(row.token_ids for row in rows))

        def attend(
            module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
        ) -> torch.Tensor:
            return plan.attend(module.layer_idx, query, key, value, scale)

        with _attending(attend):
            output = self._causal_lm(
                input_ids=torch.tensor([flat], device=self.device),
                position_ids=plan.positions[None],
                use_cache=False,
                logits_to_keep=torch.tensor(wanted(rows), dtype=torch.long, device=self.device),
            )
        logits: torch.Tensor = output.logits[0].float()
        return logits

    def self_check(self) -> None:
        """Our logits equal the library's own. Raises UnsupportedModelError where they do not."""
        kv = KVCache(
            self.layers,
            num_blocks=1,
            max_rows=1,
            max_tokens=len(_PROBE),
            dtype=self.dtype,
            device=self.device,
        )
        row = kv.open_row()
        kv.grow(row, len(_PROBE))
        half = len(_PROBE) // 2
        self.forward([Row(row, 0, _PROBE[:half], 0)], kv)
        ours = self.forward([Row(row, half, _PROBE[half:], 1)], kv)[0]
        spread = self._expected.std()
        error = (ours - self._expected).abs().max()
        # bfloat16 keeps 8 bits, and attention is summed in another order.
        tolerance = 1e-3 if self.dtype == torch.float32 else 0.15
        if not error <= tolerance * spread:
            kind = self._causal_lm.config.model_type
            raise UnsupportedModelError(
                f"{kind}: logits over the paged cache differ from transformers' own "
                f"(by {error:.3g}, their spread is {spread:.3g})"
            )


_PROBE = [1, 2, 3, 5, 8, 13, 21, 34]
_attend_now: list[_Attend] = []  # the innermost ``_attending`` of this thread's forward


def _paged_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """What the library calls: [1, heads, tokens, dim] in, [1, tokens, heads, dim] out."""
    del attention_mask  # the plan knows what is visible
    for name in ("sliding_window", "softcap", "s_aux", "position_bias"):
        if options.get(name) is not None:
            raise UnsupportedModelError(f"{type(module).__name__}: {name} is not supported")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    query, key, value = (t[0].transpose(0, 1) for t in (query, key, value))
    return _attend_now[-1](module, query, key, value, scale)[None], None


AttentionInterface.register(_NAME, _paged_attention)


@contextmanager
def _attending(attend: _Attend) -> Any:
    """Tells the registered function, which gets only tensors, what to do in this forward."""
    _attend_now.append(attend)
    try:
        yield
    finally:
        _attend_now.pop()


@torch.inference_mode()
def _stock_logits(causal_lm: Any, token_ids: list[int]) -> torch.Tensor:
    """The last position's logits, by the library's own attention."""
    ids = torch.tensor([token_ids], device=causal_lm.device)
    logits: torch.Tensor = causal_lm(input_ids=ids, use_cache=False).logits[0, -1].float()
    return logits


@torch.inference_mode()
def _probe_layers(causal_lm: Any) -> list[LayerShape]:
    """Runs two tokens to see what each layer would store."""
    seen: dict[int, LayerShape] = {}

    def attend(
        module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        del scale
        seen[module.layer_idx] = LayerShape(key.shape[1], key.shape[2], value.shape[2])
        return query.new_zeros((*query.shape[:-1], value.shape[-1]))

    with _attending(attend):
        ids = torch.tensor([_PROBE[:2]], device=causal_lm.device)
        causal_lm(input_ids=ids, use_cache=False)
    num_layers = causal_lm.config.num_hidden_layers
    if sorted(seen) != list(range(num_layers)):
        raise UnsupportedModelError(
            f"{causal_lm.config.model_type}: {len(seen)} of {num_layers} layers use "
            "transformers' attention interface, all must"
        )
    return [seen[i] for i in range(num_layers)]
