"""What the front compiled, the engine does not compile again (decision 2)."""

from __future__ import annotations

import json

import numpy as np
import pytest

import grammar
from grammar.schema import document, strings
from tests.naive import byte_vocabulary

HEAVY = {
    "type": "object",
    "properties": {
        "code": {"type": "string", "pattern": "^([a-z]{2,90}|[0-9a-f]{3,60}[xyz])$"},
        "short": {"type": "string", "pattern": "^[A-Z]+-[0-9]+$", "maxLength": 12},
        "day": {"type": "string", "format": "date"},
        "share": {"type": "number", "minimum": 0.25, "maximum": 17.5},
        "inner": {"type": "array", "items": {"type": "string", "pattern": "ab+c"}},
    },
    "required": ["code", "short", "day", "share", "inner"],
}


def compiled(vocabulary, lexemes=None, *, eager=False):
    steps = grammar.compile_steps(
        "json_schema", json.dumps(HEAVY), (), vocabulary, None, None, lexemes, eager=eager
    )
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


@pytest.fixture
def shipped():
    """What an eager compile in another process (another vocabulary object) built."""
    return compiled(byte_vocabulary(), eager=True).lexemes


def test_the_engine_builds_no_automaton_of_its_own(shipped, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("built again")

    monkeypatch.setattr(document, "compile_text", refuse)
    monkeypatch.setattr(strings, "compile_text", refuse)
    monkeypatch.setattr(strings, "format_text", refuse)
    monkeypatch.setattr(strings, "number_dfa", refuse)
    matcher = compiled(byte_vocabulary(), shipped).matcher()
    text = b'{"code":"ab","short":"A-1","day":"2024-02-29","share":0.5,"inner":["xabbc"]}'
    assert matcher.advance_bytes(text) == len(text)
    assert matcher.is_finished


def test_shipped_automata_give_the_same_masks(shipped):
    vocabulary = byte_vocabulary()
    own, theirs = compiled(vocabulary).matcher(), compiled(byte_vocabulary(), shipped).matcher()
    for byte in own.witness():
        np.testing.assert_array_equal(own.mask(), theirs.mask())
        assert own.advance_bytes(bytes([byte])) == theirs.advance_bytes(bytes([byte])) == 1


def test_the_shortest_text_is_complete_and_the_same_length(shipped):
    own, theirs = compiled(byte_vocabulary()), compiled(byte_vocabulary(), shipped)
    assert len(own.shortest.text) == len(theirs.shortest.text)
