"""The contract's messages -> frozen dataclasses with the same field names.

An enum is its word in lower case ("stop", "length"); a field that the server left out is None.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from google.protobuf.message import Message

from syntaxd_client.errors import AnswerError
from syntaxd_client.pb.v1 import constraint_pb2, generation_pb2, model_pb2

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something worth knowing about a constraint that was accepted."""

    severity: str  # "warning", "info"
    code: str  # "OBJECT_CLOSED", ...
    location: str  # a JSON Pointer, or "@" and a byte offset
    message: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    forced_tokens: int | None  # those of the output that the constraint forced
    drafted_tokens: int | None = None  # guessed by the server, to be checked several a step
    accepted_draft_tokens: int | None = None  # ... that were right


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations in microseconds."""

    queue_us: int
    compile_us: int
    time_to_first_token_us: int
    decode_us: int
    mask_us: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that could have stood in a place."""

    token_id: int
    bytes: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class Token:
    """One token of an output."""

    token_id: int
    bytes: bytes  # a token need not be whole UTF-8
    forced: bool  # the constraint left no choice
    logprob: float | None = None  # if asked for
    rank: int | None = None  # 1 for the likeliest
    candidates: tuple[Candidate, ...] = ()  # the likeliest at its place


@dataclass(frozen=True, slots=True)
class Stop:
    """What ended an output."""

    cause: str  # a name of StopDetail.cause: "eos_token_id", "budget_close", ...
    value: Any = None  # what the cause says: the token, the stop text, the number of tokens


@dataclass(frozen=True, slots=True)
class Answer:
    """A generated text and what the server says about it."""

    text: str
    complete: bool  # it matches the constraint as a whole
    finish_reason: str  # "stop", "length"
    stop: Stop | None
    request_id: str
    model: str
    usage: Usage
    timing: Timing | None = None  # if asked for
    diagnostics: tuple[Diagnostic, ...] = ()
    effective_sampling: Mapping[str, Any] = field(default_factory=dict)  # the seed among them
    tokens: tuple[Token, ...] = ()  # if asked for
    abandoned_stop_regex: tuple[str, ...] = ()  # those that took too long to match
    prompt_tokens: tuple[Token, ...] = ()  # if asked for; the first has no logprob
    others: tuple[Answer, ...] = ()  # with n: the further outputs; the counts are of all together

    def json(self) -> Any:
        """The text as JSON. Raises AnswerError."""
        try:
            return json.loads(self.text)
        except ValueError as error:
            raise AnswerError(str(error), self.text) from error


@dataclass(frozen=True, slots=True)
class KeywordReport:
    """What the server makes of one keyword of a schema."""

    location: str  # a JSON Pointer
    keyword: str
    treatment: str  # "enforced", "annotation"
    reason: str


@dataclass(frozen=True, slots=True)
class CompiledConstraint:
    """A constraint that the server has compiled."""

    constraint_id: str
    diagnostics: tuple[Diagnostic, ...]
    min_output_tokens: int  # as max_tokens this always suffices
    max_output_tokens: int | None  # no output takes more
    example: str  # a shortest output
    compiled_bytes: int
    compile_time_us: int
    cached: bool
    pinned: bool
    keywords: tuple[KeywordReport, ...]
    keywords_left_out: int
    diagnostics_left_out: int


@dataclass(frozen=True, slots=True)
class Check:
    """Whether a text matches a constraint."""

    verdict: str  # "complete", "incomplete", "rejected"
    byte_offset: int  # rejected: of the first byte that no matching text has there
    expected: tuple[str, ...]  # words for what may stand there
    shortest_completion: str | None  # incomplete: what makes it whole
    spelling_only: bool  # rejected only for a spelling that the server never generates


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text as a model's tokens."""

    token_ids: tuple[int, ...]
    token_bytes: tuple[bytes, ...]  # if asked for


@dataclass(frozen=True, slots=True)
class Detokenized:
    """Tokens as text."""

    text: str
    raw_bytes: bytes | None  # where the bytes are not UTF-8


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one constraint."""

    max_schema_bytes: int
    max_schema_depth: int
    max_regex_bytes: int
    max_choices: int
    compile_timeout_ms: int


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Constraints that can be given."""

    constraint_kinds: tuple[str, ...]
    json_schema_keywords: tuple[str, ...]
    json_schema_drafts: tuple[str, ...]
    string_formats: tuple[str, ...]
    limits: Limits


@dataclass(frozen=True, slots=True)
class Model:
    """A model that the server serves."""

    name: str
    max_context_tokens: int
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    capabilities: Capabilities


def record(kind: type[R], message: Message, **read: Any) -> R:
    """The dataclass with the message's fields; ``read`` brings those that are no scalars."""
    values = dict(read)
    for each in fields(kind):  # type: ignore[arg-type]
        if each.name not in values:
            values[each.name] = _value(message, each.name)
    return kind(**values)


def _value(message: Message, name: str) -> Any:
    described = message.DESCRIPTOR.fields_by_name[name]
    value = getattr(message, name)
    if isinstance(value, Mapping):
        return dict(value)
    if described.is_repeated:
        return tuple(value)
    if described.has_presence and not message.HasField(name):
        return None
    return _word(described.enum_type, value) if described.enum_type else value


