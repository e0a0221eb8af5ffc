"""Converts a Llama model from GGUF to the folder that transformers loads.

    python -m service.engine.convert_gguf MODEL.gguf FOLDER

writes config.json, generation_config.json, model.safetensors (bfloat16), tokenizer.json and
tokenizer_config.json (with the chat template). Run as a process of its own: what it needs (torch,
transformers, a second copy of the weights) is gone when it ends.

Reads the file itself instead of through transformers, whose GGUF loader leaves a quantiser and
its configuration behind and builds another pre-tokenizer than the model was trained with.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from tqdm import tqdm
from transformers import GenerationConfig, LlamaConfig, PreTrainedTokenizerFast

# One block's tensors: GGUF name -> transformers name.
_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OUTSIDE_BLOCKS = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_CONTROL = 3  # tokenizer.ggml.token_type: never part of text
# The values that the model's card recommends; GGUF has no place for them.
_RECOMMENDED_SAMPLING = {"do_sample": True, "temperature": 0.2, "top_p": 0.9}


class Fields:
    """The file's metadata by name; KeyError names what is missing."""

    def __init__(self, reader: gguf.GGUFReader) -> None:
        self._fields = reader.fields

    def __getitem__(self, name: str) -> Any:
        return self._fields[name].contents()


def convert(source: Path, folder: Path) -> None:
    """Writes ``folder`` (which exists) from the file ``source``.

    Raises ValueError for another architecture or tokenizer than the ones converted here.
    """
    reader = gguf.GGUFReader(source)
    fields = Fields(reader)
    if fields["general.architecture"] != "llama" or fields["tokenizer.ggml.pre"] != "smollm":
        raise ValueError(f"{source.name} is not a Llama model with SmolLM's tokenizer")
    config = model_config(fields, tied=all(t.name != "output.weight" for t in reader.tensors))
    config.save_pretrained(folder)
    generation_config(fields).save_pretrained(folder)
    tokenizer(fields).save_pretrained(folder)
    weights = {
        tensor_name(tensor.name): to_bfloat16(tensor, config)
        for tensor in tqdm(reader.tensors, desc="converting", unit="tensor", leave=False)
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def model_config(fields: Fields, tied: bool) -> LlamaConfig:
    """The model's shape. ``tied``: the output layer is the embedding."""
    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        dtype="bfloat16",
        vocab_size=fields["llama.vocab_size"],
        hidden_size=fields["llama.embedding_length"],
        intermediate_size=fields["llama.feed_forward_length"],
        num_hidden_layers=fields["llama.block_count"],
        num_attention_heads=fields["llama.attention.head_count"],
        num_key_value_heads=fields["llama.attention.head_count_kv"],
        head_dim=fields["llama.rope.dimension_count"],
        max_position_embeddings=fields["llama.context_length"],
        # Stored as float32; 1e-05 is what was meant.
        rms_norm_eps=float(f"{fields['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        rope_parameters={"rope_type": "default", "rope_theta": fields["llama.rope.freq_base"]},
        tie_word_embeddings=tied,
        bos_token_id=fields["tokenizer.ggml.bos_token_id"],
        eos_token_id=fields["tokenizer.ggml.eos_token_id"],
        pad_token_id=fields["tokenizer.ggml.padding_token_id"],
    )


def generation_config(fields: Fields) -> GenerationConfig:
    """Special tokens, and sampling as the model's card recommends it."""
    return GenerationConfig(
        bos_token_id=fields["tokenizer.ggml.bos_token_id"],
        eos_token_id=fields["tokenizer.ggml.eos_token_id"],
        pad_token_id=fields["tokenizer.ggml.padding_token_id"],
        **_RECOMMENDED_SAMPLING,
    )


def tokenizer(fields: Fields) -> PreTrainedTokenizerFast:
    """Byte-level BPE; "smollm" splits off every digit, then splits as GPT-2 does."""
    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ")) for pair in fields["tokenizer.ggml.merges"]]
    bpe = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    kinds = fields["tokenizer.ggml.token_type"]
    control = [text for text, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL]
    bpe.add_special_tokens([AddedToken(text, normalized=False) for text in control])
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token=tokens[fields["tokenizer.ggml.bos_token_id"]],
        eos_token=tokens[fields["tokenizer.ggml.eos_token_id"]],
        unk_token=tokens[fields["tokenizer.ggml.unknown_token_id"]],
        pad_token=tokens[fields["tokenizer.ggml.padding_token_id"]],
        chat_template=fields["tokenizer.chat_template"],
        model_max_length=fields["llama.context_length"],
        clean_up_tokenization_spaces=False,
    )


def tensor_name(name: str) -> str:
    """``blk.3.attn_q.weight`` -> ``model.layers.3.self_attn.q_proj.weight``."""
    match name.split("."):
        case ["blk", layer, part, suffix]:
            return f"model.layers.{layer}.{_BLOCK[part]}.{suffix}"
        case [part, suffix]:
            return f"{_OUTSIDE_BLOCKS[part]}.{suffix}"
    raise ValueError(f"a tensor named {name}")


def to_bfloat16(tensor: gguf.ReaderTensor, config: LlamaConfig) -> torch.Tensor:
    """The weights of one tensor, bfloat16, shape as transformers has it."""
    values: npt.NDArray[np.float32] = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    if tensor.name.endswith("attn_q.weight"):
        values = halves_from_pairs(values, config.num_attention_heads)
    elif tensor.name.endswith("attn_k.weight"):
        assert config.num_key_value_heads is not None
        values = halves_from_pairs(values, config.num_key_value_heads)
    # A copy: the reader's arrays are views of a read-only file.
    return torch.from_numpy(np.array(values)).to(torch.bfloat16)


def halves_from_pairs(rows: npt.NDArray[np.float32], heads: int) -> npt.NDArray[np.float32]:
    """Reorders the output rows of Q or K, float32 [heads * head_dim, hidden].

    llama.cpp rotates neighbours (0, 1), (2, 3), ...; transformers rotates (0, d/2), (1, d/2 + 1),
    ... of each head. The inverse of ``LlamaModel.permute`` in llama.cpp's converter.
    """
    dim = rows.shape[0] // heads
    pairs = rows.reshape(heads, dim // 2, 2, rows.shape[1])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
