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


def with_description(messages: tuple[Message, ...], constraint: Constraint) -> tuple[Message, ...]:
    """The conversation with the description at the end of its system message."""
    text = describe(constraint)
    if messages[0].role == "system":
        first = Message("system", f"{messages[0].content}\n\n{text}")
        return (first, *messages[1:])
    return (Message("system", text), *messages)
