"""Reads several sentences at once, and one as a stream: ``extract_async.py [HOST:PORT]``."""

import asyncio
import sys
from dataclasses import dataclass
from typing import Annotated

import syntaxd_client
from syntaxd_client import Keywords

SENTENCES = (
    "Anna Berg is 34 years old and lives in Oslo.",
    "My name is Joe, I live in Lima and turned 51 last week.",
    "Kofi, 7, from Accra, likes trains.",
)


@dataclass
class Person:
    name: Annotated[str, Keywords(minLength=1, maxLength=30)]
    age: Annotated[int, Keywords(minimum=0, maximum=120)]
    city: Annotated[str, Keywords(minLength=1, maxLength=30)]


async def main(address: str) -> None:
    async with syntaxd_client.AsyncClient(address, timeout=300) as client:

        def read(sentence: str) -> syntaxd_client.AsyncStream[Person]:
            return client.stream_extract(
                Person,
                f"Extract name, age and city.\n\n{sentence}",
                temperature=0,
                whitespace="single_space",  # as the default model learnt JSON
                describe_constraint=False,  # being so small, it does better without
            )

        for person in await asyncio.gather(*(read(each).result() for each in SENTENCES)):
            print(person)

        async with read(SENTENCES[0]) as stream:
            async for piece in stream:
                print(piece, end="", flush=True)
            print(f"\n{await stream.result()}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051"))
