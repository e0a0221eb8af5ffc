"""Twenty texts about people, the fields to find in them, and how answers are counted.

The texts and what stands in them are ours (``data/extraction.json``). A field counts as exact when
the value under its key equals the expected one; an answer that is not JSON has none.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import validator

_DATA = Path(__file__).parent / "data" / "extraction.json"

CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "city": {"type": "string", "maxLength": 30},
        "email": {"type": "string", "maxLength": 50},
        "skills": {
            "type": "array",
            "items": {"type": "string", "maxLength": 25},
            "maxItems": 6,
        },
    },
    "required": ["name", "age", "city", "email", "skills"],
    "additionalProperties": False,
}
# As most schemas are written; what an engine makes of it is its own default.
OPEN = {key: value for key, value in CLOSED.items() if key != "additionalProperties"}
SCHEMAS = {"closed": CLOSED, "open": OPEN}


@dataclass(frozen=True, slots=True)
class Task:
    """One text in a conversation, and what is to be found in it."""

    messages: tuple[dict[str, str], ...]  # role and content
    expected: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine made of a task. ``tokens`` leaves the end-of-sequence token out."""

    text: str
    tokens: int
    steered: bool = False  # the budget decided at least one token


@dataclass(frozen=True, slots=True)
class Run:
    """Answers to a list of tasks, and the seconds from the first request to the last answer."""

    answers: list[Answer]
    seconds: float


def tasks() -> list[Task]:
    """All twenty, in stored order."""
    data = json.loads(_DATA.read_text(encoding="utf-8"))
    system = {"role": "system", "content": data["system"]}
    return [
        Task((system, {"role": "user", "content": each["text"]}), each["expected"])
        for each in data["tasks"]
    ]


def workload(all_tasks: Sequence[Task], concurrency: int, numbers: Iterator[int]) -> list[Task]:
    """Every task at least once, and as many more as fill the last batch of ``concurrency``.

    Each gets the next of ``numbers`` before its text and the first number chooses the first task,
    so that an engine that keeps prompts finds nothing in them but what they really share: the
    system message.
    """
    count = -(-len(all_tasks) // concurrency) * concurrency
    return [_numbered(all_tasks[n % len(all_tasks)], n) for n in itertools.islice(numbers, count)]


def _numbered(task: Task, number: int) -> Task:
    *before, last = task.messages
    return Task((*before, last | {"content": f"Text {number}: {last['content']}"}), task.expected)


def exact_fields(expected: dict[str, Any], text: str) -> int:
    """How many of the expected fields the answer has, each with exactly the expected value."""
    try:
        value = validator.parse(text)
    except validator.NotJson:
        return 0
    if not isinstance(value, dict):
        return 0
    return sum(key in value and _same(value[key], wanted) for key, wanted in expected.items())


def _same(value: Any, wanted: Any) -> bool:
    return type(value) is type(wanted) and bool(value == wanted)


def figures(tasks: Sequence[Task], run: Run, schema: dict[str, Any]) -> dict[str, float]:
    """The figures of one run, by name. An answer is valid or not under ``schema`` as written."""
    valid = [validator.valid(copy.deepcopy(schema), answer.text) for answer in run.answers]
    count = len(run.answers)
    exact = sum(
        exact_fields(task.expected, answer.text)
        for task, answer in zip(tasks, run.answers, strict=True)
    )
    return {
        "valid_per_s": sum(valid) / run.seconds,
        "tokens_per_s": sum(answer.tokens for answer in run.answers) / run.seconds,
        "valid_share": sum(valid) / count,
        "exact_fields": exact / sum(len(task.expected) for task in tasks),
        "answer_bytes": sum(len(answer.text.encode()) for answer in run.answers) / count,
        "answer_tokens": sum(answer.tokens for answer in run.answers) / count,
        "steered_share": sum(answer.steered for answer in run.answers) / count,
    }
