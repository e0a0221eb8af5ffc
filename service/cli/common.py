"""What the commands share."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, TypeAlias

DEFAULT_ADDRESS = "127.0.0.1:50051"

# argparse gives the result of add_subparsers no public name.
Commands: TypeAlias = "argparse._SubParsersAction[Any]"  # noqa: SLF001


def fail(message: str, status: int = 1) -> int:
    """Says why on standard error; returns the exit status (1 it failed, 2 it was asked wrong)."""
    print(f"syntaxd: {message}", file=sys.stderr)
    return status


def add_constraint(parser: argparse.ArgumentParser, what: str, *, required: bool) -> None:
    """Adds ``--schema``, ``--regex`` and ``--choice``; ``what`` they say, for the help."""
    kinds = parser.add_mutually_exclusive_group(required=required)
    kinds.add_argument("--schema", metavar="JSON|@FILE", help=f"what {what} must match")
    kinds.add_argument("--regex", metavar="REGEX|@FILE", help=f"what {what} must match")
    kinds.add_argument(
        "--choice",
        metavar="TEXT|@FILE",
        action="append",
        help=f"what {what} may be (repeat it; a file has one on each line)",
    )


def schema_of(options: argparse.Namespace) -> str | None:
    """The text of ``--schema``. Raises OSError, UnicodeDecodeError."""
    return None if options.schema is None else text_of(options.schema)


def regex_of(options: argparse.Namespace) -> str | None:
    """The text of ``--regex``, without a file's final newline. Raises as ``schema_of``."""
    return None if options.regex is None else text_of(options.regex).removesuffix("\n")


def choices_of(options: argparse.Namespace) -> tuple[str, ...]:
    """The texts of ``--choice``. Raises as ``schema_of``."""
    lines = (
        text_of(each).splitlines() if each.startswith("@") else [each]
        for each in options.choice or []
    )
    return tuple(line for group in lines for line in group if line)


def text_of(given: str) -> str:
    """The text itself, or that of the file after an @. Raises OSError, UnicodeDecodeError."""
    return Path(given[1:]).read_text(encoding="utf-8") if given.startswith("@") else given
