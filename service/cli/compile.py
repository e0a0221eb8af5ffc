"""``syntaxd compile``: what becomes of a constraint, keyword by keyword."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING

from service.cli import asking
from service.cli.common import Commands, add_constraint, fail

if TYPE_CHECKING:
    from rich.console import Console

    from service.engine.types import Constraint
    from service.rpc.workbench import Compiled, Workbench

_STYLES = {"enforced": "green", "annotation": "dim"}


def add_command(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "compile",
        help="what becomes of a constraint?",
        description="Compile a constraint and say what becomes of each keyword: enforced, an "
        "annotation, or refused. Text options take @FILE too.",
        epilog=asking.STATUS.format(zero="0 it compiles", one="1 it is refused"),
    )
    add_constraint(parser, "an answer", required=True)
    asking.add_format(parser, generates=True)
    asking.add_options(parser, needs_model=True)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Compiles one constraint."""
    try:
        constraint = asking.constraint_of(options)
    except (OSError, UnicodeError) as error:
        return fail(str(error), 2)
    return asking.ask(options, lambda bench: _answer(options, bench, constraint))


def _answer(options: argparse.Namespace, bench: Workbench, constraint: Constraint) -> int:
    found = bench.compile(constraint)
    if options.json:
        remarks = {
            "keywords": [each._asdict() for each in found.keywords],
            "diagnostics": [each._asdict() for each in found.diagnostics],
        }
        asking.print_json(dataclasses.asdict(found) | remarks)
    else:
        _show(asking.console(), found)
    return 0


def _show(console: Console, found: Compiled) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    most = "no limit known" if (most := found.max_output_tokens) is None else f"{most} at most"
    console.print(f"tokens    {found.min_output_tokens} suffice, {most}")
    console.print("shortest ", asking.visible(found.example), soft_wrap=True)
    kilobytes, milliseconds = found.compiled_bytes / 1e3, found.compile_time_us / 1e3
    console.print(f"memory    {kilobytes:.0f} kB, compiled in {milliseconds:.1f} ms")
    console.print("id       ", found.constraint_id)
    if found.keywords:
        console.print()
        table = Table("keyword", "", "", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for each in found.keywords:
            table.add_row(
                Text(asking.visible(each.location)),
                Text(each.treatment, _STYLES[each.treatment]),
                each.reason,
            )
        console.print(table)
        _left_out(console, found.keywords_left_out)
    if found.diagnostics:
        console.print()
        table = Table("remark", "", "", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for remark in found.diagnostics:
            table.add_row(Text(remark.location or "root"), remark.code, remark.message)
        console.print(table)
        _left_out(console, found.diagnostics_left_out)


def _left_out(console: Console, count: int) -> None:
    if count:
        console.print(f"and {count} more")
