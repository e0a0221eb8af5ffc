"""Packed weights as plain matrices, and a transformers model that has those."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from service.engine.cpu_llama import CpuLlama
from service.engine.packed import Packed


def unpack(packed: Packed, outputs: int) -> np.ndarray:
    """float32[outputs, inputs]: what the layout says, weight by weight."""
    codes = packed.codes
    if codes.dtype == np.uint8:
        codes = np.concatenate([codes & 15, codes >> 4], axis=2)  # [blocks, groups, GROUP, LANES]
    weights = codes.astype(np.float32) * packed.scales[:, :, None]
    if packed.lows.size:
        weights += packed.lows[:, :, None]
    blocks, groups, inputs, lanes = weights.shape
    return weights.transpose(0, 3, 1, 2).reshape(blocks * lanes, groups * inputs)[:outputs]


def unpack_into(causal_lm: Any, model: CpuLlama) -> None:
    """Gives ``causal_lm`` the weights that ``model``, packed from it, computes with."""
    weights = model._weights

    def put(packed: Packed, layer: int, *projections: Any) -> None:
        of_layer = Packed(*(part[layer] for part in packed))
        plain = torch.from_numpy(unpack(of_layer, sum(len(p.weight) for p in projections)))
        for p, part in zip(
            projections, plain.split([len(p.weight) for p in projections]), strict=True
        ):
            p.weight = torch.nn.Parameter(part.clone())

    for n, layer in enumerate(causal_lm.model.layers):
        attention, mlp = layer.self_attn, layer.mlp
        put(weights.qkv, n, attention.q_proj, attention.k_proj, attention.v_proj)
        put(weights.out, n, attention.o_proj)
        put(weights.gate, n, mlp.gate_proj)
        put(weights.up, n, mlp.up_proj)
        put(weights.down, n, mlp.down_proj)
    head = unpack(weights.head, len(causal_lm.lm_head.weight))
    causal_lm.lm_head.weight = torch.nn.Parameter(torch.from_numpy(head))
