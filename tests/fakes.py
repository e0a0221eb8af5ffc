"""Stand-ins that are small and honest: a scripted model, a byte tokenizer, a finite grammar."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch

from service.engine.kv_cache import BLOCK, KVCache, LayerShape
from service.engine.model import Row

EOS = 256
SPECIAL = 257  # a token without text that is no EOS
VOCAB = 258


def encode(text: str) -> tuple[int, ...]:
    """One token a byte."""
    return tuple(text.encode())


def token_bytes(token: int) -> bytes:
    """The byte of a token; EOS has none."""
    return bytes([token]) if token < EOS else b""


class FakeModel:
    """Logits by a script of the row's whole history, which it keeps only in the paged cache.

    ``script(history)`` gives float[VOCAB]. A token stored in a wrong place, or a place that was
    given to somebody else, changes the history and so the answer.
    """

    layers = (LayerShape(1, 1, 1),)
    logit_size = VOCAB
    max_context = 256
    dtype = torch.float32
    device = torch.device("cpu")
    draft_positions = 64

    def __init__(self, script: Callable[[Sequence[int]], np.ndarray]) -> None:
        self.script = script
        self.fed: list[list[Row]] = []  # the rows of each step

    def forward(self, rows: Sequence[Row], kv: KVCache) -> torch.Tensor:
        self.fed.append(list(rows))
        logits = [each for row in rows for each in self._row(row, kv)]
        return torch.tensor(np.array(logits).reshape(-1, VOCAB), dtype=torch.float32)

    def _row(self, row: Row, kv: KVCache) -> list[np.ndarray]:
        cache, table = kv.keys[0][:, :, 0, 0], kv.tables[row.kv_row]
        end = row.position + len(row.token_ids)
        for position, token in zip(range(row.position, end), row.token_ids, strict=True):
            cache[table[position // BLOCK], position % BLOCK] = token
        history = [int(cache[table[p // BLOCK], p % BLOCK]) for p in range(end)]
        return [self.script(history[: row.position + offset + 1]) for offset in row.wanted]


def one_hot(token: int) -> np.ndarray:
    """Logits that leave no doubt."""
    logits = np.zeros(VOCAB)
    logits[token] = 20.0
    return logits


def replies(answers: dict[str, str]) -> Callable[[Sequence[int]], np.ndarray]:
    """A script: after prompt ``p`` it says ``answers[p]``, then EOS. Prompts end with '>'."""

    def script(history: Sequence[int]) -> np.ndarray:
        prompt, _, said = bytes(history).partition(b">")
        answer = answers[prompt.decode() + ">"].encode()
        return one_hot(answer[len(said)] if len(said) < len(answer) else EOS)

    return script


def noise(history: Sequence[int]) -> np.ndarray:
    """A script: logits that look random and depend on the whole history."""
    seed = hash(tuple(history)) & 0xFFFFFFFF
    return np.random.default_rng(seed).normal(size=VOCAB) * 3


class FakeGrammar:
    """A finite language of byte strings, with the interface of ``grammar``'s compiled grammars."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self.texts = sorted(set(texts))

    def matcher(self) -> FakeMatcher:
        return FakeMatcher(self.texts)


class FakeMatcher:
    """The obvious matcher of a finite language: keeps what was said so far."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self.texts = texts
        self.said = b""
        self.steered = False

    def _rests(self, said: bytes) -> list[bytes]:
        return [t[len(said) :] for t in self.texts if t.startswith(said)]

    def _needs(self, said: bytes) -> int:
        return min(map(len, self._rests(said)))

    @property
    def is_complete(self) -> bool:
        return self.said in self.texts

    @property
    def is_finished(self) -> bool:
        return self._rests(self.said) == [b""]

    @property
    def min_tokens(self) -> int:
        return self._needs(self.said)

    def fill_mask(self, row: np.ndarray, budget: int | None = None) -> None:
        plain = {rest[0] for rest in self._rests(self.said) if rest}
        allowed = {
            b for b in plain if budget is None or self._needs(self.said + bytes([b])) <= budget - 1
        }
        self.steered = allowed != plain
        row[:] = 0
        for token in [*allowed, *([EOS] if self.is_complete else [])]:
            row[token // 32] |= np.uint32(1 << token % 32)

    def fill_penalizable(self, row: np.ndarray) -> None:
        """Letters are content, the rest is structure."""
        row[:] = 0
        for token in range(256):
            if chr(token).isalpha():
                row[token // 32] |= np.uint32(1 << token % 32)

    def advance(self, token: int) -> bool:
        if token >= EOS:
            return token == EOS and self.is_complete
        return self.advance_bytes(bytes([token])) == 1

    def advance_bytes(self, data: bytes) -> int:
        for count, byte in enumerate(data):
            if not self._rests(self.said + bytes([byte])):
                return count
            self.said += bytes([byte])
        return len(data)

    @property
    def num_past_end(self) -> int | None:
        return None

    def fork(self) -> FakeMatcher:
        other = FakeMatcher(self.texts)
        other.said = self.said
        return other

    def forced_tokens(self, budget: int | None = None) -> list[int]:
        forced: list[int] = []
        said = self.said
        while said not in self.texts and len(nexts := {r[0] for r in self._rests(said)}) == 1:
            forced.append(nexts.pop())
            said += bytes([forced[-1]])
        return forced


def fill_masks(
    matchers: Sequence[FakeMatcher], rows: np.ndarray, budgets: Sequence[int | None]
) -> None:
    """As ``grammar.fill_masks``."""
    for matcher, row, budget in zip(matchers, rows, budgets, strict=True):
        matcher.fill_mask(row, budget)
