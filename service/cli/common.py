"""What the commands share."""

from __future__ import annotations

import argparse
import sys
from typing import Any, TypeAlias

# argparse gives the result of add_subparsers no public name.
Commands: TypeAlias = "argparse._SubParsersAction[Any]"  # noqa: SLF001


def fail(message: str, status: int = 1) -> int:
    """Says why on standard error; returns the exit status (1 it failed, 2 it was asked wrong)."""
    print(f"syntaxd: {message}", file=sys.stderr)
    return status
