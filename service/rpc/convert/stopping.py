"""protobuf -> Stopping and the unit to stop at: the checks of ``StoppingOptions``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from service.engine.stop_regex import StopRegexError, compile_stop_regex
from service.engine.types import Constraint, Stopping, Unit
from service.errors import InvalidRequest
from service.rpc.pb.v1 import generation_pb2

MAX_STOPS = 16  # each is searched for after every token; OpenAI takes 4, vLLM any number
MAX_STOP_BYTES = 256  # text is held back for up to this long
MAX_STOP_REGEXES = 4  # a slow one delays other requests once, by tens of milliseconds
MAX_STOP_REGEX_BYTES = 256  # compiling takes up to about 10 ms for this many
MAX_STOP_TOKENS = 64  # under a constraint each is tried at each token

_UNITS: Mapping[generation_pb2.StopUnit, Unit] = {
    generation_pb2.STOP_UNIT_JSON_VALUE: "json_value",
    generation_pb2.STOP_UNIT_BRACKETS: "brackets",
    generation_pb2.STOP_UNIT_FENCE: "fence",
    generation_pb2.STOP_UNIT_LINE: "line",
    generation_pb2.STOP_UNIT_SENTENCE: "sentence",
}
UNIT_NUMBERS = {name: number for number, name in _UNITS.items()}


def read_stopping(given: generation_pb2.StoppingOptions, vocab_size: int) -> Stopping:
    """When to stop, but for the unit. Raises InvalidRequest."""
    max_tokens = given.max_tokens if given.HasField("max_tokens") else None
    if max_tokens == 0:
        raise InvalidRequest("stopping.max_tokens", "0 is not at least 1")
    if max_tokens is not None and given.min_tokens > max_tokens:
        raise InvalidRequest(
            "stopping.min_tokens", f"{given.min_tokens} is more than max_tokens, {max_tokens}"
        )
    _check_count("stop", given.stop, "texts", MAX_STOPS)
    for place, text in enumerate(given.stop):
        _check_bytes(f"stop[{place}]", text, MAX_STOP_BYTES)
    _check_regexes(given.stop_regex)
    _check_count("stop_token_ids", given.stop_token_ids, "tokens", MAX_STOP_TOKENS)
    for place, token in enumerate(given.stop_token_ids):
        check_token(f"stopping.stop_token_ids[{place}]", token, vocab_size)
    return Stopping(
        max_tokens=max_tokens,
        min_tokens=given.min_tokens,
        stop=tuple(given.stop),
        stop_regex=tuple(given.stop_regex),
        stop_token_ids=tuple(given.stop_token_ids),
        ignore_eos=given.ignore_eos,
        include_stop_in_output=given.include_stop_in_output,
    )


def read_unit(given: generation_pb2.StoppingOptions, *, constrained: bool) -> Constraint | None:
    """The unit to stop at, as the constraint that it is inside. Raises InvalidRequest."""
    if given.unit == generation_pb2.STOP_UNIT_UNSPECIFIED:
        return None
    if given.unit not in _UNITS:
        raise InvalidRequest("stopping.unit", f"{given.unit} is not a value of this enum")
    if constrained:
        raise InvalidRequest(
            "stopping.unit", "means nothing beside a constraint, which says when the text is whole"
        )
    return Constraint(kind="unit", text=_UNITS[given.unit])


def check_token(field: str, token: int, vocab_size: int) -> None:
    """Raises InvalidRequest unless the vocabulary has the token."""
    if token >= vocab_size:
        raise InvalidRequest(
            field,
            f"{token} is not a token: the vocabulary has {vocab_size}",
            metadata={"vocabSize": str(vocab_size)},
        )


def _check_regexes(patterns: Sequence[str]) -> None:
    _check_count("stop_regex", patterns, "patterns", MAX_STOP_REGEXES)
    for place, pattern in enumerate(patterns):
        _check_bytes(f"stop_regex[{place}]", pattern, MAX_STOP_REGEX_BYTES)
        try:
            compile_stop_regex(pattern)
        except StopRegexError as error:
            raise InvalidRequest(
                f"stopping.stop_regex[{place}]",
                f"at @{error.offset}: {error}",
                metadata={"location": f"@{error.offset}"},
            ) from None


def _check_count(name: str, given: Sequence[object], what: str, at_most: int) -> None:
    if len(given) > at_most:
        raise InvalidRequest(f"stopping.{name}", f"{len(given)} {what}; at most {at_most}")


def _check_bytes(name: str, text: str, at_most: int) -> None:
    size = len(text.encode())
    if not 1 <= size <= at_most:
        raise InvalidRequest(f"stopping.{name}", f"{size} bytes; from 1 to {at_most} are allowed")
