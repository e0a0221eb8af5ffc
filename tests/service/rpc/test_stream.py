"""Chunks put together."""

from service.engine.types import Chunk, Token
from service.rpc import stream
from tests.service.rpc.fakes import finish


async def chunks(text, end=True):
    for letter in text:
        yield Chunk(request_id="r", text=letter, tokens=(Token(ord(letter), False),))
    if end:
        yield Chunk(request_id="r", finish=finish(len(text)))


async def two_outputs():
    """The second one begins, and ends, first."""
    for index, text in [
        (1, "x"),
        (0, "a"),
        (1, "y"),
        (1, "z"),
        (0, "b"),
        (1, ""),
        (0, "c"),
        (0, ""),
    ]:
        end = finish(3) if not text else None
        tokens = tuple(Token(ord(letter), False) for letter in text)
        yield Chunk(request_id="r", index=index, text=text, tokens=tokens, finish=end)


async def test_outputs_are_kept_apart_and_come_by_index():
    whole = await stream.collect(two_outputs())
    assert [(chunk.index, chunk.text) for chunk in whole] == [(0, "abc"), (1, "xyz")]
    got = [chunk async for chunk in stream.coalesce(two_outputs(), 2)]
    assert [(chunk.index, chunk.text) for chunk in got] == [
        (1, "x"), (0, "a"), (1, "yz"), (1, ""), (0, "bc"), (0, "")
    ]  # fmt: skip


async def test_collect_is_the_whole_output():
    (whole,) = await stream.collect(chunks("abc"))
    assert whole.text == "abc"
    assert [token.token_id for token in whole.tokens] == [97, 98, 99]
    assert whole.finish == finish(3)


async def test_the_first_and_the_last_are_never_held_back():
    got = [chunk async for chunk in stream.coalesce(chunks("abcdefgh"), 3)]
    assert [chunk.text for chunk in got] == ["a", "bcd", "efg", "h"]
    assert [chunk.finish is not None for chunk in got] == [False, False, False, True]


async def test_an_interval_of_one_holds_nothing_back():
    got = [chunk.text async for chunk in stream.coalesce(chunks("abc"), 1)]
    assert got == ["a", "b", "c", ""]


async def test_nothing_is_lost_or_repeated():
    for interval in range(1, 12):
        got = [chunk async for chunk in stream.coalesce(chunks("abcdefgh"), interval)]
        assert "".join(chunk.text for chunk in got) == "abcdefgh"
        assert sum(len(chunk.tokens) for chunk in got) == 8
