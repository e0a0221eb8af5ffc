"""Does the decoder compute right on this machine's device, and how near to its floor?

    python -m tools.gpu_check                  # CUDA if there is one: sizes 1b and 8b
    python -m tools.gpu_check --device cpu     # a tiny size: so the script itself is tested

No weights are downloaded: they are random, in the shapes of the Llamas of these sizes, bfloat16.

    bandwidth     a copy of a large buffer, bytes read and written a second: what the rest is
                  measured by
    correctness   a tiny model on the device against the library's plain forward on the CPU, in
                  float32: logits over prefills, chunks and decodes; then masks and sampling
                  against the same on the CPU, token for token
    step          a decode step of so many rows after so many tokens, against the time that reading
                  its weights, keys and values once would take
    throughput    tokens a second of whole answers, without a constraint and with one, and whether
                  every constrained answer is valid

There are no Triton kernels and no CUDA graphs in this version: what runs on a device is torch, and
its tested twin is the CPU. The report says so, and the step times show what that costs.

Exit status 0 if what was computed is right (times judge nothing), 1 if not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig

import grammar
from service.engine.decoder import Decoder
from service.engine.kv_cache import KVCache, block_bytes, blocks_for
from service.engine.loading import adapt, make_cache
from service.engine.model import Model, Row
from service.engine.sampling import SamplingRow, sample
from service.engine.types import EngineSettings, GenerationRequest, Sampling, Stopping

_TOLERANCE = 2e-3  # of the logits' spread: float32, sums in another order
_PATTERN = r'\{"name":"[a-z ]{20,200}","tags":\["[a-z]{3,40}"(,"[a-z]{3,40}"){0,9}\]\}'


@dataclass(frozen=True)
class Size:
    """The shape of a model, how it is measured, and the vocabulary that it chooses from."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    tied: bool
    batches: tuple[int, ...] = (1, 8, 64, 256)
    context: int = 512  # tokens before the measured step
    answer: int = 64  # tokens of an answer

    def config(self, max_position: int) -> LlamaConfig:
        return LlamaConfig(
            vocab_size=self.vocab,
            hidden_size=self.hidden,
            intermediate_size=self.intermediate,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            max_position_embeddings=max_position,
            tie_word_embeddings=self.tied,
            bos_token_id=0,
            eos_token_id=1,
        )


