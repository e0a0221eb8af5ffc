"""A decoder over fakes, and what tests do with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from service.engine.decoder import Decoder
from service.engine.kv_cache import KVCache
from service.engine.types import Chunk, GenerationRequest, Sampling, Stopping
from tests import fakes


def make_decoder(
    model: fakes.FakeModel,
    *,
    num_blocks: int = 64,
    max_rows: int = 4,
    share_prefixes: bool = False,
    **options: Any,
) -> Decoder:
    kv = KVCache(
        model.layers,
        num_blocks=num_blocks,
        max_rows=max_rows,
        max_tokens=model.max_context,
        dtype=model.dtype,
        device=model.device,
        share_prefixes=share_prefixes,
    )
    settings: dict[str, Any] = {
        "token_bytes": fakes.token_bytes,
        "eos_ids": (fakes.EOS,),
        "vocab_size": fakes.VOCAB,
        "fill_masks": fakes.fill_masks,
    }
    return Decoder(model, kv, **(settings | options))


def make_request(name: str, prompt: str | None = None, **fields: Any) -> GenerationRequest:
    stopping = {key: fields.pop(key) for key in Stopping.__struct_fields__ if key in fields}
    return GenerationRequest(
        request_id=name,
        prompt_ids=fakes.encode(f"{name}>" if prompt is None else prompt),
        sampling=fields.pop("sampling", Sampling(temperature=0)),
        stopping=Stopping(**stopping),
        **fields,
    )


def run(decoder: Decoder, max_steps: int = 1000) -> dict[str, list[Chunk]]:
    """Steps until idle: each request's chunks."""
    chunks: dict[str, list[Chunk]] = {}
    for _ in range(max_steps):
        if decoder.is_idle:
            return chunks
        for chunk in decoder.step():
            chunks.setdefault(chunk.request_id, []).append(chunk)
    raise AssertionError("the decoder does not come to an end")


def answer(chunks: list[Chunk]) -> Chunk:
    """All chunks of one request as one."""
    assert [c.finish is not None for c in chunks] == [False] * (len(chunks) - 1) + [True]
    return Chunk(
        request_id=chunks[0].request_id,
        text="".join(c.text for c in chunks),
        tokens=tuple(t for c in chunks for t in c.tokens),
        finish=chunks[-1].finish,
    )


def generate(
    script: Callable[..., Any], request: GenerationRequest, texts: list[bytes] | None = None
) -> Chunk:
    """One request alone: its answer."""
    decoder = make_decoder(fakes.FakeModel(script))
    decoder.submit(request, fakes.FakeGrammar(texts) if texts is not None else None)
    return answer(run(decoder)[request.request_id])
