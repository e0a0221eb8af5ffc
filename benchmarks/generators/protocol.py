"""What the benchmark needs of a program that answers, and how the programs are found by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchmarks.extraction import Run, Task

SYNTAXD = "syntaxd"
PEERS = ("transformers-xgrammar", "transformers-llguidance")
NAMES = (SYNTAXD, *PEERS)


@dataclass(frozen=True, slots=True)
class Setup:
    """What is the same for every engine."""

    model: Path  # a transformers folder
    max_tokens: int
    max_concurrency: int


class Generator(Protocol):
    """One engine in a process of its own. Greedy; compact JSON where it can."""

    def warm_up(self, tasks: Sequence[Task], schema: dict[str, Any], concurrency: int) -> str:
        """Everything that only a first answer costs. What was settled by it, in words."""

    def run(self, tasks: Sequence[Task], schema: dict[str, Any], concurrency: int) -> Run:
        """Answers all tasks, ``concurrency`` at a time."""

    def close(self) -> None:
        """Ends the process."""


def start(name: str, setup: Setup, flags: Sequence[str], dtypes: Sequence[str]) -> Generator:
    """The engine called ``name``: ours with these flags of ``serve``, a peer with these dtypes."""
    if name == SYNTAXD:
        from benchmarks.generators.server import ServerGenerator

        return ServerGenerator(setup, flags)
    from benchmarks.generators.peer import PeerProcess

    return PeerProcess(name.removeprefix("transformers-"), setup, dtypes)
