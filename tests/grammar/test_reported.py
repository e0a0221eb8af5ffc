"""Inputs that users reported as broken on other engines hold here, or are listed as refused."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import grammar
from tests import shared_data, verdicts
from tests.validator import valid

CASES = shared_data.reported_cases() if shared_data.REPORTED.is_file() else []
UNCOVERED = verdicts.read(verdicts.REPORTED_UNCOVERED)
COVERED = [case for case in CASES if case["id"] not in UNCOVERED]


def _name(case):
    return case["id"]


def test_the_cases_are_there_and_the_refused_ones_listed():
    shared_data.need(shared_data.REPORTED)
    refusals = {case["id"]: verdicts.reported_refusal(case) for case in CASES}
    refused = {name: why for name, why in refusals.items() if why}
    assert refused == UNCOVERED, "if that is meant: python -m tests.verdicts"


@pytest.mark.parametrize("case", COVERED, ids=_name)
def test_texts_are_accepted_and_rejected_as_reported(case):
    if case.get("unsat"):
        with pytest.raises(grammar.Unsatisfiable):
            verdicts.compile_reported(case)
        return
    compiled = verdicts.compile_reported(case)
    assert [text for text in case["accept"] if not verdicts.accepts(compiled, text)] == []
    assert [text for text in case["reject"] if verdicts.accepts(compiled, text)] == []


@pytest.mark.parametrize("case", [case for case in COVERED if "budget" in case], ids=_name)
def test_within_the_budget_every_choice_ends_valid(case, default_model):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(default_model)
    vocabulary = grammar.Vocabulary.from_tokenizer(tokenizer, len(tokenizer))
    schema = case["schema"]
    compiled = grammar.compile_json_schema(json.dumps(schema), vocabulary)
    assert compiled.min_tokens <= case["budget"]
    row = np.zeros(vocabulary.words, np.uint32)
    for seed in range(50):
        rng, matcher, text = random.Random(seed), compiled.matcher(), b""
        for left in range(case["budget"], -1, -1):
            if matcher.is_complete:
                break
            matcher.fill_mask(row, budget=left)
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
            token = int(rng.choice(allowed))
            assert matcher.advance(token)
            text += vocabulary.token_bytes(token)
        assert matcher.is_complete
        assert valid(schema, text)
