"""Refusals of an asynchronous call, taken apart; and waiting for the server."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2


async def _status(call) -> status_pb2.Status:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    error = caught.value
    (packed,) = (v for k, v in error.trailing_metadata() if k == "grpc-status-details-bin")
    status = status_pb2.Status.FromString(packed)
    assert (status.code, status.message) == (error.code().value[0], error.details())
    return status


async def refused(call) -> tuple[grpc.StatusCode, str, dict]:
    """The status code, the ErrorInfo's reason and its metadata."""
    status = await _status(call)
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "syntaxd"
    code = next(each for each in grpc.StatusCode if each.value[0] == status.code)
    return code, info.reason, dict(info.metadata)


async def details(call) -> dict[str, Any]:
    """The status details by name: ErrorInfo, BadRequest, RetryInfo, QuotaFailure."""
    found: dict[str, Any] = {}
    for packed in (await _status(call)).details:
        name = packed.TypeName().rpartition(".")[2]
        found[name] = getattr(error_details_pb2, name)()
        assert packed.Unpack(found[name])
    return found


async def until(condition) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - the condition is the server's, without an event
            await asyncio.sleep(0.005)
