"""A server that answers "yes" to everything but the regex "(", and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc

from grammar.errors import ConstraintSyntaxError
from service.engine.types import Constraint
from service.rpc import refusals
from service.rpc.convert import status
from service.rpc.pb.v1 import generation_pb2 as g
from service.rpc.pb.v1 import generation_pb2_grpc


@dataclass
class Running:
    """Where the server is, and its requests so far."""

    address: str = ""
    requests: list[g.GenerateRequest] = field(default_factory=list)


class _Servicer(generation_pb2_grpc.GenerationServiceServicer):
    def __init__(self, seen):
        self.seen = seen

    def _see(self, request, context):
        self.seen.append(request)
        if request.constraint.regex == "(":
            error = ConstraintSyntaxError("unclosed group", "@0")
            constraint = Constraint(kind="regex", text="(")
            context.abort_with_status(status.to_grpc(refusals.from_grammar(error, constraint)))

    def Generate(self, request, context):
        self._see(request, context)
        if request.prompt == "cut":
            output = g.Output(text="ye", abandoned_stop_regex=request.stopping.stop_regex)
        else:
            output = g.Output(text="yes", complete=True)
        return g.GenerateResponse(outputs=[output])

    def GenerateStream(self, request, context):
        self._see(request, context)
        yield g.GenerateStreamResponse(started=g.Started())
        for letter in "yes":
            yield g.GenerateStreamResponse(delta=g.TextDelta(text=letter))
        yield g.GenerateStreamResponse(finished=g.Finished(complete=True))


@contextmanager
def running() -> Iterator[Running]:
    """A server on a free loopback port."""
    state = Running()
    server = grpc.server(ThreadPoolExecutor(2))
    generation_pb2_grpc.add_GenerationServiceServicer_to_server(_Servicer(state.requests), server)
    state.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield state
    finally:
        server.stop(0).wait()
