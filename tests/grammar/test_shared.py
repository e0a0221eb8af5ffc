"""The cache that the schemas of one vocabulary share stays within its bytes."""

from __future__ import annotations

import json

import numpy as np

import grammar
from grammar.shared import SharedCache
from tests.naive import _vocabulary


class Sized:
    def __init__(self, nbytes):
        self.nbytes = nbytes


def test_the_least_recently_used_goes_first_and_the_newest_stays():
    cache = SharedCache(max_bytes=10_000)
    for name in "abc":
        cache[name] = Sized(3_000 - 512)
    assert cache.get("a") is not None  # used: now "b" is the oldest
    cache["d"] = (Sized(3_000 - 512), [1])
    assert [name for name in "abcd" if name in cache] == ["a", "c", "d"]
    cache["e"] = Sized(20_000)
    assert len(cache) == 1
    assert "e" in cache


def test_sizes_that_grow_are_asked_for_again():
    cache = SharedCache(max_bytes=1 << 20)
    entries = [Sized(1) for _ in range(200)]
    for i, entry in enumerate(entries):
        cache[i] = entry
        entry.nbytes = 20_000
    assert cache.nbytes <= (1 << 20) + 64 * 20_000


def test_endless_distinct_schemas_leave_memory_flat():
    vocabulary = _vocabulary([bytes([b]) for b in range(256)], 0)
    vocabulary.lexemes.max_bytes = 4 << 20
    row = np.zeros(vocabulary.words, dtype=np.uint32)
    for i in range(400):
        schema = {
            "type": "object",
            "properties": {f"name {i}": {"pattern": f"^[a-z]{{1,{i % 40 + 1}}}x{i}$"}},
            "patternProperties": {f"^k{i}": {"enum": [f"v{i}", i]}},
            "required": [f"name {i}"],
        }
        compiled = grammar.compile_json_schema(json.dumps(schema), vocabulary)
        matcher = compiled.matcher()
        for token in compiled.shortest.tokens:
            matcher.fill_mask(row)
            assert matcher.advance(token)
        assert matcher.is_complete
    assert vocabulary.lexemes.nbytes <= 6 << 20
