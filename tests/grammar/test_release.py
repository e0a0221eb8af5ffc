"""What is compiled is freed when it is dropped, without waiting for the garbage collector."""

from __future__ import annotations

import gc
import json
import weakref

import numpy as np
import pytest

import grammar
from tests.constraints import SHAPES
from tests.naive import nasty_vocabulary


@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_a_grammar_and_its_matchers_leave_nothing_behind(number):
    gc.collect()
    gc.disable()
    try:
        parts = _used(SHAPES[number])
        assert [part() for part in parts] == [None] * len(parts)
    finally:
        gc.enable()


def _used(schema):
    vocabulary = nasty_vocabulary()
    compiled = grammar.compile_json_schema(json.dumps(schema), vocabulary)
    matcher = compiled.matcher()
    row = np.zeros(vocabulary.words, dtype=np.uint32)
    for token in compiled.shortest.tokens:
        matcher.fill_mask(row)
        matcher.fill_mask(row, matcher.min_tokens)
        assert matcher.advance(token)
    return [weakref.ref(part) for part in (compiled, compiled.arena, compiled._source)]
