"""The packed Llama against the plain transformers forward with the same, unpacked weights."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import torch

from service.engine import cpu_llama
from service.engine.cpu_llama import CpuLlama
from service.engine.decoder import Decoder
from service.engine.llama import LlamaModel
from service.engine.loading import load_model, warm_up
from service.engine.model import Row, UnsupportedModelError
from service.engine.two_paths import TwoPathLlama
from service.engine.types import EngineSettings, Sampling
from tests import fakes
from tests.service.engine import tiny
from tests.service.engine.decoding import make_request, run
from tests.service.engine.unpack import unpack_into

# Interpreted (for coverage) a token takes a second.
LENGTHS = (9, 30, 70, 100) if not numba.config.DISABLE_JIT else (2, 3, 2, 2)
SEQUENCES = [
    [int(t) for t in np.random.default_rng(i).integers(2, tiny.VOCAB, size=n)]
    for i, n in enumerate(LENGTHS)
]
OURS = [name for name in tiny.CONFIGS if name.startswith(("llama", "qwen2"))]


def random_steps(lengths, seed):
    """Chunks of every length: rows join late, pause, and end at different times."""
    rng, left, steps = np.random.default_rng(seed), list(lengths), []
    while any(left):
        counts = [int(rng.choice([0, 1, 2, 5, 40])) for _ in left]
        counts = [min(c, rest) for c, rest in zip(counts, left, strict=True)]
        left = [rest - c for rest, c in zip(left, counts, strict=True)]
        if any(counts):
            steps.append(counts)
    return steps


@pytest.mark.parametrize("name", OURS)
def test_rows_of_any_length_give_the_logits_of_the_plain_forward(name):
    causal_lm = tiny.build(tiny.CONFIGS[name])
    model = CpuLlama(causal_lm, threads=2)
    unpack_into(causal_lm, model)
    got = tiny.feed(model, tiny.make_cache(model), SEQUENCES, random_steps(LENGTHS, 0))
    for ours, sequence in zip(got, SEQUENCES, strict=True):
        with torch.inference_mode():
            plain = causal_lm(torch.tensor([sequence])).logits[0].float()
        assert (ours - plain).abs().max() < 1e-3 * plain.std()


def test_company_chunks_and_threads_do_not_change_a_bit():
    causal_lm = tiny.build(tiny.CONFIGS["llama"])
    models = [CpuLlama(causal_lm, threads) for threads in (1, 2, 3)]
    alone = [
        tiny.feed(models[0], tiny.make_cache(models[0]), [s], [[len(s)]])[0] for s in SEQUENCES
    ]
    for seed, model in enumerate(models):
        got = tiny.feed(model, tiny.make_cache(model), SEQUENCES, random_steps(LENGTHS, seed))
        for a, b in zip(got, alone, strict=True):
            assert torch.equal(a, b)


def test_only_the_wanted_positions_come_back():
    model = CpuLlama(tiny.build(tiny.CONFIGS["llama"]), threads=2)
    kv = tiny.make_cache(model)
    rows = [kv.open_row() for _ in range(3)]
    for row in rows:
        kv.grow(row, 10)
    tokens = [[3, 4, 5], [6, 7], [8, 9]]
    all_of = model.forward([Row(r, 0, t, len(t)) for r, t in zip(rows, tokens, strict=True)], kv)
    some = model.forward(
        [Row(r, 0, t, n) for r, t, n in zip(rows, tokens, (0, 2, 1), strict=True)], kv
    )
    assert torch.equal(some, all_of[[3, 4, 6]])
    none = model.forward([Row(rows[0], 0, [3], 0)], kv)
    assert none.shape == (0, tiny.VOCAB)


def test_nan_in_one_row_stays_in_it():
    model = CpuLlama(tiny.build(tiny.CONFIGS["llama"]), threads=2)
    kv = tiny.make_cache(model)
    rows = [kv.open_row() for _ in range(2)]
    for row in rows:
        kv.grow(row, 2)
    batch = [Row(row, 0, [3 + row, 5], 1) for row in rows]
    before = model.forward(batch, kv)
    model._embed = model._embed.clone()
    model._embed[3 + rows[0]] = torch.nan
    with np.errstate(invalid="ignore"):  # interpreted it is said that NaN becomes an integer
        after = model.forward(batch, kv)
    assert after[0].isnan().all()
    assert torch.equal(after[1], before[1])


def four_bit_folder(folder):
    """The tiny folder with weights that packing keeps."""
    tiny.save_folder(folder)
    from transformers import AutoModelForCausalLM

    causal_lm = AutoModelForCausalLM.from_pretrained(folder)
    unpack_into(causal_lm, CpuLlama(causal_lm, threads=1))
    causal_lm.bfloat16().save_pretrained(folder)
    return folder


def test_auto_packs_what_loses_nothing_and_nothing_else(tmp_path):
    made_for_more = tiny.save_folder(tmp_path / "full")
    had_four = four_bit_folder(tmp_path / "four")

    def load(folder, **settings):
        threads = torch.get_num_threads()
        model = load_model(EngineSettings(model=str(folder), **settings))
        torch.set_num_threads(threads)
        return model

    assert isinstance(load(made_for_more), LlamaModel)
    assert isinstance(load(made_for_more, weights="int4"), CpuLlama)
    assert isinstance(load(had_four), TwoPathLlama)
    assert isinstance(load(had_four, reproducible=True), CpuLlama)
    assert isinstance(load(had_four, weights="full"), LlamaModel)
    assert isinstance(load(had_four, dtype="float32"), LlamaModel)
    assert load(had_four).packed.errors.layers <= 2**-7


def test_models_that_cannot_be_packed_are_refused_by_name(tmp_path):
    tiny.save_folder(tmp_path)
    tiny.build(tiny.CONFIGS["qwen3"]).save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModelError, match="int4: qwen3"):
        load_model(EngineSettings(model=str(tmp_path), weights="int4"))
    assert not cpu_llama.can_pack(tiny.LlamaConfig(**tiny.SIZES | {"intermediate_size": 100}))


def test_warming_up_compiles_without_touching_the_cache_in_use():
    model = CpuLlama(tiny.build(tiny.CONFIGS["llama"]), threads=2)
    warm_up(model)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="interpreted it takes minutes")
def test_a_seeded_answer_does_not_depend_on_company_also_without_reproducible_mode():
    model = CpuLlama(tiny.build(tiny.CONFIGS["llama"]), threads=2)
    prompts = {"a": [5, 6, 7], "b": list(range(2, 60)), "c": [9] * 17, "d": [3]}

    def make_decoder():
        return Decoder(
            model,
            tiny.make_cache(model, num_blocks=11),  # too few for all: some are preempted
            token_bytes=lambda token: bytes([token]),
            eos_ids=(1,),
            vocab_size=tiny.VOCAB,
            fill_masks=fakes.fill_masks,
            step_tokens=32,
        )

    def request(key):
        made = make_request(
            key, sampling=Sampling(temperature=1.0, seed=len(key)), max_tokens=30, min_tokens=30
        )
        fields = {f: getattr(made, f) for f in made.__struct_fields__}
        return type(made)(**fields | {"prompt_ids": tuple(prompts[key])})

    def tokens(chunks):
        return [t.token_id for c in chunks for t in c.tokens]

    together = make_decoder()
    early = []
    for key in prompts:
        together.submit(request(key))
        early += together.step()
    chunks = run(together)
    assert together._scheduler.num_preemptions
    for key in prompts:
        alone = make_decoder()
        alone.submit(request(key))
        got = tokens([*(c for c in early if c.request_id == key), *chunks[key]])
        assert got == tokens(run(alone)[key])
        assert len(got) == 30
