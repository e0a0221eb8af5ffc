"""A server of constraints and tokens only: the real servicers and tokenizer, and no engine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grammar
from service.engine.grammars import Grammars
from service.engine.tokenizer import Tokenizer
from service.engine.types import ModelInfo
from service.rpc import server as grpc_server
from service.rpc.constraint_servicer import ConstraintServicer
from service.rpc.constraints import Constraints
from service.rpc.convert import model as convert_model
from service.rpc.model_servicer import ModelServicer
from service.rpc.pb.v1 import constraint_pb2_grpc, model_pb2_grpc
from service.rpc.tokens import Tokens


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """``host:port`` of a server of the model in ``folder``, in a thread of its own."""
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    ready = threading.Event()
    address: list[str] = []

    async def serve() -> None:
        tokenizer = Tokenizer.load(folder)
        info = _info(tokenizer)
        compiler, tokens = Grammars(tokenizer.vocabulary()), Tokens(tokenizer, info.vocab_size)
        server = grpc_server.bind("127.0.0.1", 0, 4 << 20)
        constraint_pb2_grpc.add_ConstraintServiceServicer_to_server(
            ConstraintServicer(Constraints(compiler, 4), info), server.grpc_server
        )
        described = convert_model.model(info, grammar.Limits(), 10_000)
        model_pb2_grpc.add_ModelServiceServicer_to_server(
            ModelServicer(info, described, tokens), server.grpc_server
        )
        await server.grpc_server.start()
        address.append(f"127.0.0.1:{server.port}")
        ready.set()
        await stop.wait()
        await server.grpc_server.stop(0)
        compiler.close()
        tokens.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(60)
        yield address[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()


def _info(tokenizer: Tokenizer) -> ModelInfo:
    return ModelInfo(
        name="tokens only",
        vocab_size=tokenizer.vocab_size,
        logit_size=tokenizer.logit_size,
        max_context_tokens=1_000,
        max_request_tokens=1_000,
        eos_token_ids=tuple(tokenizer.eos_token_id),
        dtype="float32",
        device="cpu",
    )
