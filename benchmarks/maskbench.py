"""MaskBench: real JSON schemas, each with instances that are valid and ones that are not."""

from __future__ import annotations

import json
import lzma
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Instance:
    valid: bool
    data: Any

    @property
    def text(self) -> str:
        """The instance as MaskBench writes it: ``", "`` and ``": "``, keys in stored order."""
        return json.dumps(self.data, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    group: str
    schema: Any
    instances: tuple[Instance, ...]

    @property
    def schema_text(self) -> str:
        return json.dumps(self.schema)

    @property
    def tested_both_ways(self) -> bool:
        """Whether there is a valid and an invalid instance: nothing passes by refusing nothing."""
        return len({instance.valid for instance in self.instances}) == 2


def read(path: Path) -> list[Case]:
    """All cases of a ``.jsonl.xz`` file, in its order."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [_case(json.loads(line)) for line in lines]


def _case(record: dict[str, Any]) -> Case:
    instances = tuple(Instance(test["valid"], test["data"]) for test in record["tests"])
    return Case(record["name"], record["group"], record["schema"], instances)


def sample(cases: Sequence[Case], size: int, seed: int) -> list[Case]:
    """``size`` cases in random order, each group with its share of the whole.

    Shares are rounded down and the largest remainders get one more. The same for the same
    arguments, on every machine.
    """
    rng = random.Random(seed)
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.group].append(case)
    size = min(size, len(cases))
    exact = {name: len(members) * size / len(cases) for name, members in groups.items()}
    counts = {name: int(share) for name, share in exact.items()}
    by_remainder = sorted(groups, key=lambda name: (counts[name] - exact[name], name))
    for name in by_remainder[: size - sum(counts.values())]:
        counts[name] += 1
    chosen = [case for name in sorted(groups) for case in rng.sample(groups[name], counts[name])]
    rng.shuffle(chosen)
    return chosen
