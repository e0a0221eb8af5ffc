"""The command line's gRPC client: a synchronous call, and errors a person can read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status
from typing_extensions import override

from service.engine.types import Constraint, JsonFormat
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
    constraint: Constraint | None = None
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


@dataclass(frozen=True, slots=True)
class Ending:
    """Whether the text is whole, and the stop regexes that were given up."""

    is_complete: bool
    abandoned: tuple[str, ...]


def generate(address: str, call: Call, timeout_s: float) -> Iterator[str | Ending]:
    """The whole text, then how it ended. Raises CallError."""
    with _stub(address) as stub:
        (output,) = stub.Generate(_request(call), timeout=timeout_s).outputs
        yield output.text
        yield Ending(output.complete, tuple(output.abandoned_stop_regex))


def generate_stream(address: str, call: Call, timeout_s: float) -> Iterator[str | Ending]:
    """Pieces of the text as they come, then how it ended. Raises CallError."""
    with _stub(address) as stub:
        for event in stub.GenerateStream(_request(call), timeout=timeout_s):
            match event.WhichOneof("event"):
                case "delta":
                    yield event.delta.text
                case "finished":
                    ended = event.finished
                    yield Ending(ended.complete, tuple(ended.abandoned_stop_regex))


def health(address: str, service: str, timeout_s: float) -> str:
    """The name of a ServingStatus, also where the server does not know it. Raises CallError."""
    asked = health_pb2.HealthCheckRequest(service=service)
    with connected(address) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(asked, timeout=timeout_s)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return "SERVICE_UNKNOWN"
            raise
    name: str = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    return name


@contextmanager
def connected(address: str) -> Iterator[grpc.Channel]:
    """A channel to a server; a call on it that fails raises CallError."""
    with _channel(address) as channel:
        key = os.environ.get("SYNTAXD_API_KEY")
        try:
            yield grpc.intercept_channel(channel, _Bearer(key)) if key else channel
        except grpc.RpcError as error:
            raise CallError(_explain(address, error)) from None


def _channel(address: str) -> grpc.Channel:
    """With TLS where SYNTAXD_CA names who signed the server's certificate. Raises CallError."""
    options: list[tuple[str, Any]] = [("grpc.max_receive_message_length", MAX_ANSWER_BYTES)]
    ca, certificate, key = map(_pem, ("CA", "CLIENT_CERTIFICATE", "CLIENT_KEY"))
    if ca is None:
        return grpc.insecure_channel(address, options=options)
    if (certificate is None) != (key is None):
        raise CallError("SYNTAXD_CLIENT_CERTIFICATE and SYNTAXD_CLIENT_KEY go together")
    credentials = grpc.ssl_channel_credentials(ca, key, certificate)
    if name := os.environ.get("SYNTAXD_SERVER_NAME"):  # asked by another than its own: a probe
        options.append(("grpc.ssl_target_name_override", name))
    return grpc.secure_channel(address, credentials, options=options)


def _pem(name: str) -> bytes | None:
    """What the file holds that a variable names. Raises CallError."""
    path = os.environ.get(f"SYNTAXD_{name}")
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CallError(f"SYNTAXD_{name}: {path}: {error.strerror or error}") from None


class _Bearer(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """Sends an API key with every call."""

    def __init__(self, key: str) -> None:
        self._metadata = ("authorization", f"Bearer {key}")

    @override
    def intercept_unary_unary(
        self, continuation: Callable[[Any, Any], Any], client_call_details: Any, request: Any
    ) -> Any:
        return self._send(continuation, client_call_details, request)

    @override
    def intercept_unary_stream(
        self, continuation: Callable[[Any, Any], Any], client_call_details: Any, request: Any
    ) -> Any:
        return self._send(continuation, client_call_details, request)

    def _send(self, continuation: Callable[[Any, Any], Any], details: Any, request: Any) -> Any:
        metadata = (*(details.metadata or ()), self._metadata)
        return continuation(details._replace(metadata=metadata), request)


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
    request = generation_pb2.GenerateRequest(sampling=sampling, stopping=stopping)
    if call.constraint is not None:
        request.constraint.CopyFrom(constraint_to_proto(call.constraint))
    if call.best_effort:
        request.completion_policy = generation_pb2.COMPLETION_POLICY_BEST_EFFORT
    if call.raw:
        request.prompt = call.prompt
    else:
        message = generation_pb2.ChatMessage(role="user", content=call.prompt)
        request.chat.messages.append(message)
        request.chat.describe_constraint = request.HasField("constraint")
    return request


def constraint_to_proto(constraint: Constraint) -> constraint_pb2.Constraint:
    """The constraint as a request carries it."""
    if constraint.kind == "regex":
        return constraint_pb2.Constraint(regex=constraint.text)
    if constraint.kind == "choice":
        choice = constraint_pb2.ChoiceConstraint(choices=constraint.choices)
        return constraint_pb2.Constraint(choice=choice)
    return constraint_pb2.Constraint(
        json_schema=constraint.text, json_format=_format_to_proto(constraint.json_format)
    )


def _format_to_proto(form: JsonFormat) -> constraint_pb2.JsonFormat | None:
    if form == JsonFormat():
        return None
    additional = {
        "auto": constraint_pb2.ADDITIONAL_PROPERTIES_DEFAULT_UNSPECIFIED,
        "allow": constraint_pb2.ADDITIONAL_PROPERTIES_DEFAULT_ALLOW,
        "forbid": constraint_pb2.ADDITIONAL_PROPERTIES_DEFAULT_FORBID,
    }
    return constraint_pb2.JsonFormat(
        whitespace=f"WHITESPACE_{form.whitespace.upper()}",
        max_whitespace_run=form.max_whitespace_run,
        property_order=f"PROPERTY_ORDER_{form.property_order.upper()}",
        additional_properties_default=additional[form.additional_properties_default],
        ascii_only=form.ascii_only,
        formats=f"FORMATS_{form.formats.upper()}",
    )


def _explain(address: str, error: grpc.RpcError) -> str:
    code, text = error.code(), error.details()
    reason = _reason(error)
    if code is grpc.StatusCode.UNAVAILABLE and not reason:
        if os.environ.get("SYNTAXD_CA"):
            return f"no server answers with TLS at {address}: {text}"
        return f"no server answers at {address} (start one with: syntaxd serve)"
    if reason == "UNKNOWN_API_KEY":
        return f"{address} wants an API key that it knows, in SYNTAXD_API_KEY"
    return f"{code.name}{f' {reason}' if reason else ''}: {text}"


def _reason(error: grpc.RpcError) -> str:
    status = rpc_status.from_call(error)
    for detail in status.details if status else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            return str(info.reason)
    return ""
