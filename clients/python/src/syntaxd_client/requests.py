"""Options by name -> the contract's messages.

Field names, enum names and nesting come from the messages' descriptors, so an option is one line
in ``options`` and nothing here. A value that a field cannot carry is refused with its path in the
request, as the server does with those that it can carry but not accept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from google.protobuf.message import Message as ProtoMessage

from syntaxd_client.answers import Answer
from syntaxd_client.errors import invalid_field
from syntaxd_client.options import (
    CheckOptions,
    CompileOptions,
    DetokenizeOptions,
    ExtractOptions,
    GenerateOptions,
    JsonFormatOptions,
    JsonSchema,
    Prompt,
    ResponseOptions,
    SamplingOptions,
    StoppingOptions,
    TokenizeOptions,
)
from syntaxd_client.pb.v1 import constraint_pb2, generation_pb2, model_pb2
from syntaxd_client.targets import schema_text, target_of

Given = Mapping[str, Any]

_KINDS = ("schema", "regex", "choice", "constraint_id")


class CallSettings(NamedTuple):
    """What goes beside a request."""

    timeout: float | None
    metadata: tuple[tuple[str, str | bytes], ...]


def settings(given: Given, default: CallSettings) -> CallSettings:
    """Those of one call, from its options and the client's."""
    timeout = given.get("timeout")
    metadata = (*default.metadata, *(given.get("metadata") or ()))
    return CallSettings(default.timeout if timeout is None else timeout, metadata)


def generate(prompt: Prompt, given: Given) -> generation_pb2.GenerateRequest:
    """Raises InvalidRequestError, UnmappableTypeError, TypeError."""
    given = _present(given, GenerateOptions)
    request = generation_pb2.GenerateRequest()
    _set_input(request, prompt, given)
    if any(name in given for name in _KINDS):
        request.constraint.CopyFrom(_constraint(given))
    else:
        _refuse_json_format(given)
    _fill(request, "", given, ("model", "request_id", "completion_policy", "priority"))
    for part, message, options in (
        ("sampling", request.sampling, SamplingOptions),
        ("stopping", request.stopping, StoppingOptions),
        ("response", request.response, ResponseOptions),
    ):
        if given.keys() & options.__optional_keys__:
            _fill(message, f"{part}.", given, options.__optional_keys__)
    return request


def extract(
    target: type[Any] | JsonSchema, prompt: Prompt, given: Given
) -> tuple[generation_pb2.GenerateRequest, Callable[[Answer], Any]]:
    """The request, and how to read its answer. The model is told the schema, if it can be.

    Raises InvalidRequestError, UnmappableTypeError, TypeError.
    """
    found = target_of(target)
    request = generate(prompt, {**_present(given, ExtractOptions), "schema": found.schema})
    if request.HasField("chat") and given.get("describe_constraint") is None:
        request.chat.describe_constraint = True
    return request, found.read


def compile_constraint(given: Given) -> constraint_pb2.CompileConstraintRequest:
    """Raises InvalidRequestError, UnmappableTypeError, TypeError."""
    given = _present(given, CompileOptions)
    request = constraint_pb2.CompileConstraintRequest(constraint=_constraint(given))
    _fill(request, "", given, ("model", "pin"))
    return request


def check_text(text: str, given: Given) -> constraint_pb2.CheckTextRequest:
    """Raises InvalidRequestError, UnmappableTypeError, TypeError."""
    given = _present(given, CheckOptions)
    request = constraint_pb2.CheckTextRequest(constraint=_constraint(given))
    _fill(request, "", {**given, "text": text}, ("model", "text"))
    return request


def tokenize(text: str, given: Given) -> model_pb2.TokenizeRequest:
    """Raises InvalidRequestError, TypeError."""
    given = {**_present(given, TokenizeOptions), "text": text}
    request = model_pb2.TokenizeRequest()
    _fill(request, "", given, request.DESCRIPTOR.fields_by_name)
    return request


def detokenize(token_ids: Sequence[int], given: Given) -> model_pb2.DetokenizeRequest:
    """Raises InvalidRequestError, TypeError."""
    given = {**_present(given, DetokenizeOptions), "token_ids": token_ids}
    request = model_pb2.DetokenizeRequest()
    _fill(request, "", given, request.DESCRIPTOR.fields_by_name)
    return request


