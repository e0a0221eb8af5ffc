"""Stand-ins for the engine process, the tokenizer and the compiler: a few honest lines each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc

from grammar import Check, Limits
from grammar.errors import ConstraintSyntaxError, GrammarError
from service.engine.known import Excerpt, Known, KnownConstraints, Summary, id_of
from service.engine.types import (
    Chunk,
    Finish,
    FinishReason,
    Load,
    ModelInfo,
    Sampling,
    StopDetail,
    Timing,
    Token,
    Usage,
)
from service.errors import Unavailable
from service.rpc import server as grpc_server
from service.rpc.admin_servicer import AdminServicer
from service.rpc.api_keys import ApiKeys
from service.rpc.constraint_servicer import ConstraintServicer
from service.rpc.constraints import Constraints
from service.rpc.convert import model as convert_model
from service.rpc.counting import Counting
from service.rpc.front import Front
from service.rpc.generation_servicer import GenerationServicer
from service.rpc.metrics import Metrics
from service.rpc.model_servicer import ModelServicer
from service.rpc.tokens import Tokens

MODEL = ModelInfo(
    name="tiny",
    max_context_tokens=256,
    max_request_tokens=256,
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
        "usage": Usage(
            prompt_tokens=3,
            completion_tokens=tokens,
            forced_tokens=1,
            drafted_tokens=4,
            accepted_draft_tokens=2,
        ),
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
        self.is_up = True
        self.load: Load | None = None
        self.submitted = []
        self.cancelled = []

    def check(self) -> None:
        if isinstance(self.failure, Unavailable):
            raise self.failure

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

    def encode(self, text, add_special_tokens=True):
        begin = [1] if add_special_tokens and text.startswith("^") else []
        return begin + list(text.encode())

    def apply_chat(self, messages):
        if messages[-1]["role"] != "user":
            raise ValueError("the last message must be the user's")
        return list("".join(each["content"] for each in messages).encode())

    def token_bytes(self, token_id):
        return bytes([token_id]) if token_id > 1 else b""

    def special_text(self, token_id):
        return {0: "<end>", 1: "<begin>"}.get(token_id, "")


class FakeAutomaton(str):
    """Equal to its name; of 8 bytes."""

    table = accept = np.zeros(1, np.int32)


@dataclass
class FakeGrammar:
    lexemes: dict = field(default_factory=lambda: {"a": FakeAutomaton("automaton")})
    diagnostics: tuple = ()
    nbytes: int = 100


class FakeCompiler:
    """Compiles everything to ``compiled``, or fails with ``error``; any text is complete."""

    num_compiling = 0

    def __init__(self) -> None:
        self.known = KnownConstraints(max_pins=2, max_pinned_bytes=1_000)
        self.compiled = FakeGrammar()
        self.min_tokens = 3
        self.error: GrammarError | TimeoutError | None = None
        self.check_error: GrammarError | TimeoutError | None = None
        self.reports = ()
        self.num_keywords = 0
        self.longest = 9
        self.gate = asyncio.Event()
        self.gate.set()

    async def compile(self, constraint):
        constraint_id = id_of(constraint, "fake")
        found = self.known.get(constraint_id)
        if found:
            return found, True
        await self.recogniser(constraint)
        known = Known(constraint_id, constraint, self.compiled, self.min_tokens, compile_us=17)
        self.known.put(known)
        return known, False

    async def summary(self, known):
        return Summary(known.constraint.text.encode(), self.longest, self.excerpt())

    async def refused(self, constraint):
        return self.excerpt()

    def excerpt(self):
        return Excerpt(tuple(self.reports), self.num_keywords or len(self.reports))

    async def recogniser(self, constraint):
        await self.gate.wait()
        if self.error:
            raise self.error
        if constraint.text == "(":
            raise ConstraintSyntaxError("unclosed group", "@0")
        return constraint

    async def check(self, recogniser, text):
        if self.check_error:
            raise self.check_error
        same = text.decode() == recogniser.text
        return Check("complete" if same else "rejected", len(text) * same, ("y",), None, not same)


@dataclass
class Served:
    """A real server on a loopback socket with fakes behind it, and a channel to it."""

    front: Front
    engine: FakeEngine
    compiler: FakeCompiler
    server: grpc_server.Server
    channel: grpc.aio.Channel
    metrics: Metrics
    told_to_stop: list[bool]

    async def health(self):
        """The server's status over the channel, or the code of the error."""
        stub = health_pb2_grpc.HealthStub(self.channel)
        try:
            return (await stub.Check(health_pb2.HealthCheckRequest(), timeout=10)).status
        except grpc.aio.AioRpcError as error:
            return error.code()


@asynccontextmanager
async def serving(
    capacity: int = 2,
    max_message_bytes: int = 4096,
    api_keys: ApiKeys | None = None,
    credentials: grpc.ServerCredentials | None = None,
    with_admin: bool = False,
    log_calls: bool = False,
) -> AsyncIterator[Served]:
    """The channel is one without TLS, whatever the ``credentials``."""
    engine, compiler, tokenizer = FakeEngine(), FakeCompiler(), FakeTokenizer()
    metrics = Metrics()
    constraints = Constraints(compiler, capacity, metrics)
    tokens = Tokens(tokenizer, MODEL.vocab_size)
    front = Front(
        model=MODEL,
        engine=engine,
        tokenizer=tokenizer,
        tokens=tokens,
        constraints=constraints,
        watch=metrics,
        capacity=capacity,
    )
    server = grpc_server.bind(
        "127.0.0.1",
        0,
        max_message_bytes,
        api_keys=api_keys,
        counting=Counting(metrics, log_calls=log_calls),
        credentials=credentials,
    )
    told_to_stop: list[bool] = []
    admin = AdminServicer(
        front=front,
        constraints=constraints,
        engine=engine,
        draining=server.draining,
        stop=lambda: told_to_stop.append(True),
    )
    grpc_server.register(
        server,
        GenerationServicer(front, api_keys),
        ConstraintServicer(constraints, MODEL),
        ModelServicer(MODEL, convert_model.model(MODEL, Limits(), 500), tokens),
        admin=admin if with_admin else None,
    )
    await server.grpc_server.start()
    await grpc_server.set_serving(server, MODEL.name)
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            yield Served(front, engine, compiler, server, channel, metrics, told_to_stop)
    finally:
        tokens.close()
        await server.grpc_server.stop(0)
