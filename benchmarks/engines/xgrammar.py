"""XGrammar: Earley parsing over finite state machines, masks cached a state; in C++."""

from __future__ import annotations

import json
from pathlib import Path

import transformers
import xgrammar

from benchmarks.engines.protocol import Order, Refused


class Matcher:
    def __init__(self, matcher: xgrammar.GrammarMatcher, vocab_size: int) -> None:
        self._matcher = matcher
        self._row = xgrammar.allocate_token_bitmask(1, vocab_size)  # a torch tensor
        self._bits = self._row.numpy()

    def fill_mask(self) -> None:
        self._matcher.fill_next_token_bitmask(self._row)

    def allows(self, token: int) -> bool:
        return bool(int(self._bits[0, token >> 5]) >> (token & 31) & 1)

    def advance(self, token: int) -> bool:
        return bool(self._matcher.accept_token(token))

    def is_complete(self) -> bool:
        return bool(self._matcher.is_completed())

    def reset(self) -> None:
        self._matcher.reset()


class Engine:
    """Masks are built when first needed ("dynamic compilation"): ahead takes seconds a schema."""

    def __init__(self, tokens: xgrammar.TokenizerInfo, order: Order) -> None:
        self._vocab_size = tokens.vocab_size
        self._any_order = order == "any"
        self._compiler = xgrammar.GrammarCompiler(
            tokens, max_threads=1, cache_enabled=False, enable_dynamic_compilation=True
        )

    def compile(self, schema_text: str) -> Matcher:
        try:
            compiled = self._compiler.compile_json_schema(
                schema_text, strict_mode=False, any_order=self._any_order
            )
            matcher = xgrammar.GrammarMatcher(compiled, terminate_without_stop_token=True)
        except RuntimeError as error:
            raise Refused(str(error), "RuntimeError") from error
        return Matcher(matcher, self._vocab_size)


def engine(model: Path, order: Order) -> Engine:
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    size = json.loads((model / "config.json").read_text())["vocab_size"]
    return Engine(xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=size), order)
