"""Writes docs/configuration.md from ``Config``: ``python -m tools.configuration``."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from service import config

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
HEAD = """# Every setting of `syntaxd serve`

Made by `make configuration` from `service/config.py`; a test compares them. A flag wins over its
variable, a variable over the default. What for: [operations.md](operations.md).

| flag | variable | default | |
|---|---|---|---|
"""


def page() -> str:
    """The page, as it should be."""
    return HEAD + "".join(map(_row, dataclasses.fields(config.Config)))


def _row(setting: dataclasses.Field[object]) -> str:
    name = setting.name
    choices = "|".join(setting.metadata["choices"])
    # argparse's own names, so that this page and --help say the same.
    value = "" if setting.default is False else f" {choices or config.metavar(setting)}"
    flag = f"`{config.flag(name)}{value}`".replace("|", "\\|")
    text = setting.metadata["help"].replace("|", "\\|")
    return f"| {flag} | `{config.variable(name)}` | {_default(setting.default)} | {text} |\n"


def _default(value: object) -> str:
    return "no" if value is False else "" if value == "" else f"`{value}`"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE)
