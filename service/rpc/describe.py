"""Tells the model, in the conversation, what its answer must match (``describe_constraint``)."""

from __future__ import annotations

from service.engine.types import Constraint
from service.rpc.draft import Message


def describe(constraint: Constraint) -> str:
    """The constraint in a sentence that a model can follow."""
    match constraint.kind:
        case "json_schema":
            return (
                "Answer with one JSON value that matches this JSON Schema and nothing else:\n"
                + constraint.text
            )
        case "regex":
            return (
                "Answer with a text that matches this regular expression and nothing else:\n"
                + constraint.text
            )
        case "choice":
            options = "\n".join(f"- {choice}" for choice in constraint.choices)
            return f"Answer with exactly one of these and nothing else:\n{options}"
        case "unit":
            raise AssertionError("a unit is no constraint of the caller's")


def with_description(messages: tuple[Message, ...], constraint: Constraint) -> tuple[Message, ...]:
    """The conversation with the description after its last user message.

    Not as a system message: some templates refuse those, and others put one of their own where
    there is none, which it would replace.
    """
    text = describe(constraint)
    for place in reversed(range(len(messages))):
        message = messages[place]
        if message.role == "user":
            told = Message("user", f"{message.content}\n\n{text}")
            return (*messages[:place], told, *messages[place + 1 :])
    return (*messages, Message("user", text))
