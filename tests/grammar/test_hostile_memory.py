"""What hostile constraints and endless traffic leave in memory: within 512 MB, and flat."""

from __future__ import annotations

import gc
import itertools
import json
import os
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path

import grammar
from tests.grammar import hostile_child
from tests.naive import mask, nasty_vocabulary

ROOT = Path(__file__).resolve().parents[2]


def test_hostile_schemas_work_or_are_refused_by_name_within_512_mb():
    done = subprocess.run(
        [sys.executable, "-m", "tests.grammar.hostile_child"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    outcomes = dict(json.loads(line) for line in done.stdout.splitlines())
    assert outcomes.keys() == hostile_child.SCHEMAS.keys()
    limits = {f"refused {name}" for name in grammar.Limits.__slots__}
    for name, outcome in outcomes.items():
        assert outcome in {"works", "refused unsatisfiable"} | limits, name
    for name in ("maxItems", "maxLength", "enum of 5,000", "2 MB of properties", "anyOf 20 deep"):
        assert outcomes[name] == "works", name


def test_endless_distinct_keys_leave_memory_flat():
    """Keys belong to the request that wrote them: nothing of them stays in the grammar."""
    compiled = grammar.compile_json_schema(
        '{"type": "object", "additionalProperties": {"type": "integer"}}', nasty_vocabulary()
    )
    fresh = (f"key {i} {i * i}" for i in itertools.count())

    def request() -> None:
        matcher = compiled.matcher()
        keys = list(itertools.islice(fresh, 20))
        text = "{" + "".join(f'"{key}":1,' for key in keys)
        assert matcher.advance_bytes(text.encode()) == len(text)
        again = f'"{random.choice(keys)}"'
        assert matcher.fork().advance_bytes(again.encode()) == len(again) - 1  # used already
        mask(matcher, matcher.min_tokens + 3)

    tracemalloc.start()
    try:
        for _ in range(20):
            request()
        gc.collect()
        states, before = compiled.arena.num_states, tracemalloc.get_traced_memory()[0]
        tables = compiled.nbytes
        for _ in range(200):
            request()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert (compiled.arena.num_states, compiled.nbytes) == (states, tables)
    assert grown < 200 * 20 * 8, "a few bytes a key would be more"
