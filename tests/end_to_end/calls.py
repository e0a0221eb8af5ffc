"""Requests and refusals, short to write."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from service.rpc.pb.v1 import constraint_pb2 as c
from service.rpc.pb.v1 import generation_pb2 as g

TIMEOUT = 100

# Takes the small model several seconds: long enough to be cancelled, counted or killed.
LONG = c.Constraint(regex="[a-z ]{1500}")


def ask(content: str = "Say something.", **fields) -> g.GenerateRequest:
    """A request through the chat template, unless it brings an input of its own."""
    if not {"prompt", "token_ids", "chat"} & fields.keys():
        fields["chat"] = g.ChatInput(messages=[g.ChatMessage(role="user", content=content)])
    return g.GenerateRequest(**fields)


def regex(pattern: str) -> c.Constraint:
    return c.Constraint(regex=pattern)


def choice(*texts: str) -> c.Constraint:
    return c.Constraint(choice=c.ChoiceConstraint(choices=texts))


def details(error: grpc.RpcError) -> dict[str, Any]:
    """The status details by name: ErrorInfo, BadRequest, RetryInfo, QuotaFailure."""
    status = rpc_status.from_call(error)
    assert status is not None, error
    found: dict[str, Any] = {}
    for packed in status.details:
        name = packed.TypeName().rpartition(".")[2]
        found[name] = getattr(error_details_pb2, name)()
        assert packed.Unpack(found[name])
    return found


def refused(call) -> tuple[str, str, dict]:
    """Code, reason and details of a call that is refused."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    found = details(caught.value)
    info = found["ErrorInfo"]
    assert info.domain == "syntaxd"
    return caught.value.code().name, info.reason, found
