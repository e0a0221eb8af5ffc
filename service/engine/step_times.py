"""Where the time of a step goes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class StepTimes:
    """Seconds of one step, by part; ``rows`` and ``positions`` are what it computed."""

    rows: int = 0
    positions: int = 0
    plan: float = 0.0
    model: float = 0.0
    mask: float = 0.0
    sample: float = 0.0
    advance: float = 0.0
