"""The Llama family on a CPU with packed weights: one step is one compiled call.

The arithmetic is ``llama``'s, in float32, over weights of 4 bits (the head: 8). For a model of
this size a step is short, and a hundred small library calls a step would cost as much as the
products; here a team of threads goes through all layers together. In each layer:

    phase           items                    reads                     writes
    qkv             64 outputs               hidden, normed            qkv
    rotate          16 tokens                qkv                       qkv, the cache
    attend          a token and a key head   qkv, the cache            attended
    out             64 outputs               attended                  hidden
    gate and up     64 of both               hidden, normed            act
    down            64 outputs               act                       hidden

and after the last one the head, for the wanted tokens only. Every number of a token is computed by
the same instructions in the same order whatever else is in the step: answers do not depend on the
batch, on how a prompt was cut into chunks, or on the number of threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import torch

from service.engine import packed
from service.engine.cpu_attention import attend_one
from service.engine.kv_cache import BLOCK, KVCache, LayerShape
from service.engine.llama import rotary_table
from service.engine.model import ANY_POSITIONS, Row, wanted
from service.engine.packed import GROUP, LANES, Packed, group_sums
from service.engine.team import Team, finish, take, wait
from service.engine.tiles import product

_Floats = npt.NDArray[np.float32]
_Ints = npt.NDArray[np.int64]

_PHASES = 6  # of a layer
_TOKENS = 16  # of an item that rotates
_LOG2E = np.float32(1.4426950408889634)


class _Weights(NamedTuple):
    """All layers' weights, the layer first. Biases are zeros where the model has none."""

    norm_in: _Floats  # [layers, hidden]
    qkv: Packed
    qkv_bias: _Floats  # [layers, (heads + 2 * kv_heads) * head_dim]
    out: Packed
    out_bias: _Floats  # [layers, hidden]
    norm_mlp: _Floats  # [layers, hidden]
    gate: Packed
    up: Packed
    down: Packed
    norm_out: _Floats  # [hidden]
    head: Packed  # 8 bits
    cos: _Floats  # [context, head_dim]
    sin: _Floats  # ... its first half negated


class _Sizes(NamedTuple):
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    eps: float


class _Step(NamedTuple):
    """What a step computes, and the arrays that its phases hand on to each other."""

    rows: _Ints  # [tokens] of the cache
    positions: _Ints  # [tokens]
    wanted: _Ints  # [logits] indices of tokens
    tables: npt.NDArray[np.int32]
    hidden: _Floats  # [tokens, hidden]
    qkv: _Floats  # [tokens, (heads + 2 * kv_heads) * head_dim]
    attended: _Floats  # [tokens, heads, head_dim]
    act: _Floats  # [tokens, intermediate]
    logits: _Floats  # [logits, vocab]


class PackingErrors(NamedTuple):
    """Largest error of a weight over the largest weight of its group of 32."""

    layers: float  # 4 bits
    head: float  # 8 bits


class CpuLlama:
    """``Model`` for what ``llama.can_run``, on a CPU. Takes a ``*ForCausalLM`` apart."""

    def __init__(self, causal_lm: Any, threads: int) -> None:
        config = causal_lm.config
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
        self._sizes = _Sizes(
            heads,
            kv_heads,
            head_dim,
            config.intermediate_size,
            config.vocab_size,
            float(config.rms_norm_eps),
        )
        self._embed = _narrowed(causal_lm.model.embed_tokens.weight.detach())
        self._weights, self.errors = _pack(causal_lm)
        self._team = Team(threads)
        self.layers = [LayerShape(kv_heads, head_dim, head_dim)] * config.num_hidden_layers
        self.logit_size = config.vocab_size
        self.max_context = config.max_position_embeddings
        self.dtype = torch.float32
        self.device = torch.device("cpu")
        self.draft_positions = ANY_POSITIONS

    @torch.inference_mode()
    def forward(self, rows: Sequence[Row], kv: KVCache) -> torch.Tensor:
        """See ``Model.forward``. The cache's layers must be of one shape, in float32."""
        keys, values = kv.key_pool, kv.value_pool
        assert keys is not None
        assert values is not None
        step = self._step(rows, kv)
        phases = _PHASES * len(self.layers) + 1
        self._team.run(
            _forward, phases, self._weights, self._sizes, step, keys.numpy(), values.numpy()
        )
        return torch.from_numpy(step.logits)

    def _step(self, rows: Sequence[Row], kv: KVCache) -> _Step:
        sizes = self._sizes
        counts = [len(row.token_ids) for row in rows]
        flat = list(itertools.chain.from_iterable(row.token_ids for row in rows))
        positions = np.concatenate(
            [np.arange(r.position, r.position + n) for r, n in zip(rows, counts, strict=True)]
        )
        picked = np.array(wanted(rows), dtype=np.int64)
        hidden = self._embed[torch.tensor(flat)].float().numpy()
        tokens = len(flat)

        def empty(*shape: int) -> _Floats:
            return np.empty(shape, dtype=np.float32)

        return _Step(
            rows=np.repeat(np.array([row.kv_row for row in rows], dtype=np.int64), counts),
            positions=positions.astype(np.int64),
            wanted=picked,
            tables=kv.tables,
            hidden=hidden,
            qkv=empty(tokens, (sizes.heads + 2 * sizes.kv_heads) * sizes.head_dim),
            attended=empty(tokens, sizes.heads, sizes.head_dim),
            act=empty(tokens, sizes.intermediate),
            logits=empty(len(picked), sizes.vocab),
        )


