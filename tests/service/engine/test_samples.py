"""Several outputs of one request: each what its own seed alone would give, over one prompt."""

from __future__ import annotations

import msgspec
import pytest

from service.engine.cpu_llama import CpuLlama
from service.engine.decoder import Decoder
from service.engine.drafting import Drafter
from service.engine.types import FinishReason, Sampling
from tests import fakes
from tests.service.engine import tiny
from tests.service.engine.decoding import answer, make_decoder, make_request, run

PROMPT = "a prompt of more than two blocks of tokens>"
TEXTS = [bytes([a, b, c]) for a in b"abc" for b in b"xyz" for c in b"123"]


def outputs(chunks):
    """The outputs of a request by index, each as one chunk."""
    indices = {chunk.index for chunk in chunks}
    return {i: answer([c for c in chunks if c.index == i]) for i in indices}


def sampled(name="a", n=1, seed=5, **fields):
    request = make_request(name, PROMPT, sampling=Sampling(temperature=1.0, seed=seed), **fields)
    return msgspec.structs.replace(request, n=n)


def ask(request, language=None, script=fakes.noise, **options):
    model = fakes.FakeModel(script)
    decoder = make_decoder(model, **options)
    decoder.submit(request, fakes.FakeGrammar(language) if language else None)
    return outputs(run(decoder)[request.request_id]), model


@pytest.mark.parametrize("language", [None, TEXTS, [b"only"], [b"same" + t for t in TEXTS]])
@pytest.mark.parametrize("share_prefixes", [False, True])
@pytest.mark.parametrize("reproducible", [False, True])
@pytest.mark.parametrize("max_rows", [1, 3, 8])
@pytest.mark.parametrize("drafts", [False, True])
def test_each_is_what_its_seed_alone_gives(
    language, share_prefixes, reproducible, max_rows, drafts
):
    options = {
        "share_prefixes": share_prefixes,
        "reproducible": reproducible,
        "max_rows": max_rows,
        "drafter": Drafter(fakes.token_bytes, list, always=True) if drafts else None,
    }
    got, _ = ask(sampled(n=5, max_tokens=12), language, **options)
    assert sorted(got) == list(range(5))
    for index, output in got.items():
        alone, _ = ask(sampled(seed=5 + index, max_tokens=12), language)
        assert (output.text, output.tokens) == (alone[0].text, alone[0].tokens)
        assert output.finish.reason == alone[0].finish.reason
        assert output.finish.usage.prompt_tokens == (len(PROMPT) if index == 0 else 0)


def test_the_prompt_is_computed_once():
    _, model = ask(sampled(n=4, max_tokens=6, ignore_eos=True), num_blocks=64)
    positions = sum(len(row.token_ids) for step in model.fed for row in step)
    assert positions == len(PROMPT) + 4 * 5


def test_full_blocks_of_the_prompt_are_held_in_common():
    decoder = make_decoder(fakes.FakeModel(fakes.noise), num_blocks=64)
    decoder.submit(sampled(n=4, max_tokens=50, ignore_eos=True))
    decoder.step()
    blocks = -(-len(PROMPT) // 16)
    assert decoder.load.running == 4
    assert decoder.load.kv_used_blocks == blocks - 1 + 4
    run(decoder)
    assert decoder.load.kv_used_blocks == 0


def test_each_has_the_whole_budget():
    language = [b"x" * n for n in range(1, 40)]
    got, _ = ask(sampled(n=3, max_tokens=20), language, script=lambda _: fakes.one_hot(ord("x")))
    assert [len(output.text) for output in got.values()] == [20] * 3
    assert all(output.finish.complete for output in got.values())


def test_without_room_the_others_wait_and_a_later_request_is_served_too():
    model = fakes.FakeModel(fakes.noise)
    decoder = make_decoder(model, max_rows=2, num_blocks=12, share_prefixes=True)
    decoder.submit(sampled("a", n=6, max_tokens=30, ignore_eos=True))
    decoder.submit(sampled("b", n=2, max_tokens=5, ignore_eos=True))
    chunks = run(decoder)
    assert {len(outputs(chunks[name])) for name in "a"} == {6}
    assert all(len(o.tokens) == 30 for o in outputs(chunks["a"]).values())
    assert all(len(o.tokens) == 5 for o in outputs(chunks["b"]).values())


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_cancel_ends_all_of_them(steps):
    decoder = make_decoder(fakes.FakeModel(fakes.noise), max_rows=3)
    decoder.submit(sampled(n=5, max_tokens=100, ignore_eos=True))
    for _ in range(steps):
        decoder.step()
    decoder.cancel("a")
    reasons = [chunk.finish.reason for chunk in decoder.step() if chunk.finish]
    assert reasons == [FinishReason.CANCELLED] * 5
    assert decoder.is_idle
    assert decoder.load.kv_used_blocks == 0


def test_a_fault_in_one_ends_the_request(caplog):
    def script(history):
        logits = fakes.noise(history)
        said = bytes(history).partition(b">")[2]
        if len(said) == 3 and said[0] % 2:
            logits[:] = float("nan")
        return logits

    got, _ = ask(sampled(n=5, max_tokens=20, ignore_eos=True), script=script, max_rows=8)
    assert {output.finish.reason for output in got.values()} == {FinishReason.ERROR}
    assert len(got) == 5
    assert "not numbers" in caplog.text


def test_a_failing_forward_ends_those_that_are_held_too(caplog):
    decoder = make_decoder(fakes.FakeModel(lambda _: 1 / 0))
    decoder.submit(sampled(n=3))
    assert [c.finish.reason for c in decoder.step()] == [FinishReason.ERROR] * 3
    assert decoder.is_idle
    assert "step failed" in caplog.text


def test_on_real_arithmetic_a_copied_block_is_the_block():
    model = CpuLlama(tiny.build(tiny.CONFIGS["llama"]), threads=2)

    def tokens(n, seed):
        decoder = Decoder(
            model,
            tiny.make_cache(model),
            token_bytes=lambda token: bytes([token]),
            eos_ids=(1,),
            vocab_size=tiny.VOCAB,
            fill_masks=fakes.fill_masks,
        )
        request = make_request(
            "a", "12345678901234567890", sampling=Sampling(temperature=1.0, seed=seed),
            max_tokens=20, ignore_eos=True,
        )  # fmt: skip
        decoder.submit(msgspec.structs.replace(request, n=n))
        found = outputs(run(decoder)["a"])
        return [found[i].tokens for i in range(n)]

    together = tokens(4, 7)
    assert together == [tokens(1, 7 + i)[0] for i in range(4)]
    assert len(set(together)) == 4


def test_seeds_wrap_around():
    got, _ = ask(sampled(n=2, seed=2**64 - 1, max_tokens=8, ignore_eos=True))
    alone, _ = ask(sampled(seed=0, max_tokens=8, ignore_eos=True))
    assert got[1].tokens == alone[0].tokens
