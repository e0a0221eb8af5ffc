"""Token bytes of Hugging Face tokenizers: byte-level BPE and SentencePiece with byte fallback.

Works on the tokenizer's public surface only; transformers is not imported. WordPiece and other
vocabularies that cannot spell every byte are refused by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grammar.vocabulary import Vocabulary

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_BYTE_TOKENS = frozenset(f"<0x{byte:02X}>" for byte in range(256))


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
    """Build a Vocabulary. Raises ValueError naming a tokenizer kind that cannot spell bytes.

    Added tokens that are not special are text. Ids beyond the logits, which a tokenizer may name
    and a model cannot say, are left out.
    """
    tokens: dict[str, int] = tokenizer.get_vocab()
    added = {int(i): t for i, t in getattr(tokenizer, "added_tokens_decoder", {}).items()}
    special = {i for i, t in added.items() if getattr(t, "special", False)}
    special |= {int(i) for i in getattr(tokenizer, "all_special_ids", [])}
    size = max([*tokens.values(), *added]) + 1
    if logit_size is not None:
        size = min(size, logit_size)
    spell = _spelling(tokenizer, tokens)
    token_bytes: list[bytes | None] = [None] * size
    for text, i in tokens.items():
        if i < size and i not in special:
            token_bytes[i] = str(added[i]).encode() if i in added else spell(text)
    vocabulary = cls(
        token_bytes,
        _eos_ids(tokenizer) if eos_ids is None else eos_ids,
        sorted(i for i in special if i < size),
        logit_size,
    )
    vocabulary.encode = _encoder(tokenizer, vocabulary)
    return vocabulary


def _eos_ids(tokenizer: Any) -> list[int]:
    eos = tokenizer.eos_token_id
    ids = [eos] if isinstance(eos, int) else list(eos or [])
    if not ids:
        message = "the tokenizer names no end-of-sequence token"
        raise ValueError(message)
    return ids


def _spelling(tokenizer: Any, tokens: dict[str, int]) -> Callable[[str], bytes]:
    """From a token as the tokenizer writes it to its bytes."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    settings = json.loads(backend.to_str()) if backend is not None else {}
    stages = json.dumps([settings.get("pre_tokenizer"), settings.get("decoder")])
    if '"ByteLevel"' in stages or (backend is None and byte_alphabet().keys() <= tokens.keys()):
        return _byte_level
    if tokens.keys() >= _BYTE_TOKENS:
        return _sentencepiece
    kind = (settings.get("model") or {}).get("type") or type(tokenizer).__name__
    message = (
        f"{kind} vocabularies cannot spell every byte, unless they are byte-level "
        "or have byte fallback (the tokens <0x00> to <0xFF>)"
    )
    raise ValueError(message)


_ALPHABET = byte_alphabet()


def _byte_level(text: str) -> bytes:
    try:
        return bytes(_ALPHABET[c] for c in text)
    except KeyError:
        return text.encode()  # an added token, stored as plain text


def _sentencepiece(text: str) -> bytes:
    match = _BYTE_TOKEN.fullmatch(text)
    return bytes([int(match[1], 16)]) if match else text.replace("▁", " ").encode()


def _encoder(tokenizer: Any, vocabulary: Vocabulary) -> Callable[[str], list[int]]:
    """The tokenizer's own segmentation of a text that continues another one.

    SentencePiece writes a space before every text, which would be part of the answer: such a
    text is read behind a line break, and the tokens up to there are dropped.
    """

    def plain(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False))

    if b"".join(map(vocabulary.token_bytes, plain("a"))) != b" a":
        return plain

    def continued(text: str) -> list[int]:
        tokens, read = plain("\n" + text), b""
        for at, token in enumerate(tokens):
            if read.lstrip(b" ") == b"\n":
                return tokens[at:]
            read += vocabulary.token_bytes(token)
        return [] if text == "" else plain(text)

    return continued
