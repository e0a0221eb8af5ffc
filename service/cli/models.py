"""``syntaxd models``: what lies in the model cache."""

from __future__ import annotations

import argparse

from service.cli.common import Commands, fail


def add_command(commands: Commands) -> None:
    """Adds the command group."""
    parser = commands.add_parser("models", help="fetch the default model")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    fetch = verbs.add_parser(
        "fetch",
        help="fetch the default model and print its folder",
        description="Fetch and convert the default model, unless it is there already, and print "
        "its folder as the last line. It is kept in SYNTAXD_CACHE, or the platform's cache.",
    )
    fetch.set_defaults(command=run_fetch)


def run_fetch(_options: argparse.Namespace) -> int:
    """Fetches the default model."""
    from service import models  # brings numpy and the converters, which --help does without

    try:
        folder = models.fetch_default()
    except models.ModelError as error:
        return fail(str(error))
    print(folder)
    return 0
