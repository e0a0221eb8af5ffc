"""Masks without the service: ``python docs/examples/with_transformers.py [MODEL_FOLDER]``.

The model is loaded and sampled by transformers; what it writes matches the schema all the same.
"""

import sys
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer

import grammar
from service import models
from service.engine.logits_processor import ConstraintLogitsProcessor, vocabulary_of

HERE = Path(__file__).parent
MAX_NEW_TOKENS = 160


def main(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    compiled = grammar.compile_json_schema(
        (HERE / "invoice.schema.json").read_text(),
        vocabulary_of(model, tokenizer),
        grammar.JsonOptions(whitespace="single_space"),
    )
    inputs = tokenizer((HERE / "letter.txt").read_text(), return_tensors="pt")
    written = model.generate(
        **inputs,
        do_sample=True,
        max_new_tokens=MAX_NEW_TOKENS,
        logits_processor=[ConstraintLogitsProcessor(compiled, MAX_NEW_TOKENS)],
    )
    answer = written[0, inputs["input_ids"].shape[1] :]
    print(tokenizer.decode(answer, skip_special_tokens=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else models.fetch_default())
