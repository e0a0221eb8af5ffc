"""``syntaxd health``: whether a server serves, as a container's or a script's probe asks."""

from __future__ import annotations

import argparse

from service.cli.common import DEFAULT_ADDRESS, Commands, fail


def add_command(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "health",
        help="whether a server serves",
        description="Ask a server by grpc.health.v1 whether it serves; print its answer.",
        epilog="Exit status: 0 it serves; 1 it does not, or nobody answers; 2 wrong use.",
    )
    parser.add_argument(
        "--server",
        default=DEFAULT_ADDRESS,
        metavar="HOST:PORT",
        help="which one (default: %(default)s)",
    )
    parser.add_argument(
        "--service",
        default="",
        metavar="NAME",
        help="of what: syntaxd.v1.GenerationService, a model's name, ... (default: the server as "
        "a whole)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="give up after (default: %(default)g)",
    )
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Asks once."""
    from service.rpc import client

    try:
        status = client.health(options.server, options.service, options.timeout)
    except client.CallError as error:
        return fail(str(error))
    print(status)
    return 0 if status == "SERVING" else 1
