"""Valid answers a second, beside what one would use without this service.

    python -m benchmarks.bench_generate --concurrency 1,8,32 --json figures.json

Twenty extraction tasks of ours (``data/extraction.json``), one model folder, one schema, one token
limit, greedy. Ours is a real server that as many callers ask over the socket; a peer is
``transformers.generate`` over static batches of that size, with the library's masks and in the
dtype that is faster there. The texts are numbered through: requests have the system message in
common and nothing else. Each engine has a process of its own, waits while another one is
measured, and is warmed up before anything is timed; rounds take the engines in turn, so that a
machine that slows down slows all of them down. Figures are medians of the rounds; ``ratio`` is the
median of ours over the best peer of the same round. Only ratios travel from machine to machine.

The closed schema forbids further keys. The open one says nothing of them: an engine generates what
its own default makes of that (ours and xgrammar's: no further keys).
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import extraction
from benchmarks.extraction import SCHEMAS
from benchmarks.generators import protocol
from benchmarks.generators.protocol import NAMES, SYNTAXD, Generator, Setup
from service import models

Series = defaultdict[str, list[float]]  # by name of the figure, one value a round

_COLUMNS = (
    ("valid_per_s", "valid/s", "{:.3f}"),
    ("tokens_per_s", "tokens/s", "{:.1f}"),
    ("valid_share", "valid", "{:.0%}"),
    ("exact_fields", "exact", "{:.0%}"),
    ("answer_bytes", "bytes", "{:.0f}"),
    ("answer_tokens", "tokens", "{:.1f}"),
    ("steered_share", "steered", "{:.0%}"),
)


def main() -> None:
    options = parse()
    setup = Setup(models.folder_of(options.model), options.max_tokens, max(options.concurrency))
    schemas = ["closed", "open"] if options.schema == "both" else [options.schema]
    print(f"{setup.model.name}, at most {setup.max_tokens} tokens, greedy", flush=True)
    engines: dict[str, Generator] = {}
    series: Series = Series(list)
    numbers = itertools.count(options.seed)
    try:
        for name in options.engines:
            engines[name] = protocol.start(name, setup, options.flag, options.peer_dtype)
        for schema in schemas:
            measure(engines, schema, options.concurrency, options.rounds, numbers, series)
    finally:
        for engine in engines.values():
            engine.close()
    report = flat(series)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--concurrency", type=_integers, default=[1, 8, 32], help="1,8,32")
    parser.add_argument("--engines", type=_names, default=list(NAMES[:2]), help=", ".join(NAMES))
    parser.add_argument("--schema", choices=(*SCHEMAS, "both"), default="both")
    parser.add_argument("--max-tokens", type=int, default=128, help="of one answer")
    parser.add_argument("--rounds", type=int, default=1, help="of everything")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first text")
    parser.add_argument("--model", default="default", help="a folder, or a name")
    parser.add_argument(
        "--peer-dtype", type=lambda text: text.split(","), default=["float32", "bfloat16"],
        help="what peers may choose from, by default float32,bfloat16",
    )  # fmt: skip
    parser.add_argument("--flag", action="append", default=[], help="one more flag of the server")
    parser.add_argument("--json", type=Path, help="file for the figures")
    return parser.parse_args()


def _integers(text: str) -> list[int]:
    numbers = [int(part) for part in text.split(",")]
    if min(numbers) < 1:
        raise argparse.ArgumentTypeError("concurrency is at least 1")
    return numbers


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(NAMES):
        raise argparse.ArgumentTypeError(f"{unknown.pop()!r} is none of {', '.join(NAMES)}")
    return names


def measure(
    engines: dict[str, Generator],
    schema: str,
    concurrencies: Sequence[int],
    rounds: int,
    numbers: Iterator[int],
    series: Series,
) -> None:
    """Adds a value a round to ``series`` and prints each round's lines."""
    tasks = extraction.tasks()
    prefix = "" if schema == "closed" else f"{schema}."
    for concurrency in concurrencies:
        print(f"\n{schema} schema, {concurrency} at a time")
        first = extraction.workload(tasks, concurrency, numbers)
        for name, engine in engines.items():
            settled = engine.warm_up(first, SCHEMAS[schema], concurrency)
            if settled:
                print(f"  {name} answers in {settled}")
        print(f"  {'':<24}" + "".join(f"{title:>10}" for _, title, _ in _COLUMNS), flush=True)
        for _ in range(rounds):
            chosen = extraction.workload(tasks, concurrency, numbers)
            rates = {}
            for name, engine in engines.items():
                run = engine.run(chosen, SCHEMAS[schema], concurrency)
                found = extraction.figures(chosen, run, SCHEMAS[schema])
                rates[name] = found["valid_per_s"]
                print(line(name, found), flush=True)
                for key, value in found.items():
                    if key != "steered_share" or name == SYNTAXD:
                        series[f"{prefix}{name}.c{concurrency}.{key}"].append(value)
            ratio = ratio_over_best(rates)
            if ratio is not None:
                series[f"{prefix}ratio.c{concurrency}"].append(ratio)
                print(f"  ratio {ratio:.2f}", flush=True)


def line(name: str, found: dict[str, float]) -> str:
    """One row of the table."""
    return f"  {name:<24}" + "".join(f"{form.format(found[key]):>10}" for key, _, form in _COLUMNS)


def ratio_over_best(rates: dict[str, float]) -> float | None:
    """Ours over the best peer; None without both, or where no peer gave a valid answer."""
    best = max((rate for name, rate in rates.items() if name != SYNTAXD), default=0.0)
    return rates[SYNTAXD] / best if best and SYNTAXD in rates else None


def flat(series: Series) -> dict[str, float]:
    """The median of each figure."""
    return {key: round(statistics.median(values), 4) for key, values in series.items()}


if __name__ == "__main__":
    main()