SIZES = {
    "tiny": Size(64, 96, 2, 4, 2, 512, tied=True, batches=(1, 4), context=40, answer=60),
    "1b": Size(2048, 8192, 16, 32, 8, 128_256, tied=True),
    "8b": Size(4096, 14_336, 32, 32, 8, 128_256, tied=False),
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    device = torch.device(options.device)
    report: dict[str, Any] = {
        "machine": machine(device),
        "not_built": ["Triton kernels", "CUDA graphs"],
    }
    _say("machine", report["machine"])
    report["bandwidth_gb_s"] = bandwidth(device)
    _say("bandwidth", f"{report['bandwidth_gb_s']:.0f} GB/s, reading and writing")
    report["correctness"] = correctness(device)
    _say("correctness", report["correctness"])
    report["sizes"] = {}
    for name in options.sizes:
        report["sizes"][name] = _size(SIZES[name], name, device, report["bandwidth_gb_s"], options)
    report["ok"] = report["correctness"]["ok"] and all(
        each.get("all_valid", True) for each in report["sizes"].values()
    )
    print("right" if report["ok"] else "WRONG", flush=True)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if report["ok"] else 1


def machine(device: torch.device) -> dict[str, Any]:
    """What this is measured on."""
    found: dict[str, Any] = {"device": str(device), "torch": torch.__version__}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found |= {"name": properties.name, "memory_gib": round(properties.total_memory / 2**30)}
    else:
        found |= {"name": "CPU", "threads": torch.get_num_threads()}
        found["note"] = "no GPU: nothing here says how fast one is"
    return found


def bandwidth(device: torch.device) -> float:
    """GB/s of a copy, its bytes read and written counted."""
    size = (1 << 30) if device.type == "cuda" else (1 << 26)
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    seconds = _best(lambda: target.copy_(source), device, repeats=10)
    return 2 * size / seconds / 1e9


# --- correctness --------------------------------------------------------------------------------


def correctness(device: torch.device) -> dict[str, Any]:
    """Logits against the plain forward on the CPU; masks and sampling against themselves there."""
    torch.manual_seed(0)
    size = SIZES["tiny"]
    reference = AutoModelForCausalLM.from_config(size.config(256), dtype=torch.float32).eval()
    for parameter in reference.parameters():
        torch.nn.init.normal_(parameter.data, std=0.2)  # logits that differ
    ours = AutoModelForCausalLM.from_config(size.config(256), dtype=torch.float32).eval()
    ours.load_state_dict(reference.state_dict())
    model = adapt(ours.to(device))
    tokens = torch.randint(2, size.vocab, (3, 100)).tolist()
    with torch.inference_mode():
        plain = reference(torch.tensor(tokens)).logits
    error = max(
        float((got - plain[i, -len(got) :]).abs().max() / plain.std())
        for i, got in enumerate(_by_steps(model, tokens))
    )
    same = _same_choices(plain[0, -16:].contiguous(), device)
    return {"logit_error": error, "same_choices": same, "ok": error < _TOLERANCE and same}


def _by_steps(model: Model, sequences: list[list[int]]) -> list[torch.Tensor]:
    """Logits on the CPU: a chunk of each, another one that is shorter, then token by token."""
    kv = make_cache(model, EngineSettings(model="", max_rows=len(sequences)))
    rows = [kv.open_row() for _ in sequences]
    done, parts = 0, []
    for count in (64, 7, *[1] * (len(sequences[0]) - 71)):
        batch = [
            Row(row, done, tokens[done : done + count], count)
            for row, tokens in zip(rows, sequences, strict=True)
        ]
        for row in rows:
            kv.grow(row, done + count)
        parts.append(model.forward(batch, kv).float().cpu().view(len(rows), count, -1))
        done += count
    return list(torch.cat(parts, dim=1))


def _same_choices(logits: torch.Tensor, device: torch.device) -> bool:
    """Greedy and sampled, under random masks and with penalties off, on both."""
    generator = np.random.default_rng(0)
    words = (logits.shape[1] + 31) // 32
    masks = generator.integers(1, 2**32, (len(logits), words), dtype=np.uint32)
    settings = [Sampling(temperature=t, seed=i) for i, t in enumerate([0.0, 0.7, 1.0, 2.0] * 4)]
    rows = [SamplingRow(setting, i) for i, setting in enumerate(settings)]
    here = sample(logits.clone(), masks, rows)
    there = sample(logits.clone().to(device), masks, rows)
    return bool((here.token_ids == there.token_ids).all() and here.ok.all() and there.ok.all())


# --- times --------------------------------------------------------------------------------------


def _size(
    size: Size, name: str, device: torch.device, gb_s: float, options: argparse.Namespace
) -> dict[str, Any]:
    needed = _weight_bytes(size, whole=True)
    if device.type == "cuda" and needed * 1.3 > torch.cuda.mem_get_info(device)[0]:
        skipped = f"its weights are {needed / 2**30:.0f} GiB, more than is free"
        _say(name, f"left out: {skipped}")
        return {"skipped": skipped}
    model = random_model(size, device)
    found: dict[str, Any] = {"steps": [], "throughput": []}
    for rows in size.batches:
        found["steps"].append(step_time(model, size, rows, gb_s, options.seconds))
        _say(f"{name} step", found["steps"][-1])
    vocabulary = random_vocabulary(size.vocab)
    for rows in size.batches:
        found["throughput"].append(throughput(model, size, rows, vocabulary))
        _say(f"{name} throughput", found["throughput"][-1])
    found["all_valid"] = all(each["valid"] == each["answers"] for each in found["throughput"])
    return found


def random_model(size: Size, device: torch.device) -> Model:
    """In bfloat16, made on the device."""
    torch.manual_seed(0)
    with torch.device(device):
        causal_lm = AutoModelForCausalLM.from_config(size.config(2048), dtype=torch.bfloat16)
    return adapt(causal_lm.eval())


def step_time(
    model: Model, size: Size, rows: int, gb_s: float, seconds: float
) -> dict[str, float | int]:
    """A decode step of ``rows`` rows, each after the size's context; milliseconds."""
    kv = _cache(model, rows, size.context + 1)
    batch = [Row(kv.open_row(), size.context, (5 + n % 100,), 1) for n in range(rows)]
    for row in batch:
        assert kv.grow(row.kv_row, size.context + 1), "the cache was made for them"
    took = _median(lambda: model.forward(batch, kv), model.device, seconds)
    token_bytes = block_bytes(model.layers, kv.keys[0].dtype) / blocks_for(1) / 16
    floor = (_weight_bytes(size, whole=False) + rows * size.context * token_bytes) / gb_s / 1e9
    return {
        "rows": rows,
        "ms": round(1e3 * took, 3),
        "floor_ms": round(1e3 * floor, 3),
        "over_floor": round(took / floor, 2),
        "tokens_per_s": round(rows / took, 1),
    }


def throughput(
    model: Model, size: Size, rows: int, vocabulary: grammar.Vocabulary
) -> dict[str, float | int]:
    """Tokens a second of ``rows`` whole answers at once, free and constrained."""
    compiled = grammar.compile_regex(_PATTERN, vocabulary)
    for constraint in (None, compiled):  # what only the first costs: tables of masks, kernels
        _answers(model, size, rows, vocabulary, constraint)
    free, _ = _answers(model, size, rows, vocabulary, None)
    constrained, texts = _answers(model, size, rows, vocabulary, compiled)
    matches = grammar.compile_regex(_PATTERN, vocabulary)
    return {
        "rows": rows,
        "free_tokens_per_s": round(free, 1),
        "constrained_tokens_per_s": round(constrained, 1),
        "ratio": round(constrained / free, 2),
        "answers": len(texts),
        "valid": sum(_is_whole(matches, text) for text in texts),
    }


def _answers(
    model: Model,
    size: Size,
    rows: int,
    vocabulary: grammar.Vocabulary,
    constraint: grammar.Grammar | None,
) -> tuple[float, list[str]]:
    """Tokens a second, prompts included, and the texts."""
    decoder = Decoder(
        model,
        _cache(model, rows, 16 + size.answer),
        token_bytes=vocabulary.token_bytes,
        eos_ids=vocabulary.eos_ids,
        vocab_size=vocabulary.size,
        fill_masks=grammar.fill_masks,
    )
    for n in range(rows):
        request = GenerationRequest(
            request_id=str(n),
            prompt_ids=tuple(range(2 + n % 50, 18 + n % 50)),
            sampling=Sampling(temperature=1.0, seed=n),
            stopping=Stopping(max_tokens=size.answer, ignore_eos=True),
        )
        decoder.submit(request, constraint)
    texts, tokens, began = [""] * rows, 0, time.perf_counter()
    while not decoder.is_idle:
        for chunk in decoder.step():
            texts[int(chunk.request_id)] += chunk.text
            tokens += len(chunk.tokens)
    return tokens / (time.perf_counter() - began), texts


def _is_whole(compiled: grammar.Grammar, text: str) -> bool:
    matcher = compiled.matcher()
    return matcher.advance_bytes(text.encode()) == len(text.encode()) and matcher.is_complete


def random_vocabulary(size: int) -> grammar.Vocabulary:
    """So many tokens: every byte, and words and pieces of JSON of two to eight characters."""
    generator = np.random.default_rng(0)
    letters = np.array(list(b'aaaabcdeeeefghiiijklmnooooprsttuuvwxyz    ",:[]{}'), dtype=np.uint8)
    texts = {bytes([byte]): None for byte in range(256)}
    while len(texts) < size - 2:
        length = int(generator.integers(2, 9))
        texts[generator.choice(letters, length).tobytes()] = None
    return grammar.Vocabulary([None, None, *texts], (1,), (0, 1))


def _cache(model: Model, rows: int, tokens: int) -> KVCache:
    settings = EngineSettings(model="", max_rows=rows, max_context=tokens, kv_bytes=1 << 44)
    return make_cache(model, settings)


def _weight_bytes(size: Size, *, whole: bool) -> int:
    """Of bfloat16 weights, all or those that a step reads: of the embeddings a few rows only."""
    head_dim = size.hidden // size.heads
    attention = size.hidden * head_dim * (2 * size.heads + 2 * size.kv_heads)
    layer = attention + 3 * size.hidden * size.intermediate
    tables = 2 if whole and not size.tied else 1
    return 2 * (size.layers * layer + tables * size.vocab * size.hidden)


def _best(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    return min(_timed(work, device) for _ in range(repeats))


def _median(work: Callable[[], object], device: torch.device, seconds: float) -> float:
    """Of as many repeats as fit the time, at least three after a first one."""
    _timed(work, device)
    times, until = [_timed(work, device) for _ in range(3)], time.perf_counter() + seconds
    while time.perf_counter() < until:
        times.append(_timed(work, device))
    return statistics.median(times)


def _timed(work: Callable[[], object], device: torch.device) -> float:
    _synchronize(device)
    began = time.perf_counter()
    work()
    _synchronize(device)
    return time.perf_counter() - began


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _say(what: str, found: object) -> None:
    if isinstance(found, dict):
        found = "  ".join(f"{key} {value}" for key, value in found.items())
    print(f"{what:<16}{found}", flush=True)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    usual = "cuda" if torch.cuda.is_available() else "cpu"
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default=usual)
    parser.add_argument(
        "--sizes", type=lambda text: text.split(","), help=f"of {', '.join(SIZES)}"
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="for each step's time")
    parser.add_argument("--json", type=Path, help="file to write the report to")
    options = parser.parse_args(arguments)
    if options.sizes is None:
        options.sizes = ["tiny"] if options.device == "cpu" else ["1b", "8b"]
    return options


if __name__ == "__main__":
    sys.exit(main())
