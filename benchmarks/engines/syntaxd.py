"""This project's engine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import transformers

import grammar
from benchmarks.engines.protocol import Order, Refused


class Matcher:
    def __init__(self, compiled: grammar.Grammar, vocabulary: grammar.Vocabulary) -> None:
        self._matcher = compiled.matcher()
        self._row = np.zeros(vocabulary.words, np.uint32)

    def fill_mask(self) -> None:
        self._matcher.fill_mask(self._row)

    def allows(self, token: int) -> bool:
        return bool(self._row[token >> 5] >> (token & 31) & 1)

    def advance(self, token: int) -> bool:
        return self._matcher.advance(token)

    def is_complete(self) -> bool:
        return self._matcher.is_complete

    def reset(self) -> None:
        self._matcher.reset()


class Engine:
    """Recognises any spelling of JSON, as one does who judges somebody else's text."""

    def __init__(self, vocabulary: grammar.Vocabulary, order: Order) -> None:
        self._vocabulary = vocabulary
        self._options = grammar.JsonOptions.recognise(property_order=order)

    def compile(self, schema_text: str) -> Matcher:
        try:
            compiled = grammar.compile_json_schema(
                schema_text, self._vocabulary, options=self._options
            )
        except grammar.GrammarError as error:
            detail = getattr(error, "keyword", "") or getattr(error, "limit", "")
            raise Refused(str(error), detail or type(error).__name__) from error
        return Matcher(compiled, self._vocabulary)


def engine(model: Path, order: Order) -> Engine:
    grammar.warmup()  # as the service does before it accepts calls
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    logit_size = json.loads((model / "config.json").read_text())["vocab_size"]
    return Engine(grammar.Vocabulary.from_tokenizer(tokenizer, logit_size), order)
