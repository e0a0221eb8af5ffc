"""From results to figures: verdicts by group, percentiles, ratios between engines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.maskbench import Case
from benchmarks.maskbench_run import Result

FIRST = 100  # also reported alone: caches that fill while a benchmark runs show there
PERCENTS = {"p25": 25, "p50": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99, "p999": 99.9}
RATIOS = ("ttfm_p50_us", "ttfm_p99_us", "tbm_avg_us", "tbm_p50_us", "tbm_p99_us", "tbm_p999_us")
VERDICTS = ("schemas", "passing", "refused", "valid_rejected", "invalid_accepted")

Figures = dict[str, float]


def summary(cases: Sequence[Case], results: Sequence[Result]) -> Figures:
    """The figures of one run, by name; times in microseconds."""
    both_ways = [
        result for case, result in zip(cases, results, strict=True) if case.tested_both_ways
    ]
    return (
        verdicts(results)
        | {
            "tested_both_ways": len(both_ways),
            "passing_both_ways": sum(result.passing for result in both_ways),
        }
        | _times(results)
        | {f"first{FIRST}_{key}": value for key, value in _times(results[:FIRST]).items()}
    )


def verdicts(results: Sequence[Result]) -> Figures:
    """How many schemas there are, and of which kind."""
    counts = (
        len(results),
        sum(result.passing for result in results),
        sum(bool(result.refused) for result in results),
        sum(bool(result.valid_rejected) for result in results),
        sum(bool(result.invalid_accepted) for result in results),
    )
    return dict(zip(VERDICTS, counts, strict=True))


def first_masks(results: Iterable[Result]) -> npt.NDArray[np.float64]:
    """Microseconds to the first mask of each schema that was served."""
    return np.array([result.first_mask_ns for result in results if not result.refused]) / 1_000


def tokens(results: Iterable[Result]) -> npt.NDArray[np.float64]:
    """Microseconds of each token of the schemas that were served."""
    parts = [np.asarray(result.token_ns, np.int64) for result in results if not result.refused]
    return np.concatenate([*parts, np.zeros(0, np.int64)]) / 1_000


def _times(results: Sequence[Result]) -> Figures:
    figures: Figures = {}
    for kind, times in (("ttfm", first_masks(results)), ("tbm", tokens(results))):
        if kind == "tbm":
            figures["tokens"] = len(times)
        if len(times):
            figures[f"{kind}_avg_us"] = round(float(times.mean()), 2)
            spread = np.percentile(times, list(PERCENTS.values()))
            for name, value in zip(PERCENTS, spread, strict=True):
                figures[f"{kind}_{name}_us"] = round(float(value), 2)
    return figures


def table(figures: Mapping[str, float]) -> str:
    """One figure a line, but percentiles of the same times side by side."""
    lines, spread = [], []
    for key, value in figures.items():
        if "_p" in key and key.endswith("_us"):
            spread.append(f"p{PERCENTS[key.split('_')[-2]]} {value:,.1f}")
            continue
        if spread:
            lines.append("    " + "   ".join(spread))
            spread = []
        lines.append(f"  {key:<28}{value:>14,.10g}")
    return "\n".join(lines + (["    " + "   ".join(spread)] if spread else []))


def by_group(cases: Sequence[Case], results: Sequence[Result]) -> str:
    """Verdicts of each group of schemas."""
    groups: dict[str, list[Result]] = {}
    for case, result in zip(cases, results, strict=True):
        groups.setdefault(case.group, []).append(result)
    lines = ["  " + " " * 24 + "".join(f"{name:>18}" for name in VERDICTS)]
    for name, members in sorted(groups.items()):
        counts = verdicts(members).values()
        lines.append(f"  {name:<24}" + "".join(f"{count:>18,}" for count in counts))
    return "\n".join(lines)


def refusals(results: Sequence[Result]) -> str:
    """How many schemas were refused under each heading."""
    counted = Counter(result.keyword for result in results if result.refused).most_common()
    return "  refused for: " + (", ".join(f"{word} {count}" for word, count in counted) or "-")


def failures(cases: Sequence[Case], results: Sequence[Result]) -> str:
    """Each schema that does not pass, and why."""
    lines = []
    for case, result in zip(cases, results, strict=True):
        reasons = [f"refused: {result.refused[:200]}"] if result.refused else result.wrong
        lines += [f"  {case.name}: {reason}" for reason in reasons]
    return "\n".join(lines)


def ratios(ours: Sequence[Result], theirs: Sequence[Result]) -> Figures:
    """Our times over another engine's: what survives a change of machine."""
    left, right = _times(ours), _times(theirs)
    return {
        key: round(left[key] / right[key], 3) for key in RATIOS if left.get(key) and right.get(key)
    }
