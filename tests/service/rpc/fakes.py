"""Stand-ins for the engine process, the tokenizer and the compiler: a few honest lines each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc

from grammar import Limits
from grammar.errors import ConstraintSyntaxError, GrammarError
from service.engine.types import (
    Chunk,
    Finish,
    FinishReason,
    ModelInfo,
    Sampling,
    StopDetail,
    Timing,
    Token,
    Usage,
)
from service.rpc import server as grpc_server
from service.rpc.convert import answer
from service.rpc.front import Front
from service.rpc.servicer import GenerationServicer, ModelServicer

MODEL = ModelInfo(
    name="tiny",
    max_context_tokens=64,
    max_request_tokens=64,
    vocab_size=256,
    logit_size=256,
    dtype="float32",
    device="cpu",
    eos_token_ids=(0,),
    default_sampling=Sampling(temperature=0.25, top_p=0.5, top_k=7, repetition_penalty=1.5),
)


def finish(tokens=0, **changes):
    """A normal end after ``tokens`` tokens."""
    usual = {
        "reason": FinishReason.STOP,
        "complete": True,
        "detail": StopDetail(constraint_complete=True),
        "usage": Usage(prompt_tokens=3, completion_tokens=tokens, forced_tokens=1),
        "timing": Timing(
            queue_us=1, compile_us=2, time_to_first_token_us=3, decode_us=4, mask_us=5
        ),
    }
    return Finish(**(usual | changes))


class FakeEngine:
    """Answers every request with ``text``, a byte a token; a cleared ``gate`` holds it back."""

    def __init__(self, text="yes"):
        self.text = text
        self.failure = None  # a ServiceFailure at the end, or an exception at once
        self.gate = asyncio.Event()
        self.gate.set()
        self.submitted = []
        self.cancelled = []

    async def submit(self, request, lexemes) -> AsyncIterator[Chunk]:
        self.submitted.append((request, lexemes))
        if isinstance(self.failure, Exception):
            raise self.failure
        for letter in self.text:
            await self.gate.wait()
            token = Token(token_id=ord(letter), forced=letter == "e")
            yield Chunk(request_id=request.request_id, text=letter, tokens=(token,))
        await self.gate.wait()
        end = finish(len(self.text))
        if self.failure:
            end = finish(reason=FinishReason.ERROR, complete=False, error=self.failure)
        yield Chunk(request_id=request.request_id, finish=end)

    def cancel(self, request_id: str) -> None:
        self.cancelled.append(request_id)


class FakeTokenizer:
    """A byte is a token; a conversation is its contents, one after the other."""

    def encode(self, text):
        return list(text.encode())

    def apply_chat(self, messages):
        if messages[-1]["role"] != "user":
            raise ValueError("the last message must be the user's")
        return list("".join(each["content"] for each in messages).encode())

    def token_bytes(self, token_id):
        return bytes([token_id])


@dataclass
class FakeGrammar:
    min_tokens: int = 3
    lexemes: dict = field(default_factory=lambda: {"a": "automaton"})
    diagnostics: tuple = ()


class FakeCompiler:
    """Compiles everything to ``compiled``, or fails with ``error``."""

    def __init__(self) -> None:
        self.compiled = FakeGrammar()
        self.error: GrammarError | TimeoutError | None = None

    async def compile(self, constraint):
        if self.error:
            raise self.error
        if constraint.text == "(":
            raise ConstraintSyntaxError("unclosed group", "@0")
        return self.compiled


@dataclass
class Served:
    """A real server on a loopback socket with fakes behind it, and a channel to it."""

    front: Front
    engine: FakeEngine
    compiler: FakeCompiler
    server: grpc_server.Server
    channel: grpc.aio.Channel


@asynccontextmanager
async def serving(capacity: int = 2, max_message_bytes: int = 4096) -> AsyncIterator[Served]:
    engine, compiler = FakeEngine(), FakeCompiler()
    front = Front(
        model=MODEL,
        engine=engine,
        tokenizer=FakeTokenizer(),
        compiler=compiler,
        capacity=capacity,
    )
    server = grpc_server.bind("127.0.0.1", 0, max_message_bytes)
    model = ModelServicer(front, answer.model(MODEL, Limits(), 500))
    grpc_server.register(server, GenerationServicer(front), model)
    await server.grpc_server.start()
    await grpc_server.set_serving(server, MODEL.name)
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            yield Served(front, engine, compiler, server, channel)
    finally:
        await server.grpc_server.stop(0)