def can_pack(config: Any) -> bool:
    """Whether every row of the model's matrices falls into groups."""
    head_dim = (
        getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    )
    inputs = (config.hidden_size, config.intermediate_size, config.num_attention_heads * head_dim)
    return all(n % GROUP == 0 for n in inputs) and head_dim % 2 == 0


def is_lossless(causal_lm: Any) -> bool:
    """Whether packing changes the weights by no more than their rounding to bfloat16 did.

    That is 2**-8 of the largest of a group, for a weight and for what its scale is made of;
    weights that were made for more than 4 bits miss the sum by far. The head is not asked: half a
    step of its 8 bits is as little.
    """
    projections = (
        projection
        for layer in causal_lm.model.layers
        for block in (layer.self_attn, layer.mlp)
        for projection in block.children()
        if isinstance(projection, torch.nn.Linear)
    )
    return all(packed.pack4(p.weight)[1] <= 2.0**-7 for p in projections)


def _pack(causal_lm: Any) -> tuple[_Weights, PackingErrors]:
    errors = [0.0]

    def pack4(*projections: Any) -> Packed:
        made, error = packed.pack4(torch.cat([p.weight for p in projections]))
        errors.append(error)
        return made

    layers = causal_lm.model.layers
    attention = [layer.self_attn for layer in layers]
    mlp = [layer.mlp for layer in layers]
    head, head_error = packed.pack8(causal_lm.lm_head.weight)
    cos, sin = rotary_table(causal_lm.model.rotary_emb, causal_lm.config.max_position_embeddings)
    weights = _Weights(
        norm_in=_stacked([layer.input_layernorm.weight for layer in layers]),
        qkv=packed.stack([pack4(a.q_proj, a.k_proj, a.v_proj) for a in attention]),
        qkv_bias=_stacked(
            [torch.cat([_bias(p) for p in (a.q_proj, a.k_proj, a.v_proj)]) for a in attention]
        ),
        out=packed.stack([pack4(a.o_proj) for a in attention]),
        out_bias=_stacked([_bias(a.o_proj) for a in attention]),
        norm_mlp=_stacked([layer.post_attention_layernorm.weight for layer in layers]),
        gate=packed.stack([pack4(m.gate_proj) for m in mlp]),
        up=packed.stack([pack4(m.up_proj) for m in mlp]),
        down=packed.stack([pack4(m.down_proj) for m in mlp]),
        norm_out=_floats(causal_lm.model.norm.weight),
        head=head,
        cos=_floats(cos[:, 0]),
        sin=_floats(sin[:, 0]),
    )
    return weights, PackingErrors(max(errors), head_error)


def _narrowed(table: torch.Tensor) -> torch.Tensor:
    """In bfloat16 where that is exact: models come in it, and a table is large."""
    narrow = table.bfloat16()
    return narrow if torch.equal(narrow.to(table.dtype), table) else table


def _bias(projection: Any) -> torch.Tensor:
    if projection.bias is not None:
        return projection.bias  # type: ignore[no-any-return]
    return torch.zeros(len(projection.weight))


def _floats(tensor: torch.Tensor) -> _Floats:
    array: _Floats = tensor.detach().float().contiguous().numpy()
    return array


def _stacked(tensors: list[torch.Tensor]) -> _Floats:
    return np.stack([_floats(t) for t in tensors])


