"""A heavy compile beside a stream: counted, not timed (decision 2)."""

from __future__ import annotations

import json

import grammar
from service.engine import grammars
from service.engine.core import load
from service.engine.grammars import compile_steps
from service.engine.tokenizer import Tokenizer
from service.engine.types import Constraint, EngineSettings
from tests.service.engine import tiny
from tests.service.engine.test_engine import make_request

# About a second of compiling in the front: sixty patterns with long counted repetitions.
HEAVY = Constraint(
    kind="json_schema",
    text=json.dumps(
        {
            "type": "object",
            "properties": {
                f"p{i}": {
                    "type": "string",
                    "pattern": f"^([a-z]{{{i + 1},{99 + i}}}|[0-9]{{3,90}}x)$",
                }
                for i in range(60)
            },
            "required": ["p1"],
        }
    ),
)


def front_compile(vocabulary):
    steps = compile_steps(HEAVY, vocabulary, grammar.Limits())
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value.lexemes


def test_a_stream_gets_a_token_each_step_while_a_neighbour_compiles(tmp_path, monkeypatch):
    """One slice between two steps, no automaton built, and the neighbour is served as well."""
    folder = tiny.save_folder(tmp_path / "tiny")
    settings = EngineSettings(model=str(folder), threads=1, max_rows=4, max_queue=2)
    vocabulary = Tokenizer.load(folder).vocabulary()  # the front's own
    lexemes = front_compile(vocabulary)
    assert len(lexemes) >= 60

    core = load(settings)
    slices = []
    run_slice = grammars.run_slice
    monkeypatch.setattr(
        grammars, "run_slice", lambda steps, s: slices.append(s) or run_slice(steps, s)
    )
    core.submit(make_request("stream", max_tokens=400, min_tokens=400), {})
    while not any(chunk.tokens for chunk in core.step()):
        pass
    core.submit(make_request("heavy", constraint=HEAVY, max_tokens=100), lexemes)
    steps_without_token = 0
    steps = 0
    ended = None
    while ended is None:
        before = len(slices)
        chunks = core.step()
        steps += 1
        assert len(slices) - before <= 1
        steps_without_token += not any(c.request_id == "stream" and c.tokens for c in chunks)
        ended = next((c.finish for c in chunks if c.request_id == "heavy" and c.finish), None)
    assert ended.complete
    assert steps_without_token == 0
    assert slices
    assert len(slices) < 50  # the front took hundreds
