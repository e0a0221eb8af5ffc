"""GenerationService: convert, submit, answer. No decisions are made here."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from typing_extensions import override

from service.engine.types import Chunk
from service.rpc import stream
from service.rpc.answering import Context, answering_errors
from service.rpc.api_keys import ApiKeys
from service.rpc.convert import answer
from service.rpc.convert.request import read
from service.rpc.front import Accepted, Front, Place
from service.rpc.pb.v1 import generation_pb2, generation_pb2_grpc
from service.rpc.quotas import Ticket


class GenerationServicer(generation_pb2_grpc.GenerationServiceServicer):
    """Generate and GenerateStream."""

    def __init__(self, front: Front, api_keys: ApiKeys | None = None) -> None:
        """With ``api_keys`` each generation counts for the account of its caller's key."""
        self._front = front
        self._api_keys = api_keys

    @override
    async def Generate(
        self, request: generation_pb2.GenerateRequest, context: Context
    ) -> generation_pb2.GenerateResponse:
        front = self._front
        async with (
            answering_errors(context),
            self._accepted(request, context) as (
                accepted,
                chunks,
            ),
        ):
            outputs = await stream.collect(chunks)
            return answer.whole(accepted, outputs, front.model.name, front.tokenizer.token_bytes)
        raise AssertionError("abort raises")

    @override
    async def GenerateStream(
        self, request: generation_pb2.GenerateRequest, context: Context
    ) -> AsyncIterator[generation_pb2.GenerateStreamResponse]:
        front = self._front
        async with (
            answering_errors(context),
            self._accepted(request, context) as (
                accepted,
                chunks,
            ),
        ):
            yield answer.started(accepted, front.model.name)
            ends = []
            async for chunk in stream.coalesce(chunks, accepted.report.stream_interval):
                for event in answer.events(accepted, chunk, front.tokenizer.token_bytes):
                    yield event
                if chunk.finish:
                    ends.append(chunk.finish)
            yield answer.summary(accepted, ends, front.tokenizer.token_bytes)

    @asynccontextmanager
    async def _accepted(
        self, request: generation_pb2.GenerateRequest, context: Context
    ) -> AsyncIterator[tuple[Accepted, AsyncIterator[Chunk]]]:
        """The request with a place of its own, given back however the call ends; its chunks."""
        front = self._front
        remaining = context.time_remaining()
        deadline = None if remaining is None else time.monotonic() + remaining
        draft = read(request, front.model)
        ticket = self._enter(context)
        place: Place | None = None

        def leave(context: object = None) -> None:
            del context
            ticket.leave()
            if place:
                front.release(place)

        # Of a cancelled stream the generator is closed only when it is collected; the callback
        # runs at once.
        context.add_done_callback(leave)  # type: ignore[arg-type]  # stub is no Protocol
        try:
            place = front.reserve(draft.request_id)
            accepted = await front.unless_cancelled(place, front.prepare(draft, deadline))
            ticket.spend(len(accepted.request.prompt_ids))
            yield accepted, _paid(front.chunks(accepted), ticket)
        finally:
            leave()

    def _enter(self, context: Context) -> Ticket:
        """Raises Busy."""
        metadata = context.invocation_metadata()
        account = self._api_keys.account_of(metadata) if self._api_keys else None
        return account.enter() if account else Ticket(None)


async def _paid(chunks: AsyncIterator[Chunk], ticket: Ticket) -> AsyncIterator[Chunk]:
    async for chunk in chunks:
        ticket.spend(len(chunk.tokens))
        yield chunk
