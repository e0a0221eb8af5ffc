"""Every family over the paged cache against the plain transformers forward."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from service.engine import llama
from service.engine.adapter import AdaptedModel
from service.engine.cpu_attention import paged_attention
from service.engine.loading import adapt
from service.engine.model import Row, UnsupportedModelError
from tests.service.engine import tiny

SEQUENCES = [
    [int(t) for t in np.random.default_rng(i).integers(2, tiny.VOCAB, size=n)]
    for i, n in enumerate((9, 30, 70, 100))
]
# Prompts whole and in chunks, single tokens and runs, rows that join late and pause.
STEPS = [
    [4, 0, 40, 33],
    [1, 20, 1, 33],
    [3, 0, 16, 1],
    [1, 9, 12, 32],
    [0, 1, 1, 1],
]


def plain_logits(causal_lm, token_ids):
    with torch.inference_mode():
        return causal_lm(torch.tensor([token_ids])).logits[0].float()


@pytest.mark.parametrize("name", tiny.CONFIGS)
def test_rows_of_any_length_give_the_logits_of_the_plain_forward(name):
    causal_lm = tiny.build(tiny.CONFIGS[name])
    expected = [plain_logits(causal_lm, s) for s in SEQUENCES]
    model = adapt(causal_lm)
    ours = name.startswith(("llama", "qwen2"))
    assert isinstance(model, llama.LlamaModel if ours else AdaptedModel)
    got = tiny.feed(model, tiny.make_cache(model), SEQUENCES, STEPS)
    for ours_logits, plain in zip(got, expected, strict=True):
        assert (ours_logits - plain).abs().max() < 1e-3 * plain.std()


def test_the_generic_path_runs_llama_too():
    causal_lm = tiny.build(tiny.CONFIGS["llama"])
    expected = plain_logits(causal_lm, SEQUENCES[1])
    model = AdaptedModel(causal_lm)
    model.self_check()
    (got,) = tiny.feed(model, tiny.make_cache(model), [SEQUENCES[1]], [[29], [1]])
    assert (got - expected).abs().max() < 1e-3 * expected.std()


@pytest.mark.parametrize("name", ["llama", "gemma"])
def test_bfloat16_is_close_to_the_plain_bfloat16_forward(name):
    causal_lm = tiny.build(tiny.CONFIGS[name], dtype=torch.bfloat16)
    expected = plain_logits(causal_lm, SEQUENCES[1])
    model = adapt(causal_lm)
    assert model.dtype is torch.bfloat16
    (got,) = tiny.feed(model, tiny.make_cache(model), [SEQUENCES[1]], [[20], [10]])
    assert (got - expected).abs().max() < 0.2 * expected.std()


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_reproducible_mode_gives_the_same_bits_alone_and_in_company(name):
    model = adapt(tiny.build(tiny.CONFIGS[name]), reproducible=True)
    steps = [[8, 20, 33, 64]]
    together = tiny.feed(model, tiny.make_cache(model), SEQUENCES, steps)
    for i, sequence in enumerate(SEQUENCES):
        (alone,) = tiny.feed(model, tiny.make_cache(model), [sequence], [[steps[0][i]]])
        assert torch.equal(alone, together[i])


def test_only_the_wanted_positions_come_back():
    model = adapt(tiny.build(tiny.CONFIGS["llama"]))
    kv = tiny.make_cache(model)
    rows = [kv.open_row() for _ in range(3)]
    for row in rows:
        kv.grow(row, 10)
    logits = model.forward(
        [Row(rows[0], 0, [3, 4, 5], 0), Row(rows[1], 0, [6, 7], 2), Row(rows[2], 0, [8, 9], 1)], kv
    )
    assert logits.shape == (3, tiny.VOCAB)
    assert logits.dtype is torch.float32


@pytest.mark.parametrize("what", tiny.REFUSED)
def test_what_would_run_wrongly_is_refused_by_name(what):
    class Shell:
        config = tiny.REFUSED[what]

    with pytest.raises(UnsupportedModelError, match=what):
        adapt(Shell())


def test_logits_that_differ_from_the_librarys_are_refused():
    causal_lm = tiny.build(tiny.CONFIGS["qwen3"])
    model = AdaptedModel(causal_lm)
    causal_lm.lm_head.weight.data += torch.randn_like(causal_lm.lm_head.weight)
    with pytest.raises(UnsupportedModelError, match="differ"):
        model.self_check()


@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(9, 3, 64), (4, 4, 16), (8, 1, 7)])
def test_the_cpu_kernel_equals_plain_attention_over_the_gathered_cache(heads, kv_heads, dim):
    rng = np.random.default_rng(0)
    keys, values = (rng.normal(size=(60, 16, kv_heads, dim)).astype(np.float32) for _ in "kv")
    tables = rng.permutation(60).reshape(3, 20).astype(np.int32)
    rows = np.array([2, 0, 0, 1, 2])
    lengths = np.array([1, 15, 16, 17, 301])
    query = (rng.normal(size=(5, heads, dim)) * 4).astype(np.float32)
    got = np.empty_like(query)
    paged_attention(query, keys, values, tables, rows, lengths, 0.3, got)
    for token, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        k, v = (
            torch.from_numpy(cache[tables[row]].reshape(-1, kv_heads, dim)[:length])
            .transpose(0, 1)
            .repeat_interleave(heads // kv_heads, dim=0)
            for cache in (keys, values)
        )
        q = torch.from_numpy(query[token])[:, None]
        expected = scaled_dot_product_attention(q, k, v, scale=0.3)[:, 0]
        np.testing.assert_allclose(got[token], expected.numpy(), atol=3e-5)


def test_nan_in_one_row_of_the_kernel_stays_in_it():
    keys = np.ones((4, 16, 1, 8), dtype=np.float32)
    query = np.ones((2, 2, 8), dtype=np.float32)
    query[0] = np.nan
    tables = np.array([[0, 1], [2, 3]], dtype=np.int32)
    out = np.empty_like(query)
    with np.errstate(invalid="ignore"):  # interpreted it is said that NaN becomes an integer
        paged_attention(query, keys, keys, tables, np.arange(2), np.array([20, 20]), 1.0, out)
    assert np.isnan(out[0]).all()
    assert np.allclose(out[1], 1)


def test_the_padded_path_of_other_devices_gives_the_same():
    """What a GPU would run, on a CPU: any cache but a float32 one takes it."""
    model = adapt(tiny.build(tiny.CONFIGS["llama"]))
    expected = tiny.feed(model, tiny.make_cache(model), SEQUENCES, STEPS)
    kv = tiny.make_cache(model)
    kv.keys = [k.double() for k in kv.keys]
    kv.values = [v.double() for v in kv.values]
    got = tiny.feed(model, kv, SEQUENCES, STEPS)
    for a, b in zip(got, expected, strict=True):
        assert (a - b).abs().max() < 1e-3 * b.std()
