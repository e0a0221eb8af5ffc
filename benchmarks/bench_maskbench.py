"""Masks and verdicts of constraint engines on MaskBench's schemas.

    python -m benchmarks.bench_maskbench --data ../shared/data/maskbench.jsonl.xz --sample 600 \
        --engines syntaxd,llguidance,xgrammar --vocabulary smollm2,qwen --plot times.png

Each engine, order of keys and vocabulary runs in a process of its own, one thread, every schema
cold, in an order drawn by ``--seed``. A schema passes when it compiles, every valid instance is
allowed token by token and may end there, and every invalid one is stopped at a token or at its
end. Time to first mask (ttfm) is compiling plus the first mask; time per token (tbm) is the mask
plus taking the token. Times compare only inside one run on one machine: quote ratios.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine, maskbench, maskbench_figures, maskbench_plot, maskbench_run
from benchmarks import vocabularies as known_vocabularies
from benchmarks.engines import protocol
from benchmarks.maskbench import Case
from benchmarks.maskbench_run import Result
from service import models

ONE_ORDER = ("llguidance",)  # the schema's: asked for another, it would run twice for nothing
PACKAGES = ("numpy", "numba", "tokenizers", "llguidance", "xgrammar", "torch")


class Run(NamedTuple):
    engine: str
    order: protocol.Order
    vocabulary: str

    @property
    def name(self) -> str:
        return f"{self.vocabulary}.{self.engine}.{self.order}"


def main() -> None:
    options = parse()
    cases = maskbench.read(options.data)
    if options.sample:
        cases = maskbench.sample(cases, options.sample, options.seed)
    about = machine.describe(PACKAGES) | {"schemas": str(len(cases)), "seed": str(options.seed)}
    if options.remark:
        about["remark"] = options.remark
    print("\n".join(f"{name}: {value}" for name, value in about.items()))
    figures: dict[Run, maskbench_figures.Figures] = {}
    everything: dict[Run, list[Result]] = {}
    for run in runs(options.engines, options.order, options.vocabulary):
        print(f"\n{run.engine}, {run.order} order, vocabulary {run.vocabulary}", flush=True)
        chosen = cases
        if run.engine == "xgrammar" and options.xgrammar_sample:
            chosen = cases[: options.xgrammar_sample]  # they are in random order
        results = maskbench_run.run(
            run.engine, folder_of(run.vocabulary), run.order, chosen, options.limit
        )
        figures[run] = maskbench_figures.summary(chosen, results)
        report(chosen, results, figures[run], failures=options.list_failures)
        everything[run] = results
    compared = comparisons(everything)
    for pair, ratios in compared.items():
        print(f"\n{pair}")
        print("\n".join(f"  {key:<16}{value:>8.2f}" for key, value in ratios.items()))
    if options.json:
        options.json.write_text(json.dumps(flat(figures), indent=1) + "\n")
    if options.record:
        named = {run.name: values for run, values in figures.items()}
        found = {"about": about, "figures": named, "ratios": compared}
        options.record.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    if options.plot:
        title = ", ".join(f"{name} {value}" for name, value in about.items())
        maskbench_plot.draw(panels(everything), title, options.plot)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="maskbench.jsonl.xz")
    parser.add_argument("--sample", type=int, default=0, help="schemas to draw; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="draws the sample and its order")
    parser.add_argument("--engines", type=_list_of(protocol.NAMES), default=["syntaxd"])
    parser.add_argument("--order", type=_list_of(("any", "schema")), default=["any"])
    parser.add_argument(
        "--vocabulary",
        type=lambda text: text.split(","),
        default=["smollm2"],
        help=f"{', '.join(known_vocabularies.NAMES)}, or folders of models",
    )
    parser.add_argument(
        "--xgrammar-sample", type=int, default=100, help="schemas for xgrammar, a slow one; 0: all"
    )
    parser.add_argument("--limit", type=float, default=30.0, help="seconds a schema")
    parser.add_argument("--list-failures", action="store_true", help="each schema that fails")
    parser.add_argument("--json", type=Path, help="file for the figures, one flat object")
    parser.add_argument("--record", type=Path, help="file for figures, ratios, machine, versions")
    parser.add_argument("--plot", type=Path, help="PNG of how the times are spread")
    parser.add_argument("--remark", default="", help="for the record: what else the machine did")
    return parser.parse_args()


def _list_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    def convert(text: str) -> list[str]:
        names = text.split(",")
        if unknown := set(names) - set(known):
            raise argparse.ArgumentTypeError(f"{unknown.pop()!r} is none of {', '.join(known)}")
        return names

    return convert


def folder_of(vocabulary: str) -> Path:
    """Where the tokenizer of a known vocabulary, or of a model, is."""
    if vocabulary in known_vocabularies.NAMES:
        return known_vocabularies.folder(vocabulary)
    return models.folder_of(vocabulary)


def flat(figures: Mapping[Run, maskbench_figures.Figures]) -> maskbench_figures.Figures:
    """``ENGINE.ORDER.FIGURE`` → number; a vocabulary that is not the first stands before it."""
    first = next(iter(figures)).vocabulary
    return {
        f"{run.name if run.vocabulary != first else f'{run.engine}.{run.order}'}.{key}": value
        for run, values in figures.items()
        for key, value in values.items()
    }


def runs(
    engines: Sequence[str], orders: Sequence[protocol.Order], vocabularies: Sequence[str]
) -> list[Run]:
    """Each engine in each order that it has, vocabulary by vocabulary."""
    found = []
    for vocabulary, engine in itertools.product(vocabularies, engines):
        own: Sequence[protocol.Order] = ("schema",) if engine in ONE_ORDER else orders
        found += [Run(engine, order, vocabulary) for order in own]
    return found


def comparisons(
    everything: Mapping[Run, Sequence[Result]],
) -> dict[str, maskbench_figures.Figures]:
    """The first engine over each other one, in the same vocabulary and, if it has it, order.

    Only on the schemas that both were given.
    """
    found = {}
    first = next(iter(everything)).engine
    for ours, theirs in itertools.product(everything, everything):
        same_order = ours.order == theirs.order or theirs.engine in ONE_ORDER
        if ours.engine == first != theirs.engine and ours.vocabulary == theirs.vocabulary:
            common = min(len(everything[ours]), len(everything[theirs]))
            if same_order:
                found[f"{ours.name} over {theirs.name}, {common} schemas"] = (
                    maskbench_figures.ratios(
                        everything[ours][:common], everything[theirs][:common]
                    )
                )
    return found


def panels(everything: Mapping[Run, Sequence[Result]]) -> dict[str, maskbench_plot.Times]:
    """What is drawn: a panel a kind of time and vocabulary."""
    found: dict[str, dict[str, Any]] = {}
    for vocabulary in dict.fromkeys(run.vocabulary for run in everything):
        for run, results in everything.items():
            if run.vocabulary == vocabulary:
                name = f"{run.engine}, {run.order} order"
                for kind, times in (
                    ("time to first mask", maskbench_figures.first_masks(results)),
                    ("time per token", maskbench_figures.tokens(results)),
                ):
                    found.setdefault(f"{vocabulary}: {kind}", {})[name] = times
    return dict(found)


def report(
    cases: Sequence[Case],
    results: Sequence[Result],
    figures: maskbench_figures.Figures,
    *,
    failures: bool,
) -> None:
    print(maskbench_figures.table(figures))
    print(maskbench_figures.by_group(cases, results))
    print(maskbench_figures.refusals(results))
    if failures:
        print(maskbench_figures.failures(cases, results))


if __name__ == "__main__":
    main()
