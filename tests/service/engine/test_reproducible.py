"""Reproducible mode: who shares the batch changes no token (decision 14), on real arithmetic."""

from __future__ import annotations

import pytest

from service.engine.decoder import Decoder
from service.engine.loading import adapt
from service.engine.types import Sampling
from tests import fakes
from tests.service.engine import tiny
from tests.service.engine.decoding import answer, make_request, run

PROMPTS = {"a": [5, 6, 7], "b": list(range(2, 60)), "c": [9] * 17, "d": [3]}


def make_decoder(model):
    return Decoder(
        model,
        tiny.make_cache(model, num_blocks=64),
        token_bytes=lambda token: bytes([token]),
        eos_ids=(1,),
        vocab_size=tiny.VOCAB,
        fill_masks=fakes.fill_masks,
        step_tokens=32,
        reproducible=True,
    )


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_rows_in_a_batch_give_the_tokens_that_each_gives_alone(name):
    model = adapt(tiny.build(tiny.CONFIGS[name]), reproducible=True)
    requests = [
        make_request(
            key,
            sampling=Sampling(temperature=0.0 if key == "a" else 1.0, seed=i),
            max_tokens=30,
            min_tokens=30,
        )
        for i, key in enumerate(PROMPTS)
    ]
    requests = [
        type(r)(**{f: getattr(r, f) for f in r.__struct_fields__} | {"prompt_ids": tuple(ids)})
        for r, ids in zip(requests, PROMPTS.values(), strict=True)
    ]
    together = make_decoder(model)
    for request in requests:
        together.submit(request)
        together.step()  # they join one after the other
    chunks = run(together)
    for request in requests:
        alone = make_decoder(model)
        alone.submit(request)
        expected = [t for c in run(alone)[request.request_id] for t in c.tokens]
        tail = [t for c in chunks[request.request_id] for t in c.tokens]
        assert answer(chunks[request.request_id]).finish.usage.completion_tokens == 30
        assert tail == expected[-len(tail) :]
        assert len(tail) > 20
