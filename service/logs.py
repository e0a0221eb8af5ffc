"""The log of both processes, on standard error: lines for people, or a JSON object a line.

What is known of an event beyond its words goes with it by name (``fields``); the JSON form has it.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Literal

from typing_extensions import override

Form = Literal["text", "json"]
_FIELDS = "fields"


def set_up(level: str, form: Form, process: Literal["front", "engine"]) -> None:
    """Replaces what was set up before. ``level``: "info", ..."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines(process) if form == "json" else _text(process))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def fields(**named: object) -> dict[str, Any]:
    """For ``extra=`` of a logging call; None: not known, so left out."""
    return {_FIELDS: {name: value for name, value in named.items() if value is not None}}


def _text(process: str) -> logging.Formatter:
    who = "engine " if process == "engine" else ""
    return logging.Formatter(f"%(asctime)s %(levelname)s {who}%(name)s: %(message)s")


class _JsonLines(logging.Formatter):
    """time (RFC 3339, UTC), level, process, logger, message; an exception's traceback; fields."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    @override
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": self._process,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        # Those of the event do not hide what every line has.
        line = getattr(record, _FIELDS, {}) | line
        return json.dumps(line, ensure_ascii=False, default=str)
