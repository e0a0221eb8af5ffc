"""``syntaxd serve``: the server in the foreground."""

from __future__ import annotations

import argparse
import asyncio
import os

from service import config, logs
from service.cli.common import Commands, fail


def add_command(commands: Commands) -> None:
    """Adds the command and one flag for each setting."""
    parser = commands.add_parser(
        "serve",
        help="serve a model in the foreground",
        description="Serve a model in the foreground. Each flag has an environment variable: "
        f"--max-rows is {config.ENVIRONMENT_PREFIX}MAX_ROWS; the flag wins.",
    )
    config.add_flags(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Serves until SIGTERM or SIGINT."""
    try:
        settings = config.load(vars(options), os.environ)
    except config.ConfigError as error:
        return fail(str(error), 2)
    logs.set_up(settings.log_level, settings.log_format, "front")
    # Imported here: they bring gRPC and the tokenizer, which the other commands do without.
    from service import models
    from service.rpc import app

    try:
        folder = models.folder_of(settings.model)
        return asyncio.run(app.serve(settings, folder))
    except (models.ModelError, app.StartError) as error:
        return fail(str(error))
