"""llguidance: token trie, lazy regex derivatives and Earley parsing, in Rust."""

from __future__ import annotations

import json
import re
from pathlib import Path

import llguidance
import llguidance.hf
import llguidance.numpy
import transformers

from benchmarks.engines.protocol import Order, Refused

_QUOTED = re.compile(r"[\"'`]([$A-Za-z]+)[\"'`]")


class Matcher:
    def __init__(self, matcher: llguidance.LLMatcher, vocab_size: int) -> None:
        self._matcher = matcher
        self._row = llguidance.numpy.allocate_token_bitmask(1, vocab_size)
        self._address, self._bytes = self._row.ctypes.data, self._row.nbytes

    def fill_mask(self) -> None:
        self._matcher.unsafe_compute_mask_ptr(self._address, self._bytes)
        if self._matcher.is_error():
            raise _refused(self._matcher)

    def allows(self, token: int) -> bool:
        return bool(int(self._row[0, token >> 5]) >> (token & 31) & 1)

    def advance(self, token: int) -> bool:
        return bool(self._matcher.consume_token(token))

    def is_complete(self) -> bool:
        return bool(self._matcher.is_accepting())

    def reset(self) -> None:
        self._matcher.reset()


class Engine:
    """Default limits and slices; its JSON is flexible in spacing, and in schema order only."""

    def __init__(self, tokenizer: llguidance.LLTokenizer) -> None:
        self._tokenizer = tokenizer

    def compile(self, schema_text: str) -> Matcher:
        try:
            source = llguidance.LLMatcher.grammar_from_json_schema(schema_text)
        except ValueError as error:
            raise Refused(str(error), "schema") from error
        matcher = llguidance.LLMatcher(self._tokenizer, source, log_level=0)
        if matcher.is_error():
            raise _refused(matcher)
        return Matcher(matcher, self._tokenizer.vocab_size)


def _refused(matcher: llguidance.LLMatcher) -> Refused:
    message = matcher.get_error()
    quoted = _QUOTED.search(message)
    keyword = quoted[1] if quoted else message.split(":")[0].splitlines()[0][:40]
    return Refused(message, keyword)


def engine(model: Path, order: Order) -> Engine:
    assert order in ("any", "schema")  # it has only one
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(model)
    size = json.loads((model / "config.json").read_text())["vocab_size"]
    return Engine(llguidance.hf.from_tokenizer(tokenizer, n_vocab=size))
