"""Text to tokens and back for callers; long texts in a thread that steps back for the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol, TypeVar

from service.engine.turns import step_back
from service.errors import InvalidRequest
from service.rpc.places import Places

MAX_TEXT_BYTES = 1 << 20  # half a second of the tokenizer's time, which others wait for
MAX_TOKENS = 1 << 20  # each takes a byte of text at the least
MAX_WAITING = 64  # a few MB of text each at the most
SHORT = 16 << 10  # characters: some ms, for which nobody has to queue

_Result = TypeVar("_Result")


class Tokenizer(Protocol):
    """The model's tokenizer."""

    def encode(self, text: str, add_special_tokens: bool = ...) -> list[int]:
        """Token ids of a text."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that a token stands for; b"" for special ones."""
        ...

    def special_text(self, token_id: int) -> str:
        """The name of a special token; "" for others."""
        ...


class Text(NamedTuple):
    """What tokens spell. ``raw``: their bytes, where these are not UTF-8."""

    text: str
    raw: bytes | None


class Tokens:
    """One model's tokens. Methods raise ServiceError."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._places = Places(MAX_WAITING, "texts being tokenised")
        # The tokenizer computes without the interpreter's lock, on the engine's cores.
        self._worker = ThreadPoolExecutor(
            max_workers=1, thread_name_prefix="tokens", initializer=step_back
        )

    async def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """The text's tokens."""
        _check_size("text", len(text.encode()))
        with self._places:
            return await self.call(
                len(text), lambda: self._tokenizer.encode(text, add_special_tokens)
            )

    async def call(self, length: int, work: Callable[[], _Result]) -> _Result:
        """Does some work on a text of this length beside the event loop."""
        if length <= SHORT:
            return await asyncio.to_thread(work)
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    def spellings(self, token_ids: Sequence[int]) -> list[bytes]:
        """The bytes of each token, a special one's being its name."""
        return [
            self._tokenizer.token_bytes(each) or self._tokenizer.special_text(each).encode()
            for each in token_ids
        ]

    async def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> Text:
        """The tokens' text."""
        if len(token_ids) > MAX_TOKENS:
            raise InvalidRequest("token_ids", f"{len(token_ids)} tokens; at most {MAX_TOKENS}")
        with self._places:
            return await self.call(
                len(token_ids), lambda: self._decode(token_ids, skip_special_tokens)
            )

    def close(self) -> None:
        """Stops the thread after what it does now."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _decode(self, token_ids: Sequence[int], skip_special_tokens: bool) -> Text:
        for place, token in enumerate(token_ids):
            if token >= self._vocab_size:
                raise InvalidRequest(
                    f"token_ids[{place}]",
                    f"{token} is not a token: the vocabulary has {self._vocab_size}",
                    metadata={"vocabSize": str(self._vocab_size)},
                )
        if skip_special_tokens:
            pieces = [self._tokenizer.token_bytes(each) for each in token_ids]
        else:
            pieces = self.spellings(token_ids)
        _check_size("token_ids", sum(map(len, pieces)))
        raw = b"".join(pieces)
        try:
            return Text(raw.decode(), None)
        except UnicodeDecodeError:
            return Text(raw.decode(errors="replace"), raw)


def _check_size(field: str, num_bytes: int) -> None:
    if num_bytes > MAX_TEXT_BYTES:
        raise InvalidRequest(field, f"{num_bytes} bytes of text; at most {MAX_TEXT_BYTES}")
