"""A server that says what it is told to and remembers what it was asked, on the client's stubs."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import Message
from google.rpc import status_pb2

from syntaxd_client.pb.v1 import constraint_pb2_grpc as constraint_grpc
from syntaxd_client.pb.v1 import generation_pb2_grpc as generation_grpc
from syntaxd_client.pb.v1 import model_pb2_grpc as model_grpc


@dataclass
class FakeServer:
    """``answers`` by method name: a response, a list of events, or what ``refusal`` makes."""

    answers: dict[str, Any] = field(default_factory=dict)
    address: str = ""
    requests: list[Message] = field(default_factory=list)
    metadata: list[dict[str, str | bytes]] = field(default_factory=list)
    seconds_left: list[float | None] = field(default_factory=list)

    def answer(self, method: str, request: Message, context: grpc.ServicerContext) -> Any:
        self.requests.append(request)
        self.metadata.append(dict(context.invocation_metadata()))
        self.seconds_left.append(context.time_remaining())
        said = self.answers[method]
        if callable(said):
            said = said(request)
        if isinstance(said, Refusal):
            context.set_trailing_metadata(said.trailers)
            context.abort(said.code, said.message)
        return said


@dataclass
class Refusal:
    """A status with google.rpc details."""

    code: grpc.StatusCode
    message: str
    trailers: tuple[tuple[str, bytes], ...]


def refusal(code: grpc.StatusCode, message: str, *details: Message) -> Refusal:
    status = status_pb2.Status(code=code.value[0], message=message)
    for each in details:
        packed = any_pb2.Any()
        packed.Pack(each)
        status.details.append(packed)
    return Refusal(code, message, (("grpc-status-details-bin", status.SerializeToString()),))


def _servicer(base: type, state: FakeServer) -> Any:
    """Every method of a service asks the script."""

    def method(name: str) -> Any:
        def unary(self, request, context):
            return state.answer(name, request, context)

        def stream(self, request, context):
            for event in state.answer(name, request, context):
                if isinstance(event, Refusal):
                    context.set_trailing_metadata(event.trailers)
                    context.abort(event.code, event.message)
                yield event

        return stream if name.endswith("Stream") else unary

    names = [name for name in vars(base) if name[0].isupper()]
    return type("Scripted", (base,), {name: method(name) for name in names})()


@contextmanager
def running(*, secure: bool = False, **answers: Any) -> Iterator[FakeServer]:
    """One on a free loopback port; ``secure`` with gRPC's credentials for one machine."""
    state = FakeServer(answers)
    server = grpc.server(ThreadPoolExecutor(4))
    for module, name in (
        (generation_grpc, "GenerationService"),
        (constraint_grpc, "ConstraintService"),
        (model_grpc, "ModelService"),
    ):
        servicer = _servicer(getattr(module, f"{name}Servicer"), state)
        getattr(module, f"add_{name}Servicer_to_server")(servicer, server)
    if secure:
        port = server.add_secure_port("127.0.0.1:0", grpc.local_server_credentials())
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    state.address = f"127.0.0.1:{port}"
    server.start()
    try:
        yield state
    finally:
        server.stop(0).wait()
