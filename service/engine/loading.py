"""From a folder (or an id on the hub) to a ``Model``, its cache, and what the front must know."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
from transformers.utils import logging as transformers_logging

from service.engine import cpu_llama, linear, llama
from service.engine.adapter import AdaptedModel, check_config
from service.engine.cpu_llama import CpuLlama
from service.engine.kv_cache import BLOCK, KVCache, block_bytes, blocks_for
from service.engine.model import Model, Row, UnsupportedModelError
from service.engine.tokenizer import eos_token_ids
from service.engine.two_paths import TwoPathLlama
from service.engine.types import EngineSettings, ModelInfo, Sampling

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def load_model(
    settings: EngineSettings, progress: Callable[[str], None] = lambda _: None
) -> Model:
    """Loads safetensors weights; no code that comes with a model is run.

    On a CPU, weights of the Llama family may be packed in 4 bits: always with ``weights`` int4 and
    mixed; with auto if no dtype is asked for and packing changes no weight by more than their
    rounding to bfloat16 did, that is for models that had 4 bits to begin with, like the default
    one. Auto is then mixed, but int4 where answers must not depend on their company.

    Raises UnsupportedModelError, or OSError where the folder has no such model.
    """
    transformers_logging.disable_progress_bar()  # the log of a service is no terminal
    device = _device(settings.device)
    dtype = _dtype(settings.dtype, device)
    config = AutoConfig.from_pretrained(settings.model, trust_remote_code=False)
    check_config(config)
    progress(f"loading {settings.model} as {dtype} on {device}")
    causal_lm = AutoModelForCausalLM.from_pretrained(
        settings.model,
        dtype=dtype,
        use_safetensors=True,
        trust_remote_code=False,
        attn_implementation="sdpa",
    )
    causal_lm = causal_lm.to(device).eval()
    if _to_be_packed(causal_lm, settings, device):
        return _packed(causal_lm, settings, progress)
    return adapt(causal_lm, reproducible=settings.reproducible)


def _packed(causal_lm: Any, settings: EngineSettings, progress: Callable[[str], None]) -> Model:
    threads = torch.get_num_threads()
    packed = CpuLlama(causal_lm, threads)
    # What is left to torch is small: waking a second thread for it takes longer than doing it.
    torch.set_num_threads(1)
    progress(
        "weights packed in 4 bits, the head in 8; largest errors within a group: "
        f"{packed.errors.layers:.1%} and {packed.errors.head:.1%}"
    )
    if settings.weights == "int4" or settings.reproducible:
        return packed
    wide = causal_lm.bfloat16() if linear.has_fast_bfloat16() else causal_lm
    model = TwoPathLlama(packed, llama.LlamaModel(wide), threads)
    model.calibrate()
    progress(f"steps of {model.crossover} positions or more compute in {model.wide.dtype}")
    return model


def _to_be_packed(causal_lm: Any, settings: EngineSettings, device: torch.device) -> bool:
    if settings.weights == "full":
        return False
    possible = (
        device.type == "cpu"
        and llama.can_run(causal_lm.config)
        and cpu_llama.can_pack(causal_lm.config)
    )
    if settings.weights in {"int4", "mixed"}:
        if not possible:
            raise UnsupportedModelError(
                f"weights {settings.weights}: {causal_lm.config.model_type} on {device} is not "
                "supported"
            )
        return True
    return possible and settings.dtype == "auto" and cpu_llama.is_lossless(causal_lm)


def warm_up(model: Model) -> None:
    """Runs a token, so that what is compiled at the first call is compiled now."""
    kv = KVCache(
        model.layers,
        num_blocks=1,
        max_rows=1,
        max_tokens=BLOCK,
        dtype=_cache_dtype(model),
        device=model.device,
    )
    row = kv.open_row()
    kv.grow(row, 1)
    model.forward([Row(row, 0, (0,), 1)], kv)


def adapt(causal_lm: Any, *, reproducible: bool = False) -> Model:
    """A transformers model as a ``Model``. Raises UnsupportedModelError."""
    check_config(causal_lm.config)
    if llama.can_run(causal_lm.config):
        return llama.LlamaModel(causal_lm, reproducible=reproducible)
    adapted = AdaptedModel(causal_lm, reproducible=reproducible)
    adapted.self_check()
    return adapted


def make_cache(model: Model, settings: EngineSettings) -> KVCache:
    """A pool within ``kv_bytes``, and no larger than ``max_rows`` full contexts.

    Prefixes are shared, but not in reproducible mode with a model whose numbers depend on how a
    prompt is cut into chunks (decision 14).

    Raises UnsupportedModelError where the budget holds no useful row.
    """
    max_context = _max_context(model, settings)
    dtype = _cache_dtype(model)
    affordable = settings.kv_bytes // block_bytes(model.layers, dtype)
    num_blocks = min(affordable, settings.max_rows * blocks_for(max_context))
    if num_blocks < 1:
        raise UnsupportedModelError(
            f"kv_bytes {settings.kv_bytes} hold less than one block of {BLOCK} tokens"
        )
    return KVCache(
        model.layers,
        num_blocks=num_blocks,
        max_rows=settings.max_rows,
        max_tokens=max_context,
        dtype=dtype,
        device=model.device,
        share_prefixes=isinstance(model, CpuLlama) or not settings.reproducible,
    )


def _cache_dtype(model: Model) -> torch.dtype:
    # A CPU attends in float32 whatever the weights are: there its kernel is compiled for that.
    return torch.float32 if model.device.type == "cpu" else model.dtype


def describe(model: Model, kv: KVCache, settings: EngineSettings, vocab_size: int) -> ModelInfo:
    """What the front must know."""
    max_context = _max_context(model, settings)
    return ModelInfo(
        name=settings.name or Path(settings.model).name,
        vocab_size=vocab_size,
        logit_size=model.logit_size,
        max_context_tokens=max_context,
        max_request_tokens=min(max_context, kv.max_row_tokens),
        eos_token_ids=eos_token_ids(Path(settings.model)),
        dtype=str(model.dtype).removeprefix("torch."),
        device=str(model.device),
        default_sampling=default_sampling(settings.model),
    )


def default_sampling(folder: str) -> Sampling:
    """The model's generation_config.json; greedy where it says not to sample."""
    path = Path(folder) / "generation_config.json"
    given: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    config = GenerationConfig(**given)
    if not given.get("do_sample", False):
        return Sampling(temperature=0.0)
    return Sampling(
        temperature=_or(config.temperature, 1.0),
        top_p=_or(config.top_p, 1.0),
        top_k=int(_or(config.top_k, 0)),
        min_p=_or(config.min_p, 0.0),
        repetition_penalty=_or(config.repetition_penalty, 1.0),
    )


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _max_context(model: Model, settings: EngineSettings) -> int:
    return min(model.max_context, settings.max_context or model.max_context)


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UnsupportedModelError("device cuda: torch finds no CUDA device")
    return torch.device(name)


def _dtype(name: str, device: torch.device) -> torch.dtype:
    if name == "auto":
        name = "bfloat16" if device.type == "cuda" else "float32"
    return _DTYPES[name]