@numba.njit(nogil=True, cache=True)
def _forward(
    board: Any, weights: _Weights, sizes: _Sizes, step: _Step, keys: _Floats, values: _Floats
) -> None:
    """One thread's way through a step. ``keys`` [layers, blocks, BLOCK, kv_heads, head_dim]."""
    tokens, width = step.hidden.shape
    inputs = max(width, sizes.intermediate, sizes.heads * sizes.head_dim)
    normed = np.empty((tokens, width), dtype=np.float32)
    sums = np.empty((tokens, inputs // GROUP), dtype=np.float32)
    block = np.empty((2, tokens, LANES), dtype=np.float32)
    for layer in range(keys.shape[0]):
        phase = _PHASES * layer
        _project_qkv(board, phase, weights, layer, step, sizes, normed, sums, block)
        _rotate_and_store(board, phase + 1, weights, sizes, step, keys[layer], values[layer])
        _attend(board, phase + 2, sizes, step, keys[layer], values[layer])
        attended = step.attended.reshape((tokens, sizes.heads * sizes.head_dim))
        _add_product(
            board, phase + 3, attended, weights.out, weights.out_bias[layer], layer, step.hidden,
            sums, block[0],
        )  # fmt: skip
        _gate_and_up(board, phase + 4, weights, layer, step, sizes, normed, sums, block)
        _add_product(
            board, phase + 5, step.act, weights.down, np.zeros(0, np.float32), layer, step.hidden,
            sums, block[0],
        )  # fmt: skip
    _head(board, _PHASES * keys.shape[0], weights, sizes, step)


@numba.njit(nogil=True, cache=True)
def _project_qkv(
    board: Any,
    phase: int,
    weights: _Weights,
    layer: int,
    step: _Step,
    sizes: _Sizes,
    normed: _Floats,
    sums: _Floats,
    block: _Floats,
) -> None:
    codes, scales, lows = weights.qkv
    items, outputs = codes.shape[1], step.qkv.shape[1]
    ready = False
    while True:
        item = take(board, phase, items)
        if item < 0:
            break
        if not ready:  # the norm is cheaper computed by each thread than waited for
            _rms_norm(step.hidden, weights.norm_in[layer], sizes.eps, normed)
            group_sums(normed, sums)
            ready = True
        product(normed, sums, codes[layer, item], scales[layer, item], lows[layer, item], block[0])
        first = item * LANES
        for token in range(len(normed)):
            for lane in range(min(LANES, outputs - first)):
                step.qkv[token, first + lane] = (
                    block[0, token, lane] + weights.qkv_bias[layer, first + lane]
                )
        finish(board, phase)
    wait(board, phase, items)


@numba.njit(nogil=True, cache=True)
def _rotate_and_store(
    board: Any,
    phase: int,
    weights: _Weights,
    sizes: _Sizes,
    step: _Step,
    keys: _Floats,
    values: _Floats,
) -> None:
    """Rotary positions of queries, in place, and of keys, into the cache; values as they are."""
    heads, kv_heads, dim = sizes.heads, sizes.kv_heads, sizes.head_dim
    tokens = len(step.qkv)
    items = (tokens + _TOKENS - 1) // _TOKENS
    while True:
        item = take(board, phase, items)
        if item < 0:
            break
        for token in range(item * _TOKENS, min(tokens, (item + 1) * _TOKENS)):
            position = step.positions[token]
            page = step.tables[step.rows[token], position // BLOCK]
            at = position % BLOCK
            cos, sin = weights.cos[position], weights.sin[position]
            qkv = step.qkv[token].reshape((heads + 2 * kv_heads, dim))
            for head in range(heads):
                _rotate(qkv[head], cos, sin, qkv[head])
            for head in range(kv_heads):
                _rotate(qkv[heads + head], cos, sin, keys[page, at, head])
                values[page, at, head] = qkv[heads + kv_heads + head]
        finish(board, phase)
    wait(board, phase, items)


@numba.njit(nogil=True, cache=True)
def _attend(
    board: Any, phase: int, sizes: _Sizes, step: _Step, keys: _Floats, values: _Floats
) -> None:
    heads, kv_heads, dim = sizes.heads, sizes.kv_heads, sizes.head_dim
    scale = np.float32(dim**-0.5) * _LOG2E
    items = len(step.qkv) * kv_heads
    while True:
        item = take(board, phase, items)
        if item < 0:
            break
        token, kv_head = item // kv_heads, item % kv_heads
        query = step.qkv[token, : heads * dim].reshape((heads, dim))
        table = step.tables[step.rows[token]]
        length = step.positions[token] + 1
        attend_one(query, keys, values, table, length, kv_head, scale, step.attended[token])
        finish(board, phase)
    wait(board, phase, items)


@numba.njit(nogil=True, cache=True)
def _add_product(
    board: Any,
    phase: int,
    x: _Floats,
    weight: Packed,
    bias: _Floats,
    layer: int,
    hidden: _Floats,
    sums: _Floats,
    block: _Floats,
) -> None:
    """``hidden`` plus ``x`` times the layer's weight, plus a bias if it is not empty."""
    codes, scales, lows = weight
    items, outputs = codes.shape[1], hidden.shape[1]
    ready = False
    while True:
        item = take(board, phase, items)
        if item < 0:
            break
        if not ready:
            group_sums(x, sums)
            ready = True
        product(x, sums, codes[layer, item], scales[layer, item], lows[layer, item], block)
        first = item * LANES
        for token in range(len(x)):
            for lane in range(min(LANES, outputs - first)):
                added = block[token, lane]
                if len(bias):
                    added += bias[first + lane]
                hidden[token, first + lane] += added
        finish(board, phase)
    wait(board, phase, items)


@numba.njit(nogil=True, cache=True)
def _gate_and_up(
    board: Any,
    phase: int,
    weights: _Weights,
    layer: int,
    step: _Step,
    sizes: _Sizes,
    normed: _Floats,
    sums: _Floats,
    block: _Floats,
) -> None:
    """``act`` = silu(gate) * up."""
    gate, gate_scales, gate_lows = weights.gate
    up, up_scales, up_lows = weights.up
    items, outputs = gate.shape[1], step.act.shape[1]
    ready = False
    while True:
        item = take(board, phase, items)
        if item < 0:
            break
        if not ready:
            _rms_norm(step.hidden, weights.norm_mlp[layer], sizes.eps, normed)
            group_sums(normed, sums)
            ready = True
        product(
            normed, sums, gate[layer, item], gate_scales[layer, item], gate_lows[layer, item],
            block[0],
        )  # fmt: skip
        product(
            normed, sums, up[layer, item], up_scales[layer, item], up_lows[layer, item], block[1]
        )
        first = item * LANES
        width = min(LANES, outputs - first)
        for token in range(len(normed)):
            _silu_times(block[0, token], block[1, token], step.act[token, first : first + width])
        finish(board, phase)
    wait(board, phase, items)


@numba.njit(nogil=True, cache=True)
def _head(board: Any, phase: int, weights: _Weights, sizes: _Sizes, step: _Step) -> None:
    """Logits of the wanted tokens."""
    codes, scales, lows = weights.head
    sums = np.empty((0, 0), dtype=np.float32)  # of weights without lowest values
    count, vocab = step.logits.shape
    items = codes.shape[0] if count else 0
    normed = np.empty((count, step.hidden.shape[1]), dtype=np.float32)
    block = np.empty((count, LANES), dtype=np.float32)
    ready = False
    while True:
        item = take(board, phase, items)
        if item < 0:
            break
        if not ready:
            for n in range(count):
                token = step.wanted[n]
                _rms_norm(
                    step.hidden[token : token + 1], weights.norm_out, sizes.eps, normed[n : n + 1]
                )
            ready = True
        product(normed, sums, codes[item], scales[item], lows[item], block)
        first = item * LANES
        width = min(LANES, vocab - first)
        step.logits[:, first : first + width] = block[:, :width]
        finish(board, phase)
    wait(board, phase, items)


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def _rms_norm(x: _Floats, weight: _Floats, eps: float, out: _Floats) -> None:
    """Each row over its root mean square, times ``weight`` (Zhang, Sennrich 2019)."""
    for row in range(x.shape[0]):
        total = np.float32(0)
        for i in range(x.shape[1]):
            total += x[row, i] * x[row, i]
        factor = np.float32(1 / np.sqrt(total / x.shape[1] + eps))
        for i in range(x.shape[1]):
            out[row, i] = x[row, i] * factor * weight[i]


@numba.njit(nogil=True, cache=True, fastmath={"contract"})
def _rotate(x: _Floats, cos: _Floats, sin: _Floats, out: _Floats) -> None:
    """Rotary position embedding (Su et al. 2021) of one head; ``out`` may be ``x``."""
    half = len(x) // 2
    for i in range(half):
        a, b = x[i], x[i + half]
        out[i] = a * cos[i] + b * sin[i]
        out[i + half] = b * cos[i + half] + a * sin[i + half]


@numba.njit(nogil=True, cache=True, fastmath={"contract", "arcp", "nsz"})
def _silu_times(gate: _Floats, up: _Floats, out: _Floats) -> None:
    """gate / (1 + exp(-gate)) * up, at most as long as ``out``; exp as in ``cpu_attention``."""
    bits = np.empty(LANES, dtype=np.int32)
    powers = bits.view(np.float32)
    for i in range(LANES):
        y = min(max(-gate[i] * _LOG2E, np.float32(-126)), np.float32(126))
        whole = np.int32(np.floor(y + np.float32(0.5)))
        f = y - np.float32(whole)
        p = np.float32(1.535336188319500e-4)
        p = p * f + np.float32(1.339887440266574e-3)
        p = p * f + np.float32(9.618437357674640e-3)
        p = p * f + np.float32(5.550332471162809e-2)
        p = p * f + np.float32(2.402264791363012e-1)
        p = p * f + np.float32(6.931472028550421e-1)
        p = p * f + np.float32(1)
        bits[i] = (whole + np.int32(127)) << np.int32(23)
        powers[i] = p * powers[i]
    for i in range(len(out)):
        out[i] = gate[i] / (np.float32(1) + powers[i]) * up[i]
