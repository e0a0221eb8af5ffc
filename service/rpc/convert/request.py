"""protobuf -> Draft: the one place where a request's fields are checked.

Each wrong field is an InvalidRequest that names its path in the request and the values allowed.
An absent scalar means the model's default, never zero: ``HasField`` tells them apart.
"""

from __future__ import annotations

import math
import secrets
import uuid
from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

from service.engine.types import Constraint, JsonFormat, Logprobs, ModelInfo, Sampling
from service.errors import InvalidRequest, NotFound
from service.rpc.convert.stopping import check_token, read_stopping, read_unit
from service.rpc.draft import Chat, ConstraintId, Draft, Message, Report, TokenIds
from service.rpc.pb.v1 import constraint_pb2, generation_pb2

MAX_REQUEST_ID_BYTES = 128  # it is written into every log line
MAX_CANDIDATES = 20  # of each place: they are sent with every token
MAX_PRIORITY = 10  # a hundred seconds before or after those who say nothing
MAX_OUTPUTS = 64  # of one request, which holds one place in the queue
MAX_LOGIT_BIAS = 1024  # each is added at every token
MAX_WHITESPACE_RUN = 256  # it bounds how long an answer may be for nothing
MIN_TEMPERATURE = 1e-4  # below it, and above 0, logits overflow binary32
ROLES = ("system", "user", "assistant")  # those that every chat template we know has

_Value = TypeVar("_Value")
_Scope = Literal["all", "free_text"]

_SCOPES: Mapping[int, _Scope] = {1: "all", 2: "free_text"}
_WHITESPACE: Mapping[int, Literal["compact", "single_space", "flexible"]] = {
    0: "compact",
    1: "compact",
    2: "single_space",
    3: "flexible",
}
_ORDER: Mapping[int, Literal["schema", "any"]] = {0: "schema", 1: "schema", 2: "any"}
_ADDITIONAL: Mapping[int, Literal["auto", "allow", "forbid"]] = {
    0: "auto",
    1: "allow",
    2: "forbid",
}
_FORMATS: Mapping[int, Literal["enforce", "annotate"]] = {
    0: "enforce",
    1: "enforce",
    2: "annotate",
}
_MASKED: Mapping[int, bool] = {0: False, 1: False, 2: True}
_GUARANTEED: Mapping[int, bool] = {0: True, 1: True, 2: False}


def check_model_name(name: str, model: ModelInfo) -> None:
    """Raises NotFound unless ``name`` is empty or the served model's."""
    if name not in ("", model.name):
        raise NotFound("UNKNOWN_MODEL", f"model: {name!r} is not here; {model.name!r} is")


def read(request: generation_pb2.GenerateRequest, model: ModelInfo) -> Draft:
    """The request in domain terms. Raises InvalidRequest or NotFound."""
    check_model_name(request.model, model)
    asked = read_constraint(request.constraint) if request.HasField("constraint") else None
    unit = read_unit(request.stopping, constrained=asked is not None)
    return Draft(
        request_id=_request_id(request.request_id),
        priority=_priority(request.priority),
        input=_input(request, model, constrained=asked is not None),
        sampling=_sampling(request.sampling, model, constrained=asked is not None),
        stopping=read_stopping(request.stopping, model.vocab_size),
        constraint=asked or unit,
        guaranteed=_one_of("completion_policy", request.completion_policy, _GUARANTEED),
        report=_report(request.response),
        n=_outputs(request.sampling),
        logprobs=_logprobs(request.response),
        prompt_logprobs=_candidates(request.response, "prompt_logprobs"),
    )


def _request_id(text: str) -> str:
    if len(text.encode()) > MAX_REQUEST_ID_BYTES:
        raise InvalidRequest("request_id", f"longer than {MAX_REQUEST_ID_BYTES} bytes")
    if not text.isprintable():
        raise InvalidRequest("request_id", "has a character that cannot be printed")
    return text or uuid.uuid4().hex


def _priority(value: int) -> int:
    if not -MAX_PRIORITY <= value <= MAX_PRIORITY:
        raise InvalidRequest("priority", f"{value} is not in -{MAX_PRIORITY}..{MAX_PRIORITY}")
    return value


