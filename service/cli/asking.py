"""What ``check``, ``compile`` and ``tokenize`` share: where to ask, and how an answer looks.

They ask this machine, which needs no server and of a model only its tokenizer, or a server
(``--server``); what is printed is the same.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import category

from service.cli.common import choices_of, fail, regex_of, schema_of

if TYPE_CHECKING:  # heavy, and --help does without
    from rich.console import Console

    from service.engine.types import Constraint, JsonFormat
    from service.rpc.workbench import Workbench

WIDTH_OF_A_FILE = 120  # columns where the output is no terminal
STATUS = "Exit status: {zero}; {one}; 2 the command is wrong."


def add_options(parser: argparse.ArgumentParser, *, needs_model: bool) -> None:
    """Adds ``--server``, ``--timeout``, ``--json``, and ``--model`` if it matters."""
    parser.add_argument(
        "--server", metavar="HOST:PORT", help="ask this server (default: no server is needed)"
    )
    if needs_model:
        parser.add_argument(
            "--model",
            default="default",
            metavar="NAME",
            help="without --server: 'default', a folder, or a name on the Hugging Face hub, of "
            "which only the tokenizer is used",
        )
    parser.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="give up after (default: %(default)g)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, for scripts")


def add_format(parser: argparse._ActionsContainer, *, generates: bool) -> None:
    """Adds options about a schema; ``generates``: also those about how JSON is written."""
    parser.add_argument(
        "--formats",
        choices=("enforce", "annotate"),
        default="enforce",
        help='whether "format" constrains (default: %(default)s)',
    )
    parser.add_argument(
        "--additional-properties",
        choices=("auto", "allow", "forbid"),
        default="auto",
        help="what an absent additionalProperties means (default: %(default)s: when generating, "
        "only listed keys where some are listed; when checking, any)",
    )
    if generates:
        parser.add_argument(
            "--whitespace",
            choices=("compact", "single_space", "flexible"),
            default="compact",
            help="between JSON tokens (default: %(default)s)",
        )
        parser.add_argument(
            "--property-order",
            choices=("schema", "any"),
            default="schema",
            help="order of an object's keys (default: %(default)s)",
        )
        parser.add_argument(
            "--ascii-only", action="store_true", help="write other characters as \\uXXXX"
        )


def constraint_of(options: argparse.Namespace) -> Constraint:
    """The constraint of ``add_constraint``'s options. Raises OSError, UnicodeError."""
    from service.engine.types import Constraint

    schema, regex, choices = schema_of(options), regex_of(options), choices_of(options)
    for given in (schema, regex, *choices):
        (given or "").encode()  # bytes of the command line that are no UTF-8 are lone surrogates
    if schema is not None:
        return Constraint(kind="json_schema", text=schema, json_format=_format_of(options))
    if regex is not None:
        return Constraint(kind="regex", text=regex)
    return Constraint(kind="choice", choices=choices)


def _format_of(options: argparse.Namespace) -> JsonFormat:
    from service.engine.types import JsonFormat

    default = JsonFormat()
    return JsonFormat(
        formats=options.formats,
        additional_properties_default=options.additional_properties,
        whitespace=getattr(options, "whitespace", default.whitespace),
        property_order=getattr(options, "property_order", default.property_order),
        ascii_only=getattr(options, "ascii_only", default.ascii_only),
    )


def bytes_of(given: str | None) -> bytes:
    """A text argument, the file after its @, or standard input. Raises OSError.

    The final newline of a file or of standard input is not part of the text.
    """
    if given is None:
        return sys.stdin.buffer.read().removesuffix(b"\n")
    if given.startswith("@"):
        return Path(given[1:]).read_bytes().removesuffix(b"\n")
    return given.encode("utf-8", "surrogateescape")


def ask(options: argparse.Namespace, work: Callable[[Workbench], int]) -> int:
    """Runs ``work``; a refusal or failure is told, in JSON if that was asked for."""
    from service import models
    from service.engine.tokenizer import TokenizerError
    from service.rpc import client, workbench

    bench: Workbench = (
        workbench.There(options.server, options.timeout)
        if options.server
        else workbench.Here(lambda: models.folder_of(options.model), options.timeout)
    )
    try:
        return work(bench)
    except workbench.Refused as refused:
        return _tell(options, refused)
    except (client.CallError, models.ModelError, TokenizerError) as error:
        if options.json:
            print_json({"error": {"reason": "FAILED", "message": str(error)}})
            return 1
        return fail(str(error))


def _tell(options: argparse.Namespace, refused: Any) -> int:
    if options.json:
        told = {
            "reason": refused.reason,
            "message": refused.message,
            "violations": list(refused.violations),
            "violations_left_out": refused.left_out,
        }
        print_json({"error": told})
        return 1
    fail(f"{refused.reason}: {refused.message}")
    if len(refused.violations) + refused.left_out > 1:
        more = [f"and {refused.left_out} more"] if refused.left_out else []
        for line in (*refused.violations, *more):
            print(f"  {line}", file=sys.stderr)
    return 1


def print_json(value: dict[str, Any]) -> None:
    """One object on one line."""
    print(json.dumps(value, ensure_ascii=False))


def visible(text: str) -> str:
    """On one line and without terminal sequences: control characters as the pictures of them."""
    return "".join(
        chr(0x2400 + ord(c)) if ord(c) < 0x20 else "\ufffd" if category(c)[0] == "C" else c
        for c in text
    )


def console() -> Console:
    """Standard output; what callers sent is printed as it stands, not as markup."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else WIDTH_OF_A_FILE
    return Console(highlight=False, markup=False, emoji=False, width=width)