def _present(given: Given, options: Any) -> Given:
    """Those that are there. Raises TypeError for a name that is none of the options."""
    for name in given:
        if name not in options.__optional_keys__:
            raise TypeError(f"there is no option {name!r}")
    return {name: value for name, value in given.items() if value is not None}


def _set_input(request: generation_pb2.GenerateRequest, prompt: Prompt, given: Given) -> None:
    raw = given.get("raw", False)
    if raw and not isinstance(prompt, str):
        raise TypeError("raw is for a prompt that is one text")
    if raw:
        _fill(request, "", {"prompt": prompt}, ("prompt",))
    elif not isinstance(prompt, str) and prompt and isinstance(prompt[0], int):
        _fill(request.token_ids, "token_ids.", {"ids": prompt}, ("ids",))
    else:
        _set_messages(request, prompt)
    if "describe_constraint" in given:
        if not request.HasField("chat"):
            raise TypeError("describe_constraint is for messages: it adds to the last of a user")
        _fill(request.chat, "chat.", given, ("describe_constraint",))


def _set_messages(request: generation_pb2.GenerateRequest, prompt: Any) -> None:
    request.chat.SetInParent()
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    for place, message in enumerate(messages):
        if not isinstance(message, Mapping) or message.keys() != {"role", "content"}:
            raise TypeError(f"messages[{place}] is not a mapping with a role and a content")
        _fill(request.chat.messages.add(), f"chat.messages[{place}].", message, message)


def _constraint(given: Given) -> constraint_pb2.Constraint:
    kinds = [name for name in _KINDS if name in given]
    if len(kinds) != 1:
        raise TypeError(f"give one of {', '.join(_KINDS)}" + f", not {len(kinds)}" * bool(kinds))
    constraint = constraint_pb2.Constraint()
    match kinds[0]:
        case "schema":
            text = schema_text(given["schema"])
            _fill(constraint, "constraint.", {"json_schema": text}, ("json_schema",))
        case "choice":
            if isinstance(given["choice"], str):
                raise TypeError("choice is a list of texts, not one")
            constraint.choice.SetInParent()
            values = {"choices": given["choice"]}
            _fill(constraint.choice, "constraint.choice.", values, ("choices",))
        case kind:
            _fill(constraint, "constraint.", given, (kind,))
    if given.keys() & JsonFormatOptions.__optional_keys__:
        if kinds[0] != "schema":
            _refuse_json_format(given)
        names = JsonFormatOptions.__optional_keys__
        _fill(constraint.json_format, "constraint.json_format.", given, names)
    return constraint


def _refuse_json_format(given: Given) -> None:
    for name in given.keys() & JsonFormatOptions.__optional_keys__:
        raise TypeError(f"{name} is only for a JSON Schema")


def _fill(message: ProtoMessage, path: str, given: Given, names: Iterable[str]) -> None:
    """Sets those of the named fields that are given."""
    for name in names:
        if name in given:
            try:
                _set(message, message.DESCRIPTOR.fields_by_name[name], given[name])
            except ValueError as error:  # of protobuf: out of the type's range, no UTF-8
                raise invalid_field(f"{path}{name}", str(error)) from None
            except TypeError as error:
                raise TypeError(f"{path}{name}: {error}") from None


def _set(message: ProtoMessage, field: Any, value: Any) -> None:
    if isinstance(value, Mapping):  # logit_bias
        getattr(message, field.name).update(value)
    elif field.is_repeated:
        values: Sequence[Any] = [value] if isinstance(value, str) else value
        getattr(message, field.name).extend(values)
    elif field.enum_type is not None:
        setattr(message, field.name, _number(field.enum_type, value))
    else:
        setattr(message, field.name, value)


def _number(enum: Any, word: str) -> int:
    """ "compact" -> WHITESPACE_COMPACT's number."""
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    words: dict[str, int] = {
        each.name.removeprefix(prefix).lower(): each.number for each in enum.values[1:]
    }
    if word not in words:
        raise ValueError(f"{word!r} is not one of {', '.join(words)}")
    return words[word]