def _input(
    request: generation_pb2.GenerateRequest, model: ModelInfo, *, constrained: bool
) -> str | TokenIds | Chat:
    match request.WhichOneof("input"):
        case "prompt":
            if not request.prompt:
                raise InvalidRequest("prompt", "empty")
            return request.prompt
        case "token_ids":
            return _token_ids(request.token_ids, model.vocab_size)
        case "chat":
            return _chat(request.chat, constrained=constrained)
        case _:
            raise InvalidRequest("input", "set one of prompt, token_ids and chat")


def _token_ids(tokens: generation_pb2.TokenIds, vocab_size: int) -> TokenIds:
    if not tokens.ids:
        raise InvalidRequest("token_ids.ids", "empty")
    for place, token in enumerate(tokens.ids):
        check_token(f"token_ids.ids[{place}]", token, vocab_size)
    return TokenIds(tuple(tokens.ids))


def _chat(chat: generation_pb2.ChatInput, *, constrained: bool) -> Chat:
    if not chat.messages:
        raise InvalidRequest("chat.messages", "empty")
    for place, message in enumerate(chat.messages):
        if message.role not in ROLES:
            raise InvalidRequest(
                f"chat.messages[{place}].role",
                f"{message.role!r} is not one of {', '.join(ROLES)}",
            )
        if message.role == "system" and place:
            raise InvalidRequest(f"chat.messages[{place}].role", "system may only come first")
    if chat.describe_constraint and not constrained:
        raise InvalidRequest("chat.describe_constraint", "there is no constraint to describe")
    messages = tuple(Message(message.role, message.content) for message in chat.messages)
    return Chat(messages, chat.describe_constraint)


def _sampling(
    given: generation_pb2.SamplingParams, model: ModelInfo, *, constrained: bool
) -> Sampling:
    default = model.default_sampling
    usual: _Scope = "free_text" if constrained else "all"
    scope = _one_of("sampling.penalty_scope", given.penalty_scope, {0: usual, **_SCOPES})

    def number(name: str, low: float, high: float, *, open_low: bool = False) -> float:
        if not given.HasField(name):
            return float(getattr(default, name))
        value = float(getattr(given, name))
        above = value > low if open_low else value >= low
        if not (above and value <= high):  # also refuses NaN
            lower = f"{'above' if open_low else 'at least'} {low:g}"
            upper = f" and at most {high:g}" if math.isfinite(high) else ""
            raise InvalidRequest(f"sampling.{name}", f"{value:g} is not {lower}{upper}")
        return value

    temperature = number("temperature", 0, 100)
    if 0 < temperature < MIN_TEMPERATURE:
        raise InvalidRequest(
            "sampling.temperature",
            f"{temperature:g} is neither 0 (greedy) nor at least {MIN_TEMPERATURE:g}",
        )
    return Sampling(
        temperature=temperature,
        top_p=number("top_p", 0, 1, open_low=True),
        top_k=int(number("top_k", 0, math.inf)),
        min_p=number("min_p", 0, 1),
        frequency_penalty=number("frequency_penalty", -2, 2),
        presence_penalty=number("presence_penalty", -2, 2),
        repetition_penalty=number("repetition_penalty", 0, 100, open_low=True),
        penalize_prompt=(
            given.penalize_prompt if given.HasField("penalize_prompt") else default.penalize_prompt
        ),
        penalty_scope=scope,
        seed=given.seed if given.HasField("seed") else secrets.randbits(64),
        logit_bias=_logit_bias(given, model.vocab_size),
    )


def _outputs(given: generation_pb2.SamplingParams) -> int:
    count = given.n if given.HasField("n") else 1
    if not 1 <= count <= MAX_OUTPUTS:
        raise InvalidRequest("sampling.n", f"{count} is not at least 1 and at most {MAX_OUTPUTS}")
    return count


def _logit_bias(
    given: generation_pb2.SamplingParams, vocab_size: int
) -> tuple[tuple[int, float], ...]:
    if len(given.logit_bias) > MAX_LOGIT_BIAS:
        raise InvalidRequest(
            "sampling.logit_bias", f"{len(given.logit_bias)} tokens; at most {MAX_LOGIT_BIAS}"
        )
    for token, bias in given.logit_bias.items():
        field = f"sampling.logit_bias[{token}]"
        check_token(field, token, vocab_size)
        if not -100 <= bias <= 100:  # also refuses NaN
            raise InvalidRequest(field, f"{bias:g} is not at least -100 and at most 100")
    return tuple(sorted(given.logit_bias.items()))


