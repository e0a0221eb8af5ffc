"""What a benchmark needs of a constraint engine, and how the engines are found by name."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Literal, Protocol, cast

Order = Literal["any", "schema"]
NAMES = ("syntaxd", "llguidance", "xgrammar")


class Refused(Exception):  # noqa: N818 - names the verdict
    """The engine cannot enforce the schema; ``keyword`` groups the reasons."""

    def __init__(self, message: str, keyword: str) -> None:
        super().__init__(message)
        self.keyword = keyword


class Matcher(Protocol):
    """One pass over a text, with a mask of its own."""

    def fill_mask(self) -> None:
        """Computes which tokens may come next. Raises Refused if the engine gives up."""

    def allows(self, token: int) -> bool:
        """Whether the mask computed last has ``token``."""

    def advance(self, token: int) -> bool:
        """Takes ``token``; False if the engine does not."""

    def is_complete(self) -> bool:
        """Whether the text may end here."""

    def reset(self) -> None:
        """Back to the empty text."""


class Engine(Protocol):
    def compile(self, schema_text: str) -> Matcher:
        """All the work before the first mask. Raises Refused."""


def load(name: str, model: Path, order: Order) -> Engine:
    """The engine called ``name``, with the vocabulary of the model in folder ``model``."""
    module = importlib.import_module(f"benchmarks.engines.{name}")
    return cast("Engine", module.engine(model, order))
