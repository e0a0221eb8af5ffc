"""Token bytes of Hugging Face tokenizers: byte-level BPE and SentencePiece with byte fallback.

Works on the tokenizer's public surface only; transformers is not imported. WordPiece and other
vocabularies that cannot spell every byte are refused by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grammar.vocabulary import Vocabulary

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins: character -> byte (Radford et al. 2019, ``encoder.py``)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {chr(b): b for b in printable}
    others = [b for b in range(256) if b not in set(printable)]
    alphabet.update({chr(256 + i): b for i, b in enumerate(others)})
    return alphabet


def from_hf(
    cls: type[Vocabulary],
    tokenizer: Any,
    logit_size: int | None,
    eos_ids: Sequence[int] | None = None,
) -> Vocabulary:
    """Build a Vocabulary. Raises ValueError naming a tokenizer kind that cannot spell bytes."""
    tokens: dict[str, int] = tokenizer.get_vocab()
    added = {int(i): t for i, t in getattr(tokenizer, "added_tokens_decoder", {}).items()}
    special = {i for i, t in added.items() if getattr(t, "special", False)}
    special |= {int(i) for i in getattr(tokenizer, "all_special_ids", [])}
    size = max([*tokens.values(), *added]) + 1
    decode = _decoder(tokenizer, tokens)
    token_bytes: list[bytes | None] = [None] * size
    for text, i in tokens.items():
        if i in special:
            continue
        token_bytes[i] = str(added[i]).encode() if i in added else decode(text)
    eos = _eos_ids(tokenizer) if eos_ids is None else eos_ids
    return cls(
        token_bytes,
        eos,
        sorted(special),
        logit_size,
        encode=lambda text: list(tokenizer.encode(text, add_special_tokens=False)),
    )


def _eos_ids(tokenizer: Any) -> list[int]:
    eos = tokenizer.eos_token_id
    ids = [eos] if isinstance(eos, int) else list(eos or [])
    if not ids:
        message = "the tokenizer names no end-of-sequence token"
        raise ValueError(message)
    return ids


def _decoder(tokenizer: Any, tokens: dict[str, int]) -> Any:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    settings = json.loads(backend.to_str()) if backend is not None else {}
    kind = (settings.get("model") or {}).get("type", "")
    stages = json.dumps([settings.get("pre_tokenizer"), settings.get("decoder")])
    alphabet = byte_alphabet()
    if "ByteLevel" in stages or (kind == "BPE" and "<0x0A>" not in tokens):

        def byte_level(text: str) -> bytes | None:
            try:
                return bytes(alphabet[c] for c in text)
            except KeyError:
                return text.encode()  # an added token, stored as plain text

        return byte_level
    if "<0x0A>" in tokens:

        def sentencepiece(text: str) -> bytes:
            match = _BYTE_TOKEN.fullmatch(text)
            return bytes([int(match[1], 16)]) if match else text.replace("▁", " ").encode()

        return sentencepiece
    message = f"{kind or type(tokenizer).__name__} vocabularies cannot spell every byte"
    raise ValueError(message)