def _report(given: generation_pb2.ResponseOptions) -> Report:
    interval = given.stream_interval if given.HasField("stream_interval") else 1
    if interval == 0:
        raise InvalidRequest("response.stream_interval", "0 is not at least 1")
    return Report(given.token_ids or given.HasField("logprobs"), given.timing, interval)


def _logprobs(given: generation_pb2.ResponseOptions) -> Logprobs | None:
    masked = _one_of("response.logprobs_mode", given.logprobs_mode, _MASKED)
    top = _candidates(given, "logprobs")
    return None if top is None else Logprobs(top=top, masked=masked)


def _candidates(
    given: generation_pb2.ResponseOptions, field: Literal["logprobs", "prompt_logprobs"]
) -> int | None:
    if not given.HasField(field):
        return None
    count = int(getattr(given, field))
    if count > MAX_CANDIDATES:
        raise InvalidRequest(f"response.{field}", f"{count} is more than {MAX_CANDIDATES}")
    return count


def read_constraint(given: constraint_pb2.Constraint) -> Constraint | ConstraintId:
    """A constraint by content or by id. Raises InvalidRequest."""
    kind = given.WhichOneof("kind")
    if kind is None:
        raise InvalidRequest(
            "constraint.kind", "set one of json_schema, regex, choice and constraint_id"
        )
    if kind == "constraint_id" and given.HasField("json_format"):
        raise InvalidRequest(
            "constraint.json_format",
            "means nothing beside constraint_id, which stands for the constraint with the "
            "json_format it was compiled with",
        )
    if kind != "json_schema" and given.HasField("json_format"):
        raise InvalidRequest("constraint.json_format", f"means nothing beside {kind}")
    if kind == "constraint_id":
        if not given.constraint_id:
            raise InvalidRequest("constraint.constraint_id", "empty")
        return ConstraintId(given.constraint_id)
    if kind == "json_schema":
        json_format = _json_format(given.json_format)
        return Constraint(kind=kind, text=given.json_schema, json_format=json_format)
    if kind == "regex":
        return Constraint(kind=kind, text=given.regex)
    return Constraint(kind=kind, choices=_choices(given.choice.choices))


def _choices(texts: Sequence[str]) -> tuple[str, ...]:
    if not texts:
        raise InvalidRequest("constraint.choice.choices", "empty")
    seen: set[str] = set()
    for place, text in enumerate(texts):
        if not text:
            raise InvalidRequest(f"constraint.choice.choices[{place}]", "empty")
        if text in seen:
            raise InvalidRequest(
                f"constraint.choice.choices[{place}]", f"{text!r} is there already"
            )
        seen.add(text)
    return tuple(texts)


def _json_format(given: constraint_pb2.JsonFormat) -> JsonFormat:
    path = "constraint.json_format"
    run = JsonFormat().max_whitespace_run
    if given.HasField("max_whitespace_run"):
        run = given.max_whitespace_run
    if run > MAX_WHITESPACE_RUN:
        raise InvalidRequest(
            f"{path}.max_whitespace_run", f"{run} is more than {MAX_WHITESPACE_RUN}"
        )
    return JsonFormat(
        whitespace=_one_of(f"{path}.whitespace", given.whitespace, _WHITESPACE),
        max_whitespace_run=run,
        property_order=_one_of(f"{path}.property_order", given.property_order, _ORDER),
        additional_properties_default=_one_of(
            f"{path}.additional_properties_default",
            given.additional_properties_default,
            _ADDITIONAL,
        ),
        ascii_only=given.ascii_only,
        formats=_one_of(f"{path}.formats", given.formats, _FORMATS),
    )


def _one_of(path: str, number: int, values: Mapping[int, _Value]) -> _Value:
    """The value of an enum's number; proto3 lets any number through."""
    if number not in values:
        raise InvalidRequest(path, f"{number} is not a value of this enum")
    return values[number]
