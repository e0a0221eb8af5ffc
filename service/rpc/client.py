"""The command line's gRPC client: a synchronous call, and errors a person can read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from service.rpc.pb.v1 import constraint_pb2, generation_pb2, generation_pb2_grpc

MAX_ANSWER_BYTES = 64 << 20


class CallError(Exception):
    """The server refused or could not be reached; the text says what and what to do."""


class BadCallError(CallError):
    """An option is out of the range that the contract can carry."""


@dataclass(frozen=True, slots=True)
class Call:
    """What the command line asks for; None means the server's default."""

    prompt: str
    raw: bool = False  # the prompt as it stands, not as a user's message
    json_schema: str | None = None
    regex: str | None = None
    choices: tuple[str, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    min_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stop_regex: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    unit: str | None = None  # a value of StopUnit, without its prefix, in small letters
    include_stop: bool = False
    ignore_eos: bool = False
    best_effort: bool = False


def generate(address: str, call: Call, timeout_s: float) -> str:
    """The whole text. Raises CallError."""
    with _stub(address) as stub:
        response = stub.Generate(_request(call), timeout=timeout_s)
        return response.outputs[0].text


def generate_stream(address: str, call: Call, timeout_s: float) -> Iterator[str]:
    """Pieces of the text as they come. Raises CallError."""
    with _stub(address) as stub:
        for event in stub.GenerateStream(_request(call), timeout=timeout_s):
            if event.WhichOneof("event") == "delta":
                yield event.delta.text


@contextmanager
def connected(address: str) -> Iterator[grpc.Channel]:
    """A channel to a server; a call on it that fails raises CallError."""
    options = [("grpc.max_receive_message_length", MAX_ANSWER_BYTES)]
    with grpc.insecure_channel(address, options=options) as channel:
        try:
            yield channel
        except grpc.RpcError as error:
            raise CallError(_explain(address, error)) from None


@contextmanager
def _stub(address: str) -> Iterator[generation_pb2_grpc.GenerationServiceStub]:
    with connected(address) as channel:
        yield generation_pb2_grpc.GenerationServiceStub(channel)


def _request(call: Call) -> generation_pb2.GenerateRequest:
    try:
        sampling = generation_pb2.SamplingParams(
            temperature=call.temperature, seed=call.seed, logit_bias=call.logit_bias
        )
        stopping = generation_pb2.StoppingOptions(
            max_tokens=call.max_tokens,
            min_tokens=call.min_tokens,
            stop=call.stop,
            stop_regex=call.stop_regex,
            stop_token_ids=call.stop_token_ids,
            unit=f"STOP_UNIT_{call.unit.upper()}" if call.unit else None,
            include_stop_in_output=call.include_stop or None,
            ignore_eos=call.ignore_eos or None,
        )
    except ValueError as error:  # of protobuf: a negative seed, say
        raise BadCallError(str(error)) from None
    request = generation_pb2.GenerateRequest(
        sampling=sampling, stopping=stopping, constraint=_constraint(call)
    )
    if call.best_effort:
        request.completion_policy = generation_pb2.COMPLETION_POLICY_BEST_EFFORT
    if call.raw:
        request.prompt = call.prompt
    else:
        message = generation_pb2.ChatMessage(role="user", content=call.prompt)
        request.chat.messages.append(message)
        request.chat.describe_constraint = request.HasField("constraint")
    return request


def _constraint(call: Call) -> constraint_pb2.Constraint | None:
    if call.json_schema is not None:
        return constraint_pb2.Constraint(json_schema=call.json_schema)
    if call.regex is not None:
        return constraint_pb2.Constraint(regex=call.regex)
    if call.choices:
        choice = constraint_pb2.ChoiceConstraint(choices=call.choices)
        return constraint_pb2.Constraint(choice=choice)
    return None


def _explain(address: str, error: grpc.RpcError) -> str:
    code, text = error.code(), error.details()
    reason = _reason(error)
    if code is grpc.StatusCode.UNAVAILABLE and not reason:
        return f"no server answers at {address} (start one with: syntaxd serve)"
    return f"{code.name}{f' {reason}' if reason else ''}: {text}"


def _reason(error: grpc.RpcError) -> str:
    status = rpc_status.from_call(error)
    for detail in status.details if status else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            return str(info.reason)
    return ""
