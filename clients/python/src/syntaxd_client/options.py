"""The options of a call, by the names that the contract gives them.

All are optional, and one that is absent (or None) is absent from the request too: the server's or
the model's default holds, and ``Answer.effective_sampling`` reports what was used. What each field
means in full stands in the contract, ``proto/syntaxd/v1``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]
"""gRPC metadata: keys in lower case; those that end in "-bin" have bytes."""

JsonSchema: TypeAlias = Mapping[str, Any] | str | bool
"""A JSON Schema as Python objects, or as JSON text (which keeps the spelling of numbers)."""


class Message(TypedDict):
    """One message of a conversation."""

    role: str
    """As the model's chat template knows it: "system", "user", "assistant"."""
    content: str


# One sequence, not two: mypy would not know which of them a list of dicts is meant to be.
Prompt: TypeAlias = str | Sequence[Message | int]
"""A user's message, a conversation, or tokens of the model's own vocabulary."""


class CallOptions(TypedDict, total=False):
    """Of every call that a model answers."""

    timeout: float | None
    """Seconds; absent: the client's, which by default is none."""
    metadata: Metadata | None
    """Beside the client's."""
    model: str | None
    """A name that ``list_models`` gives; absent: the server's model."""


class JsonFormatOptions(TypedDict, total=False):
    """How generated JSON is spelled. Only beside a JSON Schema."""

    whitespace: Literal["compact", "single_space", "flexible"] | None
    max_whitespace_run: int | None
    property_order: Literal["schema", "any"] | None
    additional_properties_default: Literal["allow", "forbid"] | None
    ascii_only: bool | None
    formats: Literal["enforce", "annotate"] | None


class ConstraintOptions(JsonFormatOptions, total=False):
    """What a text must match: at most one of the first four."""

    schema: JsonSchema | type[Any] | None
    """A JSON Schema, or a type that ``extract`` takes."""
    regex: str | None
    choice: Sequence[str] | None
    constraint_id: str | None
    """From ``compile``."""


class SamplingOptions(TypedDict, total=False):
    """How tokens are chosen. Absent: the model's own default, never zero."""

    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    frequency_penalty: float | None
    presence_penalty: float | None
    repetition_penalty: float | None
    seed: int | None
    n: int | None
    logit_bias: Mapping[int, float] | None
    penalty_scope: Literal["all", "free_text"] | None
    penalize_prompt: bool | None


class StoppingOptions(TypedDict, total=False):
    """When to stop."""

    max_tokens: int | None
    min_tokens: int | None
    stop: str | Sequence[str] | None
    stop_token_ids: Sequence[int] | None
    stop_regex: str | Sequence[str] | None
    unit: Literal["json_value", "brackets", "fence", "line", "sentence"] | None
    ignore_eos: bool | None
    include_stop_in_output: bool | None


class ResponseOptions(TypedDict, total=False):
    """What to report besides the text."""

    token_ids: bool | None
    """``Answer.tokens``."""
    logprobs: int | None
    """They with log-probabilities, and so many of the likeliest at each place."""
    prompt_logprobs: int | None
    """``Answer.prompt_tokens``: likewise of the prompt."""
    logprobs_mode: Literal["raw", "masked"] | None
    """The model's own distribution, or over what could be chosen."""
    timing: bool | None
    """``Answer.timing``."""
    stream_interval: int | None
    """Tokens per piece of a stream."""


class ExtractOptions(
    CallOptions, JsonFormatOptions, SamplingOptions, StoppingOptions, ResponseOptions, total=False
):
    """Of ``extract``."""

    request_id: str | None
    raw: bool | None
    """The prompt as it stands, not as a user's message through the chat template."""
    describe_constraint: bool | None
    """Tell the model, after the last user message, what its answer must match."""
    completion_policy: Literal["guaranteed", "best_effort"] | None
    priority: int | None
    """-10 to 10: waits as if it had come 10 seconds earlier (below 0: later) for each step."""


class GenerateOptions(ConstraintOptions, ExtractOptions, total=False):
    """Of ``generate``."""


class CompileOptions(ConstraintOptions, CallOptions, total=False):
    """Of ``compile``."""

    pin: bool | None
    """Keep it until ``delete_constraint`` or the server's end."""


class CheckOptions(ConstraintOptions, CallOptions, total=False):
    """Of ``check``."""


class TokenizeOptions(CallOptions, total=False):
    """Of ``tokenize``."""

    add_special_tokens: bool | None
    """Absent: true."""
    token_bytes: bool | None
    """``Tokens.token_bytes``."""


class DetokenizeOptions(CallOptions, total=False):
    """Of ``detokenize``."""

    skip_special_tokens: bool | None
