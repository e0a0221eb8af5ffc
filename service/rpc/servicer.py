"""The RPCs: convert, submit, answer. No decisions are made here.

Every call ends in one of three ways: an answer, a ServiceError (one ``except``, one table), or a
fault of ours, which the log gets in full and the caller as INTERNAL with an id.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from typing_extensions import override

from service.errors import InternalError, ServiceError
from service.rpc import stream
from service.rpc.convert import answer, status
from service.rpc.convert.request import check_model_name, read
from service.rpc.front import Accepted, Front
from service.rpc.pb.v1 import generation_pb2, generation_pb2_grpc, model_pb2, model_pb2_grpc

_log = logging.getLogger(__name__)
_Context = grpc.aio.ServicerContext[Any, Any]


class GenerationServicer(generation_pb2_grpc.GenerationServiceServicer):
    """Generate and GenerateStream."""

    def __init__(self, front: Front) -> None:
        self._front = front

    @override
    async def Generate(
        self, request: generation_pb2.GenerateRequest, context: _Context
    ) -> generation_pb2.GenerateResponse:
        front = self._front
        async with _answering_errors(context), self._accepted(request, context) as accepted:
            output = await stream.collect(front.chunks(accepted))
            return answer.whole(accepted, output, front.model.name, front.tokenizer.token_bytes)
        raise AssertionError("abort raises")

    @override
    async def GenerateStream(
        self, request: generation_pb2.GenerateRequest, context: _Context
    ) -> AsyncIterator[generation_pb2.GenerateStreamResponse]:
        front = self._front
        async with _answering_errors(context), self._accepted(request, context) as accepted:
            yield answer.started(accepted, front.model.name)
            chunks = stream.coalesce(front.chunks(accepted), accepted.report.stream_interval)
            async for chunk in chunks:
                for event in answer.events(accepted, chunk, front.tokenizer.token_bytes):
                    yield event

    @asynccontextmanager
    async def _accepted(
        self, request: generation_pb2.GenerateRequest, context: _Context
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
            yield await front.prepare(draft, deadline)
        finally:
            front.release(place)


class ModelServicer(model_pb2_grpc.ModelServiceServicer):
    """GetModel."""

    def __init__(self, front: Front, model: model_pb2.Model) -> None:
        self._front = front
        self._model = model

    @override
    async def GetModel(
        self, request: model_pb2.GetModelRequest, context: _Context
    ) -> model_pb2.GetModelResponse:
        async with _answering_errors(context):
            check_model_name(request.name, self._front.model)
            return model_pb2.GetModelResponse(model=self._model)
        raise AssertionError("abort raises")


@asynccontextmanager
async def _answering_errors(context: _Context) -> AsyncIterator[None]:
    """Turns exceptions into the call's status. Cancellation passes through."""
    try:
        yield
    except ServiceError as error:
        await context.abort_with_status(status.to_grpc(error))
    except Exception:  # noqa: BLE001 - whatever it is, the caller gets a status and an id
        incident = uuid.uuid4().hex[:12]
        _log.exception("incident %s", incident)
        await context.abort_with_status(status.to_grpc(InternalError(incident)))