def _word(enum: Any, number: int) -> str:
    """WHITESPACE_COMPACT -> "compact"; a number that our stubs do not know, as it stands."""
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    known = enum.values_by_number.get(number)
    return known.name.removeprefix(prefix).lower() if known else str(number)


def diagnostics(messages: Any) -> tuple[Diagnostic, ...]:
    """Of an answer or a compiled constraint."""
    return tuple(record(Diagnostic, each) for each in messages)


def tokens(messages: Any) -> tuple[Token, ...]:
    """Of an output or a piece of one."""
    return tuple(
        record(Token, each, candidates=tuple(record(Candidate, c) for c in each.candidates))
        for each in messages
    )


def sampling(message: generation_pb2.SamplingParams) -> dict[str, Any]:
    """The fields that are there."""
    return {each.name: _value(message, each.name) for each, _ in message.ListFields()}


def stop(detail: generation_pb2.StopDetail) -> Stop | None:
    """The cause and the one thing that it says, if any."""
    cause = detail.WhichOneof("cause")
    if cause is None:
        return None
    value = _value(detail, cause)
    if isinstance(value, Message):
        said = [_value(value, each.name) for each in value.DESCRIPTOR.fields]
        value = said[0] if said else None
    return Stop(cause, value)


def timing(message: Any) -> Timing | None:
    """Of an answer or a summary."""
    return record(Timing, message.timing) if message.HasField("timing") else None


def answer(response: generation_pb2.GenerateResponse) -> Answer:
    """Of a unary call."""
    first, *others = (_answer(response, output) for output in response.outputs)
    return replace(first, others=tuple(others))


def _answer(response: generation_pb2.GenerateResponse, output: generation_pb2.Output) -> Answer:
    return Answer(
        text=output.text,
        complete=output.complete,
        finish_reason=_value(output, "finish_reason"),
        stop=stop(output.stop_detail),
        request_id=response.request_id,
        model=response.model,
        usage=record(Usage, response.usage),
        timing=timing(response),
        diagnostics=diagnostics(response.diagnostics),
        effective_sampling=sampling(response.effective_sampling),
        tokens=tokens(output.tokens),
        prompt_tokens=tokens(response.prompt_tokens),
        abandoned_stop_regex=tuple(output.abandoned_stop_regex),
    )


class Assembly:
    """The answer of a stream, as its events come."""

    def __init__(self) -> None:
        self._text: defaultdict[int, list[str]] = defaultdict(list)  # by index of the output
        self._tokens: defaultdict[int, list[Token]] = defaultdict(list)
        self._request_id = ""
        self._started = generation_pb2.Started()
        self._finished: dict[int, generation_pb2.Finished] = {}
        self._summary: generation_pb2.Summary | None = None

    def add(self, event: generation_pb2.GenerateStreamResponse) -> str:
        """Takes an event; returns what it adds to the first output, often nothing."""
        self._request_id = event.request_id
        match event.WhichOneof("event"):
            case "started":
                self._started = event.started
            case "delta":
                self._text[event.delta.index].append(event.delta.text)
                self._tokens[event.delta.index].extend(tokens(event.delta.tokens))
                return event.delta.text if event.delta.index == 0 else ""
            case "finished":
                self._finished[event.finished.index] = event.finished
            case "summary":
                self._summary = event.summary
        return ""

    @property
    def text(self) -> str:
        """So far, of the first output."""
        return "".join(self._text[0])

    def answer(self) -> Answer:
        """After the last event."""
        if not self._finished or self._summary is None:
            raise AnswerError("the stream ended before its answer was whole", self.text)
        first, *others = (self._answer(index, self._summary) for index in sorted(self._finished))
        return replace(first, others=tuple(others))

    def _answer(self, index: int, summary: generation_pb2.Summary) -> Answer:
        finished = self._finished[index]
        return Answer(
            text="".join(self._text[index]),
            complete=finished.complete,
            finish_reason=_value(finished, "finish_reason"),
            stop=stop(finished.stop_detail),
            request_id=self._request_id,
            model=self._started.model,
            usage=record(Usage, summary.usage),
            timing=timing(summary),
            diagnostics=diagnostics(self._started.diagnostics),
            effective_sampling=sampling(self._started.effective_sampling),
            tokens=tuple(self._tokens[index]),
            prompt_tokens=tokens(summary.prompt_tokens),
            abandoned_stop_regex=tuple(finished.abandoned_stop_regex),
        )


def compiled(message: constraint_pb2.CompiledConstraint) -> CompiledConstraint:
    """Of CompileConstraint and GetConstraint."""
    return record(
        CompiledConstraint,
        message,
        diagnostics=diagnostics(message.diagnostics),
        keywords=tuple(record(KeywordReport, each) for each in message.keywords),
    )


def model(message: model_pb2.Model) -> Model:
    """Of GetModel and ListModels."""
    given = message.capabilities
    limits = record(Limits, given.limits)
    return record(Model, message, capabilities=record(Capabilities, given, limits=limits))
