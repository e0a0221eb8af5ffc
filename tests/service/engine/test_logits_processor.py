"""Answers of ``transformers.generate`` under the processor: whole, valid, in every mode of it."""

from __future__ import annotations

import contextlib
import io
import json
import runpy
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

import grammar
from service.engine.logits_processor import ConstraintLogitsProcessor, vocabulary_of
from tests.naive import allowed
from tests.service.engine.tiny import save_folder
from tests.validator import valid

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "docs/examples/with_transformers.py"
EOS = 256
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "tags": {"type": "array", "items": {"enum": ["a", "bc"]}, "maxItems": 3},
    },
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return save_folder(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def loaded(folder):
    """A tiny random model and its tokenizer: a byte a token."""
    from transformers import AutoModelForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(folder, pad_token="<eos>", padding_side="left")
    return AutoModelForCausalLM.from_pretrained(folder), tokenizer


@pytest.fixture(scope="module")
def vocabulary(loaded) -> grammar.Vocabulary:
    return vocabulary_of(*loaded)


def generate(loaded, compiled, prompts, max_new_tokens, **how) -> list[str]:
    model, tokenizer = loaded
    inputs = tokenizer(prompts, return_tensors="pt", padding=True)
    written = model.generate(
        **inputs,
        max_new_tokens=max_new_tokens,
        logits_processor=[ConstraintLogitsProcessor(compiled, max_new_tokens)],
        pad_token_id=EOS,
        **how,
    )
    answers = written[:, inputs["input_ids"].shape[1] :]
    return list(tokenizer.batch_decode(answers, skip_special_tokens=True))


HOW = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True, "temperature": 2.0, "top_k": 0},
    "samples": {"do_sample": True, "num_return_sequences": 3},
    "beams": {"do_sample": False, "num_beams": 4},
    "sampled beams": {"do_sample": True, "num_beams": 3},
    "drafted": {"do_sample": False, "prompt_lookup_num_tokens": 4},
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("more", [0, 1, 5, 40])
def test_answers_are_whole_and_valid(loaded, vocabulary, how, more):
    torch.manual_seed(more)
    compiled = grammar.compile_json_schema(json.dumps(SCHEMA), vocabulary)
    prompts = ['{"name":"x"} {"name":"'] if how == "drafted" else ["A", 'longer: {"name"']
    answers = generate(loaded, compiled, prompts, compiled.min_tokens + more, **HOW[how])
    assert len(answers) == len(prompts) * HOW[how].get("num_return_sequences", 1)
    for answer in answers:
        assert valid(SCHEMA, answer), answer


def test_answers_of_different_lengths_share_a_batch(loaded, vocabulary):
    torch.manual_seed(1)
    compiled = grammar.compile_choice(["a", "a longer answer"], vocabulary)
    answers = generate(loaded, compiled, ["A", "B"] * 6, 15, do_sample=True, temperature=5.0)
    assert set(answers) == {"a", "a longer answer"}


def test_more_beams_than_answers(loaded, vocabulary):
    """The best is an answer; what fills the other beams is forbidden, and never comes first."""
    compiled = grammar.compile_choice(["yes", "no"], vocabulary)
    (best,) = generate(loaded, compiled, ["A"], 3, do_sample=False, num_beams=5)
    assert best in ("yes", "no")


def test_a_budget_that_no_answer_fits_in(vocabulary):
    compiled = grammar.compile_choice(["four", "three"], vocabulary)
    with pytest.raises(ValueError, match="is 3; 4 are"):
        ConstraintLogitsProcessor(compiled, 3)


def test_scores_of_another_width(vocabulary):
    processor = ConstraintLogitsProcessor(grammar.compile_choice(["a"], vocabulary))
    with pytest.raises(ValueError, match="scores of 300 tokens, a vocabulary of 259"):
        processor(torch.zeros((1, 2), dtype=torch.long), torch.zeros((1, 300)))


def test_rows_that_change_places_and_tokens_taken_back(vocabulary):
    """The mask of a row is that of its own text, whatever row it was and came from."""
    compiled = grammar.compile_choice(["abc", "axy"], vocabulary)
    processor = ConstraintLogitsProcessor(compiled)
    prompt = [0, 1]
    for texts in (["", ""], ["a", "a"], ["ab", "ax"], ["axy", "abc"], ["a"], ["ax", "zz"]):
        ids = torch.tensor([prompt + list(map(token_of(vocabulary), text)) for text in texts])
        scores = processor(ids, torch.zeros((len(texts), 259)))
        for text, row in zip(texts, scores, strict=True):
            matcher = compiled.matcher()
            fits = matcher.advance_bytes(text.encode()) == len(text)
            expected = allowed(matcher.mask()) if fits else [EOS]
            assert torch.isfinite(row).nonzero().flatten().tolist() == expected


def token_of(vocabulary):
    return {vocabulary.token_bytes(t).decode("latin-1"): t for t in range(256)}.__getitem__


def test_the_model_s_eos_tokens_count(loaded):
    """Those of its generation settings, of which there may be several."""
    model, tokenizer = loaded
    assert vocabulary_of(model, tokenizer).eos_ids == (EOS,)
    assert vocabulary_of(model, tokenizer).logit_size == 259
    before = model.generation_config.eos_token_id
    try:
        model.generation_config.eos_token_id = [EOS, 258]
        assert vocabulary_of(model, tokenizer).eos_ids == (EOS, 258)
        model.generation_config.eos_token_id = None
        assert vocabulary_of(model, tokenizer).eos_ids == (EOS,)
    finally:
        model.generation_config.eos_token_id = before


def example(monkeypatch, folder: Path) -> str:
    monkeypatch.setattr("sys.argv", ["with_transformers.py", str(folder)])
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    return output.getvalue()


@pytest.mark.parametrize("which", ["tiny", "default"])
def test_the_example_runs(monkeypatch, request, which):
    model = request.getfixturevalue("folder" if which == "tiny" else "default_model")
    schema = json.loads((ROOT / "docs/examples/invoice.schema.json").read_text())
    assert valid(schema, example(monkeypatch, model).removesuffix("\n"))
