"""Tiny random models of several families, built in the test."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import tokenizers
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GemmaConfig,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
    T5Config,
)

from grammar.tokenizers import byte_alphabet
from service.engine.kv_cache import KVCache
from service.engine.model import Model, Row

VOCAB = 200
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,  # larger than usual: logits that differ
    "bos_token_id": 0,
    "eos_token_id": 1,
}

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}

CONFIGS = {
    "llama": LlamaConfig(**SIZES),
    "llama, all heads alike": LlamaConfig(**SIZES | {"num_key_value_heads": 4}),
    "llama, one key head": LlamaConfig(**SIZES | {"num_key_value_heads": 1}),
    "llama, scaled positions": LlamaConfig(**SIZES, rope_parameters=LLAMA3_ROPE),
    "llama, attention bias": LlamaConfig(**SIZES, attention_bias=True),
    "qwen2": Qwen2Config(**SIZES),
    "qwen3": Qwen3Config(**SIZES),
    "gemma": GemmaConfig(**SIZES, head_dim=16),
    "gpt2": GPT2Config(
        vocab_size=VOCAB, n_embd=64, n_layer=3, n_head=4, n_positions=128, initializer_range=0.2,
        bos_token_id=0, eos_token_id=1,
    ),
}  # fmt: skip

REFUSED = {
    "sliding-window attention": MistralConfig(**SIZES, sliding_window=32),
    "sliding_attention": Gemma2Config(**SIZES, sliding_window=None),
    "dynamic": LlamaConfig(
        **SIZES, rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    ),
    "encoder-decoder": T5Config(),
}


def build(config: Any, seed: int = 0, dtype: torch.dtype = torch.float32) -> Any:
    """A transformers model with random weights."""
    torch.manual_seed(seed)
    return AutoModelForCausalLM.from_config(copy.deepcopy(config), dtype=dtype).eval()


def make_cache(model: Model, num_blocks: int = 32, max_rows: int = 4) -> KVCache:
    return KVCache(
        model.layers,
        num_blocks=num_blocks,
        max_rows=max_rows,
        max_tokens=model.max_context,
        dtype=torch.float32,
        device=model.device,
    )


def feed(
    model: Model, kv: KVCache, sequences: list[list[int]], steps: list[list[int]]
) -> list[torch.Tensor]:
    """All logits of each sequence when step ``k`` feeds ``steps[k][i]`` tokens of sequence i."""
    rows = [kv.open_row() for _ in sequences]
    done = [0] * len(sequences)
    parts: list[list[torch.Tensor]] = [[] for _ in sequences]
    for counts in steps:
        batch = []
        for i, count in enumerate(counts):
            if count:
                assert kv.grow(rows[i], done[i] + count)
                batch.append(Row(rows[i], done[i], sequences[i][done[i] : done[i] + count], count))
        logits = model.forward(batch, kv).split([row.num_logits for row in batch])
        fed = [i for i, count in enumerate(counts) if count]
        for i, part in zip(fed, logits, strict=True):
            parts[i].append(part)
            done[i] += len(part)
    return [torch.cat(part) for part in parts]


CHAT_TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def save_folder(folder: Path, seed: int = 0) -> Path:
    """A model folder: a tiny llama with one token a byte, EOS, and two ids that mean nothing."""
    alphabet = byte_alphabet()
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=alphabet, merges=[]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<eos>"])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"eos_token": "<eos>", "chat_template": CHAT_TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    sizes = SIZES | {"vocab_size": 259, "eos_token_id": 256, "max_position_embeddings": 512}
    build(LlamaConfig(**sizes), seed).save_pretrained(folder)
    return folder
