"""How times are spread: the share of schemas, or tokens, that take longer than a time.

Both axes are logarithmic, so the tail has as much room as the middle.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

Times = Mapping[str, npt.NDArray[np.float64]]  # name of a run -> microseconds
POINTS = 500


def exceeded(times: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], ...]:
    """x: some of the times, in order; y: the share of all that are longer, never 0."""
    ordered = np.sort(times)
    ranks = np.unique(
        len(ordered) - np.geomspace(1, len(ordered), POINTS).astype(np.int64)
    )  # dense where the tail is
    return ordered[ranks], (len(ordered) - ranks) / len(ordered)


def draw(panels: Mapping[str, Times], title: str, into: Path) -> None:
    """Two panels a row, one line a run. Needs matplotlib, of the extra ``bench``."""
    from matplotlib.figure import Figure

    rows = -(-len(panels) // 2)
    figure = Figure(figsize=(12, 4.4 * rows), layout="constrained")
    figure.suptitle(textwrap.fill(title, 160), fontsize=8)
    grid = figure.subplots(rows, 2, squeeze=False)
    for axes, (name, runs) in zip(grid.flat, panels.items(), strict=False):
        for run, times in runs.items():
            if len(times):
                axes.plot(*exceeded(times), label=run, linewidth=1.4)
        axes.set(
            xscale="log", yscale="log", xlabel=f"{name}, µs", ylabel="share that takes longer"
        )
        axes.grid(visible=True, which="major", alpha=0.4)
        axes.legend(fontsize=8)
    figure.savefig(into, dpi=110)
