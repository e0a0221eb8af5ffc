"""Each keyword's language by example: data/schemas_language; the validator says the same."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import grammar
from tests.naive import byte_vocabulary, mask, nasty_vocabulary
from tests.validator import valid

FOLDER = Path(__file__).parents[1] / "data" / "schemas_language"
CASES = {
    f"{path.stem}: {case['name']}": case
    for path in sorted(FOLDER.glob("*.json"))
    for case in json.loads(path.read_text(encoding="utf-8"))
}


def accepts(compiled: grammar.Grammar, text: str) -> bool:
    matcher = compiled.matcher()
    data = text.encode()
    return matcher.advance_bytes(data) == len(data) and matcher.is_complete


def distinct_spelling(text: str) -> bool:
    """Whether the text is JSON at all that a judge reads as we do (no lone surrogates)."""
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except (ValueError, UnicodeEncodeError):
        return False
    return True


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_recognising(case):
    compiled = grammar.compile_json_schema(
        json.dumps(case["schema"]), byte_vocabulary(), grammar.JsonOptions.recognise()
    )
    assert [text for text in case["accept"] if not accepts(compiled, text)] == []
    assert [text for text in case["reject"] if accepts(compiled, text)] == []
    # spacing says nothing, where the text has no string to break
    for text in case["accept"]:
        if '"' not in text:
            spread = text.replace(",", " ,\n ").replace("[", "[ ").replace("]", "\t]")
            assert accepts(compiled, spread), spread


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_validator_agrees(case):
    """The data is right, whoever wrote it."""
    schema = case["schema"]
    assert [text for text in case["accept"] if not valid(schema, text)] == []
    wrong = [text for text in case["reject"] if valid(schema, text) and distinct_spelling(text)]
    assert wrong == []


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_generating_stays_inside(case):
    """With the options for generating nothing else is accepted, and every walk is valid."""
    compiled = grammar.compile_json_schema(json.dumps(case["schema"]), nasty_vocabulary())
    assert [text for text in case["reject"] if accepts(compiled, text)] == []
    vocabulary = compiled.vocabulary
    rng = random.Random(case["name"])
    for more in (0, 3, 15):
        matcher, left, text = compiled.matcher(), compiled.min_tokens + more, b""
        while not matcher.is_finished:
            token = rng.choice(mask(matcher, left))
            if token in vocabulary.eos_ids:
                break
            assert matcher.advance(token)
            text += vocabulary.token_bytes(token)
            left -= 1
        assert left >= 0
        assert valid(case["schema"], text), text
