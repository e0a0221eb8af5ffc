"""Vocabulary: the bytes of every token as a flat depth-first trie.

The trie is four parallel arrays in depth-first preorder, so a walk is one loop over consecutive
memory and "skip this subtree" is one jump (the layout of llguidance's toktrie and of Aho's
left-child linearisation): ``node`` packs (token + 1) << 32 | depth << 8 | byte, ``skip`` is the
index after the subtree. Built once per tokenizer, read-only afterwards, shared by every thread.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from grammar import kernels
from grammar.shared import SharedCache

MAX_TOKEN_BYTES = 1 << 10  # the longest token seen is 512 spaces; longer ones are left out


class Vocabulary:
    """Token bytes -> trie.

    ``token_bytes[i]`` is the text of token ``i``, or None for a token that is no text (special,
    unused, padding). ``eos_ids`` end an answer. ``logit_size`` >= len(token_bytes) is the width
    of the model's logits (padding tokens are never allowed). ``encode`` turns text into the
    tokenizer's own (canonical) token ids, if it has one.

    Raises ValueError for ids out of range or an empty vocabulary.
    """

    def __init__(
        self,
        token_bytes: Sequence[bytes | None],
        eos_ids: Sequence[int],
        special_ids: Sequence[int] = (),
        logit_size: int | None = None,
        encode: Callable[[str], list[int]] | None = None,
    ) -> None:
        self.size = len(token_bytes)
        self.logit_size = logit_size if logit_size is not None else self.size
        if self.logit_size < self.size:
            message = f"logit_size {self.logit_size} is smaller than the vocabulary {self.size}"
            raise ValueError(message)
        for token in (*eos_ids, *special_ids):
            if not 0 <= token < self.logit_size:
                message = f"special token id {token} is outside 0..{self.logit_size - 1}"
                raise ValueError(message)
        self.words = (self.logit_size + 31) // 32
        self.eos_ids = tuple(dict.fromkeys(int(i) for i in eos_ids))
        self.special_ids = frozenset(special_ids) | frozenset(self.eos_ids)
        self.encode = encode
        self._bytes: list[bytes] = [
            b"" if text is None or i in self.special_ids or len(text) > MAX_TOKEN_BYTES else text
            for i, text in enumerate(token_bytes)
        ]
        self._build_trie()
        single = {text[0]: i for i, text in enumerate(self._bytes) if len(text) == 1}
        #: bool[256]: bytes that no single token spells. They are dead for every constraint:
        #: a completion may then always be spelled byte by byte (decision 10).
        self.dead_bytes = np.ones(256, dtype=np.bool_)
        self.dead_bytes[list(single)] = False
        self.eos_words, self.eos_bits = self._bits(self.eos_ids)
        #: Shared lexemes by key, with their masks: see ``grammar.lexemes``.
        self.lexemes = SharedCache()
        self._quotes: dict[int, npt.NDArray[np.int64]] = {}
        self._spelling: dict[bytes, list[int]] | None = None
        self._with_byte: dict[int, npt.NDArray[np.int64]] = {}

    @classmethod
    def from_tokenizer(
        cls,
        tokenizer: Any,
        logit_size: int | None = None,
        eos_ids: Sequence[int] | None = None,
    ) -> Vocabulary:
        """From a Hugging Face tokenizer (fast or slow). See ``grammar.tokenizers``.

        ``eos_ids``: what ends an answer, where the model knows better than its tokenizer.
        """
        from grammar.tokenizers import from_hf

        return from_hf(cls, tokenizer, logit_size, eos_ids)

    def token_bytes(self, token: int) -> bytes:
        """The text of a token; b"" for special and padding ids."""
        return self._bytes[token] if token < self.size else b""

    def _bits(self, tokens: Sequence[int]) -> tuple[list[int], list[int]]:
        return [t >> 5 for t in tokens], [1 << (t & 31) for t in tokens]

    def _build_trie(self) -> None:
        order = sorted(
            (i for i, text in enumerate(self._bytes) if text), key=lambda i: self._bytes[i]
        )
        if not order:
            message = "the vocabulary has no token that spells text"
            raise ValueError(message)
        self.offsets = np.zeros(self.size + 1, dtype=np.int64)
        np.cumsum([len(text) for text in self._bytes], out=self.offsets[1:])
        #: The same as a list: reading one element of an array costs ten times as much.
        self.starts: list[int] = self.offsets.tolist()
        self.blob = np.frombuffer(b"".join(self._bytes), dtype=np.uint8)
        self.max_token_bytes = max(len(text) for text in self._bytes)
        #: int32[size]: another token with the same bytes, or -1.
        self.duplicate = np.full(self.logit_size, -1, dtype=np.int32)
        self.node, self.skip = kernels.build_trie(
            np.array(order, dtype=np.int64), self.offsets, self.blob, self.duplicate
        )
        digest = hashlib.sha256(self.blob.tobytes())
        digest.update(self.offsets.tobytes())
        digest.update(repr((self.eos_ids, self.logit_size)).encode())
        #: Identifies the vocabulary across processes (cache keys).
        self.digest = digest.hexdigest()[:16]

    def find(self, prefix: bytes) -> int:
        """Index of the trie node that spells ``prefix``, or -1. b"" is the virtual root: -1."""
        return int(kernels.find_node(self.node, self.skip, np.frombuffer(prefix, dtype=np.uint8)))

    def segment(self, text: bytes) -> list[int]:
        """A segmentation of ``text`` into the fewest tokens; every byte must be spellable."""
        return [
            int(t)
            for t in kernels.segment(self.node, self.skip, np.frombuffer(text, dtype=np.uint8))
        ]

    def count_tokens(self, text: bytes) -> int:
        """The fewest tokens that spell ``text``."""
        return len(kernels.segment(self.node, self.skip, np.frombuffer(text, dtype=np.uint8)))

    def spelling(self, text: bytes) -> Sequence[int]:
        """The tokens that spell exactly ``text``."""
        if self._spelling is None:
            self._spelling = {}
            for token, each in enumerate(self._bytes):
                if each:
                    self._spelling.setdefault(each, []).append(token)
        return self._spelling.get(text, ())

    def with_byte(self, byte: int) -> npt.NDArray[np.int64]:
        """Tokens in which a byte occurs."""
        if byte not in self._with_byte:
            self._with_byte[byte] = np.array(
                [i for i, text in enumerate(self._bytes) if byte in text], dtype=np.int64
            )
        return self._with_byte[byte]

    def with_quotes(self, least: int) -> npt.NDArray[np.int64]:
        """Tokens with at least so many ``"``: a whole key takes two, two whole keys four."""
        if least not in self._quotes:
            self._quotes[least] = np.array(
                [i for i, text in enumerate(self._bytes) if text.count(b'"') >= least],
                dtype=np.int64,
            )
        return self._quotes[least]
