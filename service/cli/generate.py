"""``syntaxd generate``: one call to a running server."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from service.cli.common import Commands, fail

DEFAULT_ADDRESS = "127.0.0.1:50051"


def add_command(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "generate",
        help="ask a running server",
        description="Ask a running server; print the answer. Text options take @FILE too.",
    )
    parser.add_argument("prompt", nargs="?", help="the prompt (default: standard input)")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--schema", metavar="JSON|@FILE", help="what the answer must match")
    kinds.add_argument("--regex", metavar="REGEX|@FILE", help="what the answer must match")
    kinds.add_argument(
        "--choice",
        metavar="TEXT|@FILE",
        action="append",
        help="what the answer may be (repeat it; a file has one on each line)",
    )
    parser.add_argument("--stream", action="store_true", help="print the text as it comes")
    parser.add_argument(
        "--raw", action="store_true", help="the prompt as it stands, without the chat template"
    )
    parser.add_argument(
        "--max-tokens", type=int, metavar="N", help="longest answer (default: what fits)"
    )
    parser.add_argument(
        "--temperature", type=float, metavar="T", help="0 is greedy (default: the model's)"
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="same seed, same answer (default: drawn)"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="give up after (default: %(default)g)",
    )
    parser.add_argument(
        "--address",
        default=os.environ.get("SYNTAXD_ADDRESS", DEFAULT_ADDRESS),
        metavar="HOST:PORT",
        help=f"the server; or SYNTAXD_ADDRESS (default: {DEFAULT_ADDRESS})",
    )
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Calls the server and prints the answer."""
    # Imported here: it brings gRPC, which --help does without.
    from service.rpc import client

    try:
        call = client.Call(
            prompt=_text(options.prompt) if options.prompt is not None else sys.stdin.read(),
            raw=options.raw,
            json_schema=None if options.schema is None else _text(options.schema),
            regex=None if options.regex is None else _text(options.regex).removesuffix("\n"),
            choices=tuple(_choices(options.choice or [])),
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            seed=options.seed,
        )
    except (OSError, UnicodeDecodeError) as error:
        return fail(str(error), 2)
    try:
        if options.stream:
            for piece in client.generate_stream(options.address, call, options.timeout):
                print(piece, end="", flush=True)
            print()
        else:
            print(client.generate(options.address, call, options.timeout))
    except client.BadCallError as error:
        return fail(str(error), 2)
    except client.CallError as error:
        return fail(str(error))
    return 0


def _text(given: str) -> str:
    """The text itself, or that of the file after an @."""
    return Path(given[1:]).read_text(encoding="utf-8") if given.startswith("@") else given


def _choices(given: list[str]) -> list[str]:
    lines = (_text(each).splitlines() if each.startswith("@") else [each] for each in given)
    return [line for group in lines for line in group if line]
