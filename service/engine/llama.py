"""Our own forward pass of the Llama family: the modules' arithmetic without the modules.

RMSNorm, rotary positions, grouped-query attention, SwiGLU (Touvron et al. 2023; Ainslie et al.
2023). The weights are those of the transformers model; query, key and value projections are
stacked into one matrix, gate and up projections into another. Logits are computed for the wanted
positions only. A test holds it against the transformers forward.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import silu

from service.engine.attention import Plan, Span
from service.engine.kv_cache import KVCache, LayerShape
from service.engine.linear import Linear
from service.engine.model import ANY_POSITIONS, Row, wanted


class _Layer(NamedTuple):
    norm_in: torch.Tensor  # [hidden]
    qkv: Linear  # [(heads + 2 * kv_heads) * head_dim, hidden]
    out: Linear  # [hidden, heads * head_dim]
    norm_mlp: torch.Tensor  # [hidden]
    gate_up: Linear  # [2 * intermediate, hidden]
    down: Linear  # [hidden, intermediate]


def can_run(config: Any) -> bool:
    """Whether this forward is the right arithmetic for a transformers config."""
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.model_type in {"llama", "qwen2"}
        and config.hidden_act == "silu"
        and not getattr(config, "mlp_bias", False)
        and rope.get("rope_type", "default") in {"default", "linear", "llama3"}
    )


class LlamaModel:
    """``Model`` for llama and qwen2 without sliding windows. Takes a ``*ForCausalLM`` apart."""

    def __init__(self, causal_lm: Any, *, reproducible: bool = False) -> None:
        config = causal_lm.config
        self._reproducible = reproducible
        self._heads = config.num_attention_heads
        self._kv_heads = config.num_key_value_heads
        self._head_dim = getattr(config, "head_dim", None) or config.hidden_size // self._heads
        self._eps = config.rms_norm_eps
        self._embed = causal_lm.model.embed_tokens.weight.detach()
        self._norm_out = causal_lm.model.norm.weight.detach()
        self._lm_head = Linear(causal_lm.lm_head.weight.detach())
        self._layers = [_stack(layer) for layer in causal_lm.model.layers]
        self.layers = [LayerShape(self._kv_heads, self._head_dim, self._head_dim)] * len(
            self._layers
        )
        self.logit_size = config.vocab_size
        self.max_context = config.max_position_embeddings
        self.dtype = self._embed.dtype
        self.device = self._embed.device
        self.draft_positions = 0 if reproducible else ANY_POSITIONS
        self._cos, self._sin = rotary_table(causal_lm.model.rotary_emb, self.max_context)

    @torch.inference_mode()
    def forward(self, rows: Sequence[Row], kv: KVCache) -> torch.Tensor:
        """See ``Model.forward``."""
        if self._reproducible and len(rows) > 1:
            # Each row alone: matrix products of other shapes may round differently.
            return torch.cat([self._run([row], kv) for row in rows])
        return self._run(rows, kv)

    def _run(self, rows: Sequence[Row], kv: KVCache) -> torch.Tensor:
        spans = [Span(row.kv_row, row.position, len(row.token_ids)) for row in rows]
        plan = Plan(spans, kv, row_by_row=self._reproducible)
        flat = list(itertools.chain.from_iterable(row.token_ids for row in rows))
        hidden = self._embed[torch.tensor(flat, device=self.device)]
        cos, sin = self._cos[plan.positions], self._sin[plan.positions]
        for index, layer in enumerate(self._layers):
            hidden = hidden + self._attention(index, layer, hidden, cos, sin, plan)
            hidden = hidden + self._mlp(layer, hidden)
        picked = wanted(rows)
        if len(picked) < len(flat):
            hidden = hidden[torch.tensor(picked, dtype=torch.long, device=self.device)]
        return self._lm_head(_rms_norm(hidden, self._norm_out, self._eps)).float()

    def _attention(
        self,
        index: int,
        layer: _Layer,
        hidden: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        plan: Plan,
    ) -> torch.Tensor:
        normed = _rms_norm(hidden, layer.norm_in, self._eps)
        qkv = layer.qkv(normed).view(len(hidden), -1, self._head_dim)
        rotated = _rotate(qkv[:, : self._heads + self._kv_heads], cos, sin)
        attended = plan.attend(
            index,
            rotated[:, : self._heads],
            rotated[:, self._heads :],
            qkv[:, self._heads + self._kv_heads :],
            self._head_dim**-0.5,
        )
        return layer.out(attended.flatten(1))

    def _mlp(self, layer: _Layer, hidden: torch.Tensor) -> torch.Tensor:
        normed = _rms_norm(hidden, layer.norm_mlp, self._eps)
        gate, up = layer.gate_up(normed).chunk(2, dim=-1)
        return layer.down(silu(gate).mul_(up))


def _stack(module: Any) -> _Layer:
    """A decoder layer's weights. The module loses them: else they would stand in memory twice."""
    attention, mlp = module.self_attn, module.mlp
    return _Layer(
        norm_in=module.input_layernorm.weight.detach(),
        qkv=_take(attention.q_proj, attention.k_proj, attention.v_proj),
        out=_take(attention.o_proj),
        norm_mlp=module.post_attention_layernorm.weight.detach(),
        gate_up=_take(mlp.gate_proj, mlp.up_proj),
        down=_take(mlp.down_proj),
    )


def _take(*projections: Any) -> Linear:
    """One product with the outputs of all ``projections`` side by side."""
    biases = [p.bias.detach() for p in projections if p.bias is not None]
    assert len(biases) in {0, len(projections)}, "all have a bias, or none"
    weight = torch.cat([p.weight.detach() for p in projections])
    for projection in projections:
        projection.weight = None
    return Linear(weight, torch.cat(biases) if biases else None)


def _rms_norm(hidden: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Normalised in float32, then rounded, then scaled: in the order the modules do it."""
    wide = hidden.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * wide.to(hidden.dtype)


def rotary_table(rotary: Any, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin [length, 1, head_dim] by the model's own module (so with its scaling).

    The first half of ``sin`` is negated: then rotating is one roll, two products and a sum.
    """
    weight = rotary.inv_freq
    positions = torch.arange(length, device=weight.device)[None]
    cos, sin = rotary(torch.empty(0, dtype=torch.float32, device=weight.device), positions)
    sin = sin[0].clone()
    sin[:, : sin.shape[1] // 2].neg_()
    return cos[0][:, None], sin[:, None]


def _rotate(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding (Su et al. 2021) of [tokens, heads, head_dim]."""
    cos, sin = cos.to(heads.dtype), sin.to(heads.dtype)
    return heads * cos + heads.roll(heads.shape[-1] // 2, dims=-1) * sin
