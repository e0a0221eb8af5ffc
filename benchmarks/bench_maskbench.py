"""Masks and verdicts of constraint engines on MaskBench's schemas.

    python -m benchmarks.bench_maskbench --data ../shared/data/maskbench.jsonl.xz --sample 600 \
        --engines syntaxd,llguidance

Each engine (and order of keys) runs in a process of its own, one thread, every schema cold, in an
order drawn by ``--seed``. A schema passes when it compiles, every valid instance is allowed token
by token and may end there, and every invalid one is stopped at a token or at its end. Time to
first mask is compiling plus the first mask; time per token is the mask plus taking the token.
Times compare only inside one run on one machine: quote ratios.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks import maskbench, maskbench_run
from benchmarks.engines import protocol
from benchmarks.maskbench import Case
from benchmarks.maskbench_run import Result
from service import models

FIRST = 100  # also reported alone: caches that fill while a benchmark runs show there


def main() -> None:
    options = parse()
    model = models.folder_of(options.model)
    cases = maskbench.read(options.data)
    if options.sample:
        cases = maskbench.sample(cases, options.sample, options.seed)
    print(f"{len(cases)} schemas, seed {options.seed}, vocabulary of {model.name}")
    report: dict[str, float] = {}
    for name, order in itertools.product(options.engines, options.order):
        print(f"\n{name}, {order} order", flush=True)
        results = maskbench_run.run(name, model, order, cases, options.limit)
        figures = summary(cases, results)
        print(table(figures))
        print(refusals(results))
        if options.list_failures:
            print(failures(cases, results))
        report |= {f"{name}.{order}.{key}": value for key, value in figures.items()}
    print(ratios(report, options.engines, options.order))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="maskbench.jsonl.xz")
    parser.add_argument("--sample", type=int, default=0, help="schemas to draw; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="draws the sample and its order")
    parser.add_argument("--engines", type=_list_of(protocol.NAMES), default=["syntaxd"])
    parser.add_argument("--order", type=_list_of(("any", "schema")), default=["any"])
    parser.add_argument("--model", default="default", help="whose vocabulary: folder or name")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds a schema")
    parser.add_argument("--list-failures", action="store_true", help="each schema that fails")
    parser.add_argument("--json", type=Path, help="file for the figures")
    return parser.parse_args()


def _list_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    def convert(text: str) -> list[str]:
        names = text.split(",")
        if unknown := set(names) - set(known):
            raise argparse.ArgumentTypeError(f"{unknown.pop()!r} is none of {', '.join(known)}")
        return names

    return convert


def summary(cases: Sequence[Case], results: Sequence[Result]) -> dict[str, float]:
    """The figures of one run, by name; times in microseconds."""
    both_ways = [
        result for case, result in zip(cases, results, strict=True) if case.tested_both_ways
    ]
    return (
        {
            "schemas": len(results),
            "passing": sum(result.passing for result in results),
            "tested_both_ways": len(both_ways),
            "passing_both_ways": sum(result.passing for result in both_ways),
            "refused": sum(bool(result.refused) for result in results),
            "valid_rejected": sum(bool(result.valid_rejected) for result in results),
            "invalid_accepted": sum(bool(result.invalid_accepted) for result in results),
        }
        | _times(results)
        | {f"first{FIRST}_{key}": value for key, value in _times(results[:FIRST]).items()}
    )


def _times(results: Sequence[Result]) -> dict[str, float]:
    served = [result for result in results if not result.refused]
    if not served:
        return {}
    first = np.array([result.first_mask_ns for result in served]) / 1_000
    times = np.concatenate([np.asarray(result.token_ns, np.int64) for result in served]) / 1_000
    figures: dict[str, float] = {
        "ttfm_p50_us": np.percentile(first, 50),
        "ttfm_p99_us": np.percentile(first, 99),
    }
    figures["tokens"] = len(times)
    if len(times):
        figures["tbm_avg_us"] = times.mean()
        for percent, key in ((50, "p50"), (99, "p99"), (99.9, "p999")):
            figures[f"tbm_{key}_us"] = np.percentile(times, percent)
    return {key: round(float(value), 2) for key, value in figures.items()}


def table(figures: dict[str, float]) -> str:
    return "\n".join(f"  {key:<24}{value:>14,g}" for key, value in figures.items())


def ratios(report: dict[str, float], engines: Sequence[str], orders: Sequence[str]) -> str:
    """The first engine's times over each other engine's: what survives a change of machine."""
    lines = []
    for peer, order in itertools.product(engines[1:], orders):
        for key in ("ttfm_p50_us", "ttfm_p99_us", "tbm_avg_us", "tbm_p50_us", "tbm_p99_us"):
            ours, theirs = (report.get(f"{name}.{order}.{key}") for name in (engines[0], peer))
            if ours and theirs:
                lines.append(f"  {order} {key:<14} {ours / theirs:8.2f}")
        lines.insert(-5, f"\n{engines[0]} over {peer}")
    return "\n".join(lines)


def refusals(results: Sequence[Result]) -> str:
    """How many schemas were refused under each heading."""
    counted = Counter(result.keyword for result in results if result.refused).most_common()
    return "  refused for: " + (", ".join(f"{word} {count}" for word, count in counted) or "-")


def failures(cases: Sequence[Case], results: Sequence[Result]) -> str:
    lines = []
    for case, result in zip(cases, results, strict=True):
        reasons = [f"refused: {result.refused[:200]}"] if result.refused else result.wrong
        lines += [f"  {case.name}: {reason}" for reason in reasons]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
