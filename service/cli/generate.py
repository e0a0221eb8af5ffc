"""``syntaxd generate``: one call to a running server."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from service.cli.asking import add_format, constraint_of
from service.cli.common import DEFAULT_ADDRESS, Commands, add_constraint, fail, text_of

if TYPE_CHECKING:  # it brings gRPC
    from service.rpc.client import Ending


def add_command(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "generate",
        help="ask a running server",
        description="Ask a running server; print the answer. Text options take @FILE too.",
    )
    parser.add_argument("prompt", nargs="?", help="the prompt (default: standard input)")
    add_constraint(parser, "the answer", required=False)
    add_format(parser.add_argument_group("with --schema"), generates=True)
    _add_stops(parser)
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
        "--logit-bias",
        type=_bias,
        action="append",
        metavar="ID=NUMBER",
        help="add to the logit of a token, from -100 to 100 (repeat it)",
    )
    parser.add_argument(
        "--best-effort",
        action="store_true",
        help="at --max-tokens the answer may be cut short (default: whole, or refused)",
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


def _add_stops(parser: argparse.ArgumentParser) -> None:
    """When to stop; see StoppingOptions in the contract."""
    stops = parser.add_argument_group("when to stop")
    stops.add_argument("--stop", metavar="TEXT", action="append", help="at this text (repeat it)")
    stops.add_argument(
        "--stop-regex", metavar="REGEX", action="append", help="at a match (repeat it)"
    )
    stops.add_argument(
        "--stop-token", metavar="ID", type=int, action="append", help="at this token (repeat it)"
    )
    stops.add_argument(
        "--unit",
        choices=("json_value", "brackets", "fence", "line", "sentence"),
        help="at the end of the first of these",
    )
    stops.add_argument(
        "--include-stop", action="store_true", help="print what stopped the answer, too"
    )
    stops.add_argument(
        "--ignore-eos", action="store_true", help="not where the model would end the answer"
    )
    stops.add_argument("--min-tokens", type=int, metavar="N", help="not before so many tokens")


def _remark(ending: Ending) -> None:
    """What one might not see in the text itself, on standard error."""
    if not ending.is_complete:
        print("syntaxd: the answer is cut short", file=sys.stderr)
    for pattern in ending.abandoned:
        message = f"--stop-regex {pattern}: took too long, and was given up"
        print(f"syntaxd: {message}", file=sys.stderr)


def _is_constrained(options: argparse.Namespace) -> bool:
    return any(each is not None for each in (options.schema, options.regex, options.choice))


def _bias(given: str) -> tuple[int, float]:
    token, _, bias = given.partition("=")
    return int(token), float(bias)


def run(options: argparse.Namespace) -> int:
    """Calls the server and prints the answer."""
    # Imported here: it brings gRPC, which --help does without.
    from service.rpc import client

    try:
        call = client.Call(
            prompt=text_of(options.prompt) if options.prompt is not None else sys.stdin.read(),
            raw=options.raw,
            constraint=constraint_of(options) if _is_constrained(options) else None,
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            seed=options.seed,
            logit_bias=dict(options.logit_bias or ()),
            min_tokens=options.min_tokens,
            stop=tuple(options.stop or ()),
            stop_regex=tuple(options.stop_regex or ()),
            stop_token_ids=tuple(options.stop_token or ()),
            unit=options.unit,
            include_stop=options.include_stop,
            ignore_eos=options.ignore_eos,
            best_effort=options.best_effort,
        )
    except (OSError, UnicodeError) as error:
        return fail(str(error), 2)
    ask = client.generate_stream if options.stream else client.generate
    try:
        for piece in ask(options.address, call, options.timeout):
            if isinstance(piece, str):
                print(piece, end="", flush=True)
            else:
                print(flush=True)
                _remark(piece)
    except client.BadCallError as error:
        return fail(str(error), 2)
    except client.CallError as error:
        return fail(str(error))
    return 0
