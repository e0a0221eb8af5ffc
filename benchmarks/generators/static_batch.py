"""The usual way without a server: ``transformers.generate`` over a static batch, masked.

Runs in the peer's process. A batch is as large as the concurrency; its prompts are padded on the
left; it ends when its last row does, as ``generate`` has it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import transformers
import xgrammar
from xgrammar.contrib.hf import LogitsProcessor as XgrammarProcessor

from benchmarks.extraction import Answer, Run, Task
from benchmarks.generators.protocol import Setup

_PROBE_TOKENS = 24  # how long the dtypes are tried for

#: Makes the processor of one ``generate`` call for a schema; what can be kept is kept.
Processors = Callable[[dict[str, Any]], transformers.LogitsProcessor]


class StaticBatch:
    """One model in each dtype to choose from; the faster one is found for each concurrency."""

    def __init__(self, library: str, setup: Setup, dtypes: Sequence[str]) -> None:
        transformers.utils.logging.disable_progress_bar()
        self._max_tokens = setup.max_tokens
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(
            setup.model, padding_side="left"
        )
        self._models = {
            dtype: transformers.AutoModelForCausalLM.from_pretrained(
                setup.model, dtype=getattr(torch, dtype)
            ).eval()
            for dtype in dtypes
        }
        for model in self._models.values():
            # Greedy: what the folder says of sampling would only be warned about.
            model.generation_config.update(temperature=None, top_p=None, top_k=None)
        self._processors = _LIBRARIES[library](setup.model, self._tokenizer)
        self._best: dict[int, str] = {}  # dtype by concurrency

    def warm_up(self, tasks: Sequence[Task], schema: dict[str, Any], concurrency: int) -> str:
        """Settles the dtype for this concurrency: the faster one over a short batch."""
        if concurrency not in self._best:
            took = {}
            for dtype in self._models:
                seconds = []
                for max_tokens in (2, _PROBE_TOKENS, _PROBE_TOKENS):  # the first one is for caches
                    begin = perf_counter()
                    self._batch(tasks[:concurrency], schema, dtype, max_tokens)
                    seconds.append(perf_counter() - begin)
                took[dtype] = min(seconds[1:])
            self._best[concurrency] = min(took, key=took.__getitem__)
        else:
            self._batch(tasks[:concurrency], schema, self._best[concurrency], 2)
        return self._best[concurrency]

    def run(self, tasks: Sequence[Task], schema: dict[str, Any], concurrency: int) -> Run:
        dtype = self._best[concurrency]
        answers: list[Answer] = []
        begin = perf_counter()
        for start in range(0, len(tasks), concurrency):
            batch = tasks[start : start + concurrency]
            answers += self._batch(batch, schema, dtype, self._max_tokens)
        return Run(answers, perf_counter() - begin)

    def _batch(
        self, tasks: Sequence[Task], schema: dict[str, Any], dtype: str, max_tokens: int
    ) -> list[Answer]:
        inputs = self._tokenizer.apply_chat_template(
            [list(task.messages) for task in tasks],
            add_generation_prompt=True,
            padding=True,
            return_tensors="pt",
            return_dict=True,
        )
        with torch.inference_mode():
            output = self._models[dtype].generate(
                **inputs,
                max_new_tokens=max_tokens,
                do_sample=False,
                logits_processor=[self._processors(schema)],
            )
        ends = {self._tokenizer.eos_token_id, self._tokenizer.pad_token_id}
        return [self._answer(row, ends) for row in output[:, inputs["input_ids"].shape[1] :]]

    def _answer(self, row: torch.Tensor, ends: set[int]) -> Answer:
        ids = row.tolist()
        length = next((n for n, token in enumerate(ids) if token in ends), len(ids))
        return Answer(self._tokenizer.decode(ids[:length]), length)


def _xgrammar(model: Path, tokenizer: Any) -> Processors:
    """Compact JSON; objects that are left open are closed, the library's default."""
    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=_vocab_size(model))
    compiler = xgrammar.GrammarCompiler(info)  # keeps what it compiled

    def processor(schema: dict[str, Any]) -> transformers.LogitsProcessor:
        compiled = compiler.compile_json_schema(
            json.dumps(schema), any_whitespace=False, separators=(",", ":")
        )
        made: transformers.LogitsProcessor = XgrammarProcessor(compiled)
        return made

    return processor


def _llguidance(model: Path, tokenizer: Any) -> Processors:
    """Compact JSON; objects that are left open stay open, the library's default."""
    import llguidance
    import llguidance.hf

    info = llguidance.hf.from_tokenizer(tokenizer, n_vocab=_vocab_size(model))

    def processor(schema: dict[str, Any]) -> transformers.LogitsProcessor:
        source = llguidance.LLMatcher.grammar_from_json_schema(
            json.dumps(schema), {"whitespace_flexible": False}
        )
        return LlguidanceProcessor(lambda: llguidance.LLMatcher(info, source), _vocab_size(model))

    return processor


class LlguidanceProcessor(transformers.LogitsProcessor):  # type: ignore[misc]
    """The library has none of its own; masks are applied by xgrammar's kernel.

    llguidance's own is compiled by torch at its first call, which takes longer than the benchmark.
    """

    def __init__(self, make_matcher: Callable[[], Any], vocab_size: int) -> None:
        self._make_matcher = make_matcher
        self._vocab_size = vocab_size
        self._matchers: list[Any] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Takes each row's last token, then forbids what may not follow."""
        if self._matchers:
            for matcher, token in zip(self._matchers, input_ids[:, -1].tolist(), strict=True):
                if not matcher.is_stopped():
                    taken = matcher.consume_token(token)
                    assert taken, matcher.get_error()
        else:
            self._matchers = [self._make_matcher() for _ in input_ids]
            self._masks = xgrammar.allocate_token_bitmask(len(input_ids), self._vocab_size)
        row_bytes = self._masks.stride(0) * self._masks.itemsize
        for n, matcher in enumerate(self._matchers):
            if not matcher.is_stopped():
                address = self._masks.data_ptr() + n * row_bytes
                matcher.unsafe_compute_mask_ptr(address, row_bytes)
        xgrammar.apply_token_bitmask_inplace(scores, self._masks)
        return scores


_LIBRARIES = {"xgrammar": _xgrammar, "llguidance": _llguidance}


def _vocab_size(model: Path) -> int:
    size: int = json.loads((model / "config.json").read_text())["vocab_size"]
    return size
