"""What a type checker knows of a result: read by ``make types``, never run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_type

import pydantic

from syntaxd_client import Answer, AsyncClient, AsyncStream, Client, Message, Stream


@dataclass
class Cat:
    name: str


class Dog(pydantic.BaseModel):
    name: str


def results(client: Client) -> None:
    assert_type(client.extract(Cat, "x"), Cat)
    assert_type(client.extract(Dog, "x"), Dog)
    assert_type(client.extract(list[Cat], "x"), list[Cat])
    assert_type(client.extract({"type": "object"}, "x"), Any)
    assert_type(client.extract("{}", "x"), Any)
    assert_type(client.generate("x", schema=Cat), Answer)
    assert_type(client.stream("x"), Stream[Answer])
    assert_type(client.stream_extract(Cat, "x"), Stream[Cat])
    assert_type(client.stream_extract(Cat, "x").result(), Cat)
    with client.stream_extract(Dog, "x", temperature=0) as stream:
        assert_type(next(stream), str)
        assert_type(stream.result(), Dog)


async def awaited(client: AsyncClient) -> None:
    assert_type(await client.extract(Cat, "x"), Cat)
    assert_type(await client.extract(True, "x"), Any)
    assert_type(client.stream_extract(Dog, "x"), AsyncStream[Dog])
    assert_type(await client.stream_extract(Dog, "x").result(), Dog)
    async for piece in client.stream("x"):
        assert_type(piece, str)


def prompts(client: Client, messages: Sequence[Message]) -> None:
    client.generate([{"role": "user", "content": "x"}])
    client.generate(messages)
    client.generate([1, 2, 3])


def mistakes(client: Client) -> None:
    """mypy finds each: an ignored line without a mistake would be one itself."""
    client.generate("x", max_token=3)  # type: ignore[call-arg]
    client.generate("x", max_tokens="3")  # type: ignore[arg-type]
    client.generate("x", whitespace="none")  # type: ignore[arg-type]
    client.extract(Cat, "x", regex="a")  # type: ignore[call-overload]
    client.generate([{"role": "user"}])  # type: ignore[list-item]
