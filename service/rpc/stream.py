"""Chunks of one request put together: a few for a stream's events, all for one answer."""

from __future__ import annotations

from collections.abc import AsyncIterator

from service.engine.types import Chunk, Token


async def coalesce(chunks: AsyncIterator[Chunk], interval: int) -> AsyncIterator[Chunk]:
    """Chunks of at least ``interval`` tokens; the first and the last are not held back."""
    text: list[str] = []
    tokens: list[Token] = []
    first = True
    async for chunk in chunks:
        text.append(chunk.text)
        tokens.extend(chunk.tokens)
        if first or chunk.finish or len(tokens) >= interval:
            yield Chunk(
                request_id=chunk.request_id,
                text="".join(text),
                tokens=tuple(tokens),
                finish=chunk.finish,
            )
            text, tokens, first = [], [], False


async def collect(chunks: AsyncIterator[Chunk]) -> Chunk:
    """One chunk that is all of them; it has ``finish``."""
    text: list[str] = []
    tokens: list[Token] = []
    last: Chunk | None = None
    async for last in chunks:
        text.append(last.text)
        tokens.extend(last.tokens)
    assert last is not None
    assert last.finish is not None, "every request ends with a finish"
    return Chunk(
        request_id=last.request_id,
        text="".join(text),
        tokens=tuple(tokens),
        finish=last.finish,
    )
