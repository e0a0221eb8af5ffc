"""``syntaxd tokenize``: a text as the model's tokens."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from service.cli import asking
from service.cli.common import Commands, fail

if TYPE_CHECKING:
    from service.rpc.workbench import Token, Workbench


def add_command(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "tokenize",
        help="a text as the model's tokens",
        description="Print a text as the model's tokens: ids, bytes and their number. A file's "
        "final newline does not count.",
        epilog=asking.STATUS.format(zero="0 done", one="1 it failed"),
    )
    parser.add_argument("text", nargs="?", metavar="TEXT|@FILE", help="(default: standard input)")
    parser.add_argument(
        "--no-special-tokens",
        action="store_true",
        help="without what the tokenizer puts around every text",
    )
    asking.add_options(parser, needs_model=True)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Tokenises one text."""
    try:
        text = asking.bytes_of(options.text).decode()
    except (OSError, UnicodeError) as error:
        return fail(str(error), 2)
    return asking.ask(options, lambda bench: _answer(options, bench, text))


def _answer(options: argparse.Namespace, bench: Workbench, text: str) -> int:
    tokens = bench.tokenize(text, add_special_tokens=not options.no_special_tokens)
    if options.json:
        listed = [
            {"id": each.token_id, "bytes": each.text.hex(), "text": _decoded(each.text)}
            for each in tokens
        ]
        asking.print_json({"count": len(tokens), "tokens": listed})
    else:
        _show(tokens)
    return 0


def _decoded(text: bytes) -> str | None:
    """The text, None where it is part of a character only."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None


def _show(tokens: list[Token]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    console = asking.console()
    if tokens:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        table.add_column("id", justify="right")
        table.add_column("bytes")
        for each in tokens:
            table.add_row(str(each.token_id), Text(repr(_decoded(each.text) or each.text)))
        console.print(table)
    console.print(f"{len(tokens)} tokens")
