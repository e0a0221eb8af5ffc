"""A request as the caller put it, in domain terms: checked field by field, not yet tokenised,
compiled or admitted. ``convert.request`` makes it, ``front`` turns it into a GenerationRequest.
"""

from __future__ import annotations

from dataclasses import dataclass

from service.engine.types import Constraint, Logprobs, Sampling, Stopping


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; ``role`` as the chat template knows it."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation; ``describe`` puts the constraint after its last user message."""

    messages: tuple[Message, ...]
    describe: bool


@dataclass(frozen=True, slots=True)
class TokenIds:
    """A prompt that is tokens already."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConstraintId:
    """Names a constraint that was compiled before."""

    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """What the caller wants to read besides the text."""

    token_ids: bool = False
    timing: bool = False
    stream_interval: int = 1  # tokens per event


@dataclass(frozen=True, slots=True)
class Draft:
    """One request, every field of which is in its range. ``str`` input is a plain prompt."""

    request_id: str
    input: str | TokenIds | Chat
    sampling: Sampling
    stopping: Stopping
    constraint: Constraint | ConstraintId | None
    guaranteed: bool
    report: Report
    priority: int = 0
    n: int = 1  # outputs
    logprobs: Logprobs | None = None
    prompt_logprobs: int | None = None
