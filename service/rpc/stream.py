"""Chunks of one request put together, output by output: some for an event, all for an answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator

from service.engine.types import Chunk, Token


async def coalesce(chunks: AsyncIterator[Chunk], interval: int) -> AsyncIterator[Chunk]:
    """Chunks of at least ``interval`` tokens; an output's first and last are not held back."""
    held: defaultdict[int, _Held] = defaultdict(_Held)
    begun: set[int] = set()
    async for chunk in chunks:
        output = held[chunk.index]
        output.add(chunk)
        is_first = chunk.index not in begun
        if is_first or chunk.finish or len(output.tokens) >= interval:
            begun.add(chunk.index)
            yield output.joined(chunk)
            del held[chunk.index]


async def collect(chunks: AsyncIterator[Chunk]) -> list[Chunk]:
    """For each output, by index, one chunk that is all of its; it has ``finish``."""
    held: defaultdict[int, _Held] = defaultdict(_Held)
    whole: dict[int, Chunk] = {}
    async for chunk in chunks:
        held[chunk.index].add(chunk)
        if chunk.finish:
            whole[chunk.index] = held[chunk.index].joined(chunk)
    assert whole, "every request ends with a finish"
    assert whole.keys() == held.keys(), "every output ends with a finish"
    return [whole[index] for index in sorted(whole)]


class _Held:
    """Of one output."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.tokens: list[Token] = []

    def add(self, chunk: Chunk) -> None:
        self.text.append(chunk.text)
        self.tokens.extend(chunk.tokens)

    def joined(self, last: Chunk) -> Chunk:
        return Chunk(
            request_id=last.request_id,
            index=last.index,
            text="".join(self.text),
            tokens=tuple(self.tokens),
            finish=last.finish,
        )
