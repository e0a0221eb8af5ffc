"""The engine process as the front uses it, over a tiny model on disk."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest
import pytest_asyncio

from service.engine import core
from service.engine.engine import EngineClient, EngineStartError, LocalEngine
from service.engine.tokenizer import Tokenizer
from service.engine.types import (
    Constraint,
    EngineSettings,
    FinishReason,
    GenerationRequest,
    Sampling,
    Stopping,
)
from service.errors import Unavailable
from tests.service.engine import tiny

# One process serves all tests of a kind: starting one takes seconds.
pytestmark = pytest.mark.asyncio(loop_scope="module")
YES_OR_NO = Constraint(kind="choice", choices=("yes", "no", "maybe not"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.save_folder(tmp_path_factory.mktemp("model") / "tiny")


def settings(folder, **changes):
    defaults = {"model": str(folder), "threads": 1, "max_rows": 4, "max_queue": 2}
    return EngineSettings(**defaults | changes)


def make_request(name, prompt="hello", constraint=None, seed=0, deadline=None, **stopping):
    return GenerationRequest(
        request_id=name,
        prompt_ids=tuple(prompt.encode()),
        sampling=Sampling(temperature=1.0, seed=seed),
        stopping=Stopping(**stopping),
        constraint=constraint,
        deadline=deadline,
    )


@pytest_asyncio.fixture(params=["process", "local"], scope="module", loop_scope="module")
async def engine(request, folder):
    if request.param == "process":
        engine = EngineClient(settings(folder))
    else:
        engine = LocalEngine(core.load(settings(folder)))
    await engine.start()
    yield engine
    await engine.close()


async def collect(engine, request):
    return [chunk async for chunk in engine.submit(request)]


async def test_it_says_what_it_serves(folder):
    engine = EngineClient(settings(folder))
    heard = []
    info = await engine.start(heard.append)
    await engine.close()
    assert (info.name, info.vocab_size, info.logit_size) == ("tiny", 257, 259)
    assert info.eos_token_ids == (256,)
    assert info.max_context_tokens == info.max_request_tokens == 512
    assert (info.dtype, info.device) == ("float32", "cpu")
    assert any("loading" in message for message in heard)
    assert not engine.died.done()


async def test_requests_run_side_by_side_and_each_ends_once(engine):
    answers = await asyncio.gather(
        *(collect(engine, make_request(f"r{i}", seed=i, max_tokens=20)) for i in range(5))
    )
    for i, chunks in enumerate(answers):
        assert {c.request_id for c in chunks} == {f"r{i}"}
        assert [c.finish is not None for c in chunks] == [False] * (len(chunks) - 1) + [True]
        assert chunks[-1].finish.usage.completion_tokens == sum(len(c.tokens) for c in chunks)


async def test_a_constraint_is_compiled_and_obeyed(engine):
    for i in range(4):
        chunks = await collect(engine, make_request(f"r{i}", constraint=YES_OR_NO, seed=i))
        assert "".join(c.text for c in chunks) in YES_OR_NO.choices
        assert chunks[-1].finish.complete


async def test_a_refusal_is_a_chunk_with_the_error(engine):
    (chunk,) = await collect(engine, make_request("a", constraint=YES_OR_NO, max_tokens=1))
    assert chunk.finish.reason is FinishReason.ERROR
    assert chunk.finish.error.reason == "BUDGET_TOO_SMALL"
    assert chunk.finish.error.metadata["minOutputTokens"] == "2"


async def test_a_constraint_that_does_not_compile_is_refused(engine):
    broken = Constraint(kind="regex", text="(")
    (chunk,) = await collect(engine, make_request("a", constraint=broken))
    assert chunk.finish.error.code == "INVALID_ARGUMENT"


async def test_more_than_fit_get_queue_full(engine):
    answers = await asyncio.gather(
        *(collect(engine, make_request(f"r{i}", max_tokens=400, min_tokens=400)) for i in range(9))
    )
    reasons = [a[-1].finish.error.reason for a in answers if a[-1].finish.error]
    assert reasons == ["QUEUE_FULL"] * 3  # 4 rows and 2 places are taken


async def test_leaving_early_cancels_and_the_place_is_free(engine):
    for i in range(10):  # more than there are places
        chunks = engine.submit(make_request(f"r{i}", max_tokens=400, min_tokens=400))
        await anext(chunks)
        await chunks.aclose()
    assert (await collect(engine, make_request("last", constraint=YES_OR_NO)))[-1].finish.complete


async def test_cancel_ends_the_iteration(engine):
    chunks = engine.submit(make_request("a", max_tokens=500, min_tokens=500))
    await anext(chunks)
    engine.cancel("a")
    engine.cancel("nobody")
    rest = [chunk async for chunk in chunks]
    assert rest[-1].finish.reason is FinishReason.CANCELLED


async def test_a_passed_deadline_ends_the_request(engine):
    deadline = time.monotonic() + 0.05
    request = make_request("a", max_tokens=500, min_tokens=500, deadline=deadline)
    chunks = await collect(engine, request)
    assert chunks[-1].finish.error.code == "DEADLINE_EXCEEDED"


async def test_in_process_and_in_its_own_process_say_the_same(folder):
    request = make_request("a", seed=5, max_tokens=60)
    said = []
    client = EngineClient(settings(folder))
    for engine in (client, LocalEngine(core.load(settings(folder)))):
        await engine.start()
        said.append([c.tokens for c in await collect(engine, request)])
        await engine.close()
    assert said[0] == said[1]


async def test_when_the_engine_dies_who_waits_is_told(folder):
    engine = EngineClient(settings(folder))
    await engine.start()
    chunks = engine.submit(make_request("a", max_tokens=500, min_tokens=500))
    await anext(chunks)
    os.kill(engine.pid, signal.SIGKILL)
    with pytest.raises(Unavailable, match="signal 9"):
        async for _ in chunks:
            pass
    assert await asyncio.wait_for(engine.died, 5) == "signal 9"
    with pytest.raises(Unavailable):
        await collect(engine, make_request("b"))
    await engine.close()


async def test_when_the_front_goes_the_engine_ends(folder):
    engine = EngineClient(settings(folder))
    await engine.start()
    chunks = engine.submit(make_request("a", max_tokens=500, min_tokens=500))
    await anext(chunks)
    engine._writer.transport.abort()
    assert await asyncio.wait_for(engine._process.wait(), 5) == 0
    await engine.close()


async def test_a_model_that_cannot_be_served_says_why(tmp_path):
    engine = EngineClient(settings(tmp_path / "nowhere"))
    with pytest.raises(EngineStartError, match="nowhere"):
        await engine.start()
    await engine.close()


async def test_the_chat_template_ends_where_the_answer_begins(folder):
    tokenizer = Tokenizer.load(folder)
    ids = tokenizer.apply_chat([{"role": "user", "content": "hé"}])
    assert b"".join(map(tokenizer.token_bytes, ids)) == "<user>hé<assistant>".encode()
    assert ids.count(256) == 1
    assert bytes(tokenizer.encode("hé")) == "hé".encode()


async def test_a_chat_template_that_refuses_says_why(folder, tmp_path):
    copy = tmp_path / "model"
    copy.mkdir()
    for name in ("tokenizer.json", "config.json", "generation_config.json"):
        (copy / name).write_bytes((folder / name).read_bytes())
    with pytest.raises(ValueError, match="no chat template"):
        Tokenizer.load(copy).apply_chat([])
    (copy / "chat_template.jinja").write_text("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(ValueError, match="roles must alternate"):
        Tokenizer.load(copy).apply_chat([])
