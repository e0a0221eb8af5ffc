"""``syntaxd check``: whether a text matches, where it stops to, and how it could go on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from service.cli import asking
from service.cli.common import Commands, add_constraint, fail

if TYPE_CHECKING:
    from grammar import Check
    from service.engine.types import Constraint
    from service.rpc.workbench import Workbench

CONTEXT = 60  # characters shown before the wrong byte, and half as many behind it
_SPELLED = "the same JSON value in another spelling matches"


def add_command(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "check",
        help="does a text match a constraint?",
        description="Judge a text: does it match, where does it stop to, what may come there? "
        "JSON may have any whitespace and any order of keys. Text options take @FILE too; a "
        "file's final newline does not count. No model is needed.",
        epilog=asking.STATUS.format(
            zero="0 the text matches",
            one="1 it does not, or not yet, or the constraint is refused",
        ),
    )
    add_constraint(parser, "the text", required=True)
    parser.add_argument("text", nargs="?", metavar="TEXT|@FILE", help="(default: standard input)")
    asking.add_format(parser, generates=False)
    asking.add_options(parser, needs_model=False)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Judges one text."""
    try:
        constraint, text = asking.constraint_of(options), asking.bytes_of(options.text)
    except (OSError, UnicodeError) as error:
        return fail(str(error), 2)
    return asking.ask(options, lambda bench: _answer(options, bench, constraint, text))


def _answer(
    options: argparse.Namespace, bench: Workbench, constraint: Constraint, text: bytes
) -> int:
    found = _judge(bench, constraint, text)
    if options.json:
        asking.print_json(_as_contract(found))
    else:
        _show(found, text)
    return 0 if found.verdict == "complete" else 1


def _judge(bench: Workbench, constraint: Constraint, text: bytes) -> Check:
    """The contract carries UTF-8: what is none is wrong from where it is none."""
    from grammar import Check

    try:
        return bench.check(constraint, text.decode())
    except UnicodeDecodeError as error:
        found = bench.check(constraint, text[: error.start].decode())
        if found.verdict == "rejected":
            return found
        return Check("rejected", error.start, found.expected, None, False)


def _as_contract(found: Check) -> dict[str, object]:
    """With the names of the contract's CheckTextResponse."""
    completion = found.completion.decode() if found.completion is not None else None
    return {
        "verdict": found.verdict,
        "byte_offset": found.offset,
        "expected": list(found.expected),
        "shortest_completion": completion,
        "spelling_only": found.spelling_only,
    }


def _show(found: Check, text: bytes) -> None:
    from rich.text import Text

    console = asking.console()
    if found.verdict == "complete":
        console.print(Text("complete", "bold green"))
        return
    if found.verdict == "incomplete":
        console.print(Text("incomplete", "bold yellow"), "after", found.offset, "bytes")
    else:
        line = text[: found.offset].count(b"\n") + 1
        start = text.rfind(b"\n", 0, found.offset) + 1
        column = len(text[start : found.offset].decode(errors="replace")) + 1
        place = f"at byte {found.offset} (line {line}, column {column})"
        console.print(Text("rejected", "bold red"), place)
    before, after = excerpt(text, found.offset)
    console.print(Text("  " + before + after), soft_wrap=True)
    console.print(Text(" " * (2 + Text(before).cell_len) + "^", "bold"), soft_wrap=True)
    console.print("expected:", _listed(found.expected), soft_wrap=True)
    if found.completion is not None:
        console.print(
            "shortest completion:", asking.visible(found.completion.decode()), soft_wrap=True
        )
    if found.spelling_only:
        console.print("only the spelling is wrong:", _SPELLED, soft_wrap=True)


def _listed(words: tuple[str, ...]) -> str:
    *others, last = words or ("nothing",)
    return f"{', '.join(others)} or {last}" if others else last


def excerpt(text: bytes, offset: int) -> tuple[str, str]:
    """The line around a byte, before and from it on, shortened and on one line of a terminal."""
    start = text.rfind(b"\n", 0, offset) + 1
    end = text.find(b"\n", offset)
    while start < offset < len(text) and 0x80 <= text[offset] < 0xC0:
        offset -= 1  # whole characters
    before = text[start:offset].decode(errors="replace")
    after = text[offset : len(text) if end < 0 else end].decode(errors="replace")
    if len(before) > CONTEXT:
        before = "…" + before[-CONTEXT:]
    if len(after) > CONTEXT // 2:
        after = after[: CONTEXT // 2] + "…"
    return asking.visible(before), asking.visible(after)
