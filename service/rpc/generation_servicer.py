"""GenerationService: convert, submit, answer. No decisions are made here."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from typing_extensions import override

from service.rpc import stream
from service.rpc.answering import Context, answering_errors
from service.rpc.convert import answer
from service.rpc.convert.request import read
from service.rpc.front import Accepted, Front
from service.rpc.pb.v1 import generation_pb2, generation_pb2_grpc


class GenerationServicer(generation_pb2_grpc.GenerationServiceServicer):
    """Generate and GenerateStream."""

    def __init__(self, front: Front) -> None:
        self._front = front

    @override
    async def Generate(
        self, request: generation_pb2.GenerateRequest, context: Context
    ) -> generation_pb2.GenerateResponse:
        front = self._front
        async with answering_errors(context), self._accepted(request, context) as accepted:
            outputs = await stream.collect(front.chunks(accepted))
            return answer.whole(accepted, outputs, front.model.name, front.tokenizer.token_bytes)
        raise AssertionError("abort raises")

    @override
    async def GenerateStream(
        self, request: generation_pb2.GenerateRequest, context: Context
    ) -> AsyncIterator[generation_pb2.GenerateStreamResponse]:
        front = self._front
        async with answering_errors(context), self._accepted(request, context) as accepted:
            yield answer.started(accepted, front.model.name)
            chunks = stream.coalesce(front.chunks(accepted), accepted.report.stream_interval)
            ends = []
            async for chunk in chunks:
                for event in answer.events(accepted, chunk, front.tokenizer.token_bytes):
                    yield event
                if chunk.finish:
                    ends.append(chunk.finish)
            yield answer.summary(accepted, ends)

    @asynccontextmanager
    async def _accepted(
        self, request: generation_pb2.GenerateRequest, context: Context
    ) -> AsyncIterator[Accepted]:
        """The request with a place of its own, given back however the call ends."""
        front = self._front
        remaining = context.time_remaining()
        deadline = None if remaining is None else time.monotonic() + remaining
        draft = read(request, front.model)
        place = front.reserve(draft.request_id)
        # Of a cancelled stream the generator is closed only when it is collected; the callback
        # runs at once.
        context.add_done_callback(
            lambda ctx: front.release(place)  # type: ignore[arg-type]  # noqa: ARG005 - stub is no Protocol
        )
        try:
            yield await front.unless_cancelled(place, front.prepare(draft, deadline))
        finally:
            front.release(place)
