"""The commands of ``syntaxd``: one parser, one module and function a command.

Exit status: 0 done; 1 it failed (the reason is on standard error); 2 the command is wrong.
argparse, because it needs no dependency and the server's flags are written from Config's fields.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version

from service.cli import check, compile, generate, health, models, serve, tokenize  # noqa: A004 - a command

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    options = _parser().parse_args(arguments)
    command: Command = options.command
    try:
        return command(options)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has gone
        sys.stderr.close()
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="syntaxd", description="Structured-output generation over gRPC."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('syntaxd')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve.add_command(commands)
    generate.add_command(commands)
    health.add_command(commands)
    check.add_command(commands)
    compile.add_command(commands)
    tokenize.add_command(commands)
    models.add_command(commands)
    return parser
