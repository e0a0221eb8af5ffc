"""Where a step's time goes, and what 4-bit weights change in what the model says.

    python -m benchmarks.bench_step --weights int4,full --rows 1,8,32

Runs the engine in this process, without the socket: the extraction tasks under the closed schema,
so many at a time. For each kind of weights a line of milliseconds a step by part (``rest`` is what
the parts do not account for: planning, chunks, Python) and of time a position; then what a step of
one row takes by its positions: what checking guessed tokens costs. Then, on texts of ours,
each kind against the first: perplexity, how often both would choose the same token, and the mean
divergence (Kullback, Leibler 1951) of the next token's distribution, in nats.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks import extraction
from service import models
from service.engine import core, loading
from service.engine.model import Model, Row
from service.engine.step_times import StepTimes
from service.engine.tokenizer import Tokenizer
from service.engine.types import (
    Constraint,
    EngineSettings,
    GenerationRequest,
    Sampling,
    Stopping,
)

_TEXT_TOKENS = 600  # of each text that the quality is measured on
_POSITIONS = (1, 2, 4, 8, 16)
_REPEATS = 20
_PARTS = ("model", "mask", "sample", "plan", "advance")


def main() -> None:
    options = parse()
    folder = models.folder_of(options.model)
    tokenizer = Tokenizer.load(folder)
    print("milliseconds a step, by part")
    titles = ("rows", "steps", "positions", "step", *_PARTS, "rest", "a position")
    print(f"{'':<6}" + "".join(f"{title:>11}" for title in titles))
    found: dict[str, list[torch.Tensor]] = {}
    texts = list(quality_texts(tokenizer))
    threads = options.threads or torch.get_num_threads()
    for weights in options.weights:
        torch.set_num_threads(threads)
        settings = EngineSettings(
            model=str(folder), weights=weights, threads=threads, max_rows=max(options.rows)
        )
        engine = core.load(settings)
        run(engine, tokenizer, 1)  # what only the first step costs
        for rows in options.rows:
            print(f"{weights:<6}" + line(rows, run(engine, tokenizer, rows)), flush=True)
        torch.set_num_threads(threads)
        model = loading.load_model(settings)
        print(f"{weights:<6}" + by_positions(model, settings), flush=True)
        found[weights] = [logits(model, settings, ids) for ids in texts]
    print(f"\nquality over {sum(map(len, texts))} tokens")
    for weights, parts in found.items():
        print(f"{weights:<6}" + quality(texts, found[options.weights[0]], parts))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=lambda text: text.split(","), default=["full", "int4"])
    parser.add_argument(
        "--rows", type=lambda text: [int(n) for n in text.split(",")], default=[1, 8, 32]
    )
    parser.add_argument("--threads", type=int, default=0, help="0: one a core")
    parser.add_argument("--model", default="default", help="a folder, or a name")
    return parser.parse_args()


def run(engine: core.EngineCore, tokenizer: Tokenizer, rows: int) -> tuple[StepTimes, int, float]:
    """Sums over the steps that answer ``rows`` tasks together, their number, and the seconds."""
    tasks = extraction.tasks()
    for number in range(rows):
        task = tasks[number % len(tasks)]
        request = GenerationRequest(
            request_id=str(number),
            prompt_ids=tuple(tokenizer.apply_chat([dict(m) for m in task.messages])),
            sampling=Sampling(temperature=0),
            stopping=Stopping(max_tokens=128),
            constraint=Constraint(kind="json_schema", text=json.dumps(extraction.CLOSED)),
        )
        engine.submit(request, {})
    total, steps, began = StepTimes(), 0, time.perf_counter()
    while not engine.is_idle:
        engine.step()
        times = engine.decoder.times
        for part in dataclasses.fields(times):
            setattr(total, part.name, getattr(total, part.name) + getattr(times, part.name))
        steps += times.rows > 0
    return total, steps, time.perf_counter() - began


def line(rows: int, measured: tuple[StepTimes, int, float]) -> str:
    """One line of the table."""
    total, steps, seconds = measured
    parts = [getattr(total, part) for part in _PARTS]
    times = [1e3 * t / steps for t in (seconds, *parts, seconds - sum(parts))]
    return (
        f"{rows:>11}{steps:>11}{total.positions / steps:>11.1f}"
        + "".join(f"{t:>11.2f}" for t in times)
        + f"{1e3 * seconds / total.positions:>11.2f}"
    )


def by_positions(model: Model, settings: EngineSettings) -> str:
    """Least milliseconds of a step of one row after a short prompt, by its positions."""
    kv = loading.make_cache(model, settings)
    row, tokens = kv.open_row(), list(range(5, 5 + max(_POSITIONS)))
    kv.grow(row, 2 * len(tokens))
    model.forward([Row(row, 0, tokens, 1)], kv)
    least = dict.fromkeys(_POSITIONS, math.inf)
    for _ in range(_REPEATS):
        for count in _POSITIONS:  # in turns: a machine that slows down slows all of them down
            began = time.perf_counter()
            model.forward([Row(row, len(tokens), tokens[:count], count)], kv)
            least[count] = min(least[count], time.perf_counter() - began)
    shown = (f"{count}: {1e3 * seconds:.1f}" for count, seconds in least.items())
    return "  a row's step by positions, ms  " + "  ".join(shown)


def quality_texts(tokenizer: Tokenizer) -> Iterator[list[int]]:
    """Two pages of this repository, and the extraction tasks with their right answers."""
    root = Path(__file__).resolve().parent.parent
    answered = "\n".join(
        task.messages[-1]["content"] + "\n" + json.dumps(task.expected)
        for task in extraction.tasks()
    )
    pages = [(root / name).read_text() for name in ("README.md", "docs/architecture.md")]
    for text in (*pages, answered):
        yield list(tokenizer.encode(text))[:_TEXT_TOKENS]


def logits(model: Model, settings: EngineSettings, ids: list[int]) -> torch.Tensor:
    """Log-probabilities of the next token at every position."""
    kv = loading.make_cache(model, settings)
    row = kv.open_row()
    kv.grow(row, len(ids))
    return model.forward([Row(row, 0, ids, len(ids))], kv)[:-1].log_softmax(-1)


def quality(texts: list[list[int]], first: list[torch.Tensor], these: list[torch.Tensor]) -> str:
    """Perplexity, agreement with the first, divergence from the first."""
    loss = same = apart = 0.0
    for ids, reference, found in zip(texts, first, these, strict=True):
        loss -= float(found.gather(1, torch.tensor(ids[1:])[:, None]).sum())
        same += float((found.argmax(1) == reference.argmax(1)).sum())
        apart += float((reference.exp() * (reference - found)).sum())
    count = sum(len(ids) - 1 for ids in texts)
    return (
        f"  perplexity {math.exp(loss / count):.3f}, same choice {same / count:.2%}, "
        f"divergence {apart / count:.1e}"
    )


if __name__ == "__main__":
    main()
