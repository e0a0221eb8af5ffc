"""Asks a real server for many answers and has each one judged.

    python -m benchmarks.check_generations --data ../shared/data/maskbench.jsonl.xz

150 schemas of MaskBench that compile and 50 random ones, the default model at temperature 1.5 (so
that it would go anywhere), budgets from the shortest answer to 256 tokens, every other call
streaming. Every answer must be valid under its schema as written, complete, and within its budget.
Exit status 0 only then.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import transformers

import grammar
from benchmarks import maskbench
from service import models
from service.rpc.pb.v1 import generation_pb2 as pb
from service.rpc.pb.v1 import generation_pb2_grpc
from service.rpc.pb.v1.constraint_pb2 import Constraint
from tests import validator
from tests.random_schemas import random_schema
from tools.local_server import LocalServer

MAX_TOKENS = 256
# Tokens above the shortest answer; None: anything up to MAX_TOKENS.
SLACKS = (0, None, 1, None, 2, None, 5)  # an odd number: each both streaming and not


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    schema: Any
    min_tokens: int
    max_tokens: int
    seed: int
    streaming: bool

    def request(self) -> pb.GenerateRequest:
        message = pb.ChatMessage(role="user", content="Give an example, with made-up values.")
        return pb.GenerateRequest(
            chat=pb.ChatInput(messages=[message]),
            sampling=pb.SamplingParams(temperature=1.5, top_p=1, seed=self.seed),
            stopping=pb.StoppingOptions(max_tokens=self.max_tokens),
            constraint=Constraint(json_schema=json.dumps(self.schema)),
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    text: str = ""
    tokens: int = 0
    complete: bool = False
    reason: str = ""
    error: str = ""

    def fault(self, job: Job) -> str:
        """What is wrong with the answer; "" if nothing is."""
        if self.error:
            return self.error
        if not self.complete:
            return "not complete"
        if self.tokens > job.max_tokens:
            return f"{self.tokens} tokens"
        return "" if validator.valid(job.schema, self.text) else "not valid"


def main() -> int:
    options = parse()
    rng = random.Random(options.seed)
    model = models.folder_of("default")
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    size = json.loads((model / "config.json").read_text())["vocab_size"]
    vocabulary = grammar.Vocabulary.from_tokenizer(tokenizer, size)
    cases = maskbench.read(options.data)
    real = ((c.name, c.schema) for c in maskbench.sample(cases, len(cases), options.seed))
    made = (
        (f"random-{n}", random_schema(random.Random(n))) for n in itertools.count(options.seed)
    )
    jobs = [
        *choose(real, options.real, vocabulary, rng),
        *choose(made, options.random, vocabulary, rng),
    ]
    with (
        LocalServer(*options.flag) as server,
        grpc.insecure_channel(server.address) as channel,
        ThreadPoolExecutor(options.parallel) as pool,
    ):
        stub = generation_pb2_grpc.GenerationServiceStub(channel)
        outcomes = list(pool.map(lambda job: ask(stub, job), jobs))
    return report(jobs, outcomes)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="maskbench.jsonl.xz")
    parser.add_argument("--real", type=int, default=150, help="schemas of MaskBench")
    parser.add_argument("--random", type=int, default=50, help="random schemas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parallel", type=int, default=8, help="calls at a time")
    parser.add_argument("--flag", action="append", default=[], help="one more flag of the server")
    return parser.parse_args()


def choose(
    schemas: Iterator[tuple[str, Any]],
    count: int,
    vocabulary: grammar.Vocabulary,
    rng: random.Random,
) -> Iterator[Job]:
    """A job for each of the first ``count`` schemas that compile and fit in MAX_TOKENS."""
    slacks = itertools.cycle(SLACKS)
    for name, schema in schemas:
        if count == 0:
            return
        try:
            shortest = grammar.compile_json_schema(json.dumps(schema), vocabulary).min_tokens
        except grammar.GrammarError:
            continue
        if shortest > MAX_TOKENS:
            continue
        slack = next(slacks)
        most = rng.randint(max(shortest, 1), MAX_TOKENS) if slack is None else shortest + slack
        budget = max(1, min(most, MAX_TOKENS))
        yield Job(name, schema, shortest, budget, rng.getrandbits(32), count % 2 == 0)
        count -= 1


def ask(stub: generation_pb2_grpc.GenerationServiceStub, job: Job) -> Outcome:
    try:
        return (_stream if job.streaming else _unary)(stub, job)
    except grpc.RpcError as error:
        return Outcome(error=f"{error.code().name}: {error.details()}")


def _unary(stub: generation_pb2_grpc.GenerationServiceStub, job: Job) -> Outcome:
    response = stub.Generate(job.request(), timeout=600)
    output = response.outputs[0]
    reason = pb.FinishReason.Name(output.finish_reason)
    return Outcome(output.text, response.usage.completion_tokens, output.complete, reason)


def _stream(stub: generation_pb2_grpc.GenerationServiceStub, job: Job) -> Outcome:
    text, tokens, finished = "", 0, pb.Finished()
    for event in stub.GenerateStream(job.request(), timeout=600):
        match event.WhichOneof("event"):
            case "delta":
                text += event.delta.text
            case "finished":
                finished = event.finished
            case "summary":
                tokens = event.summary.usage.completion_tokens
    return Outcome(text, tokens, finished.complete, pb.FinishReason.Name(finished.finish_reason))


def report(jobs: Sequence[Job], outcomes: Sequence[Outcome]) -> int:
    """Prints a table and every fault; returns the exit status."""
    faults = [outcome.fault(job) for job, outcome in zip(jobs, outcomes, strict=True)]
    print(f"{'':<12}{'answers':>9}{'valid':>9}{'tokens':>9}{'at minimum':>12}")
    for random_ones, streaming in itertools.product((False, True), (False, True)):
        chosen = [
            n
            for n, job in enumerate(jobs)
            if job.name.startswith("random-") == random_ones and job.streaming == streaming
        ]
        heading = f"{'random' if random_ones else 'real'} {'stream' if streaming else 'unary'}"
        good = sum(not faults[n] for n in chosen)
        tokens = sum(outcomes[n].tokens for n in chosen) / max(1, len(chosen))
        tight = sum(jobs[n].max_tokens == jobs[n].min_tokens for n in chosen)
        print(f"{heading:<12}{len(chosen):>9}{good:>9}{tokens:>9.1f}{tight:>12}")
    print("ended by:", dict(Counter(outcome.reason or "error" for outcome in outcomes)))
    for job, outcome, fault in zip(jobs, outcomes, faults, strict=True):
        if fault:
            print(f"{job.name}, max_tokens {job.max_tokens}, seed {job.seed}: {fault}")
            print(f"  {outcome.text[:500]!r}\n  {json.dumps(job.schema)[:500]}")
    wrong = sum(map(bool, faults))
    print(f"{len(jobs) - wrong} of {len(jobs)} valid, complete and within budget")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
