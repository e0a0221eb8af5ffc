"""What is sent again by itself, when, and how often."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import grpc
import pytest

import syntaxd_client
from syntaxd_client import retries
from syntaxd_client.pb.v1 import constraint_pb2, generation_pb2, model_pb2
from tests.clients.fake_server import refusal, running
from tests.clients.said import ANSWER, EVENTS, RESPONSE

S = grpc.StatusCode
QUICK = syntaxd_client.Retry(initial_backoff=0.01, max_backoff=0.02)


def refused(code=S.UNAVAILABLE, pushback=None):
    said = refusal(code, "not now")
    if pushback is None:
        return said
    return type(said)(code, said.message, (*said.trailers, ("grpc-retry-pushback-ms", pushback)))


def after(*refusals, then=RESPONSE):
    """Says these one after the other, and then always the answer."""
    left = list(refusals)
    return lambda request: left.pop(0) if left else then


@pytest.mark.parametrize("code", [S.UNAVAILABLE, S.RESOURCE_EXHAUSTED])
def test_a_call_that_is_refused_for_now_is_sent_again(open_client, code):
    with running(Generate=after(refused(code), refused(code))) as server:
        client = open_client(server.address, retry=QUICK)
        assert client.generate("Hi.") == ANSWER
    assert len(server.requests) == 3
    assert server.requests[0] == server.requests[2]
    assert server.metadata[2]["grpc-previous-rpc-attempts"] == "2"


def test_so_is_a_stream_that_has_said_nothing(open_client):
    with running(GenerateStream=after([refused()], then=EVENTS)) as server:
        assert open_client(server.address, retry=QUICK).stream("Hi.").result() == ANSWER
    assert len(server.requests) == 2


def test_a_stream_that_has_said_something_is_not(open_client):
    with running(GenerateStream=after([*EVENTS[:2], refused()], then=EVENTS)) as server:
        stream = open_client(server.address, retry=QUICK).stream("Hi.")
        assert next(stream)
        with pytest.raises(syntaxd_client.UnavailableError):
            next(stream)
    assert len(server.requests) == 1


def test_the_server_says_when(open_client):
    with running(Generate=after(refused(pushback="400"))) as server:
        client = open_client(server.address, retry=QUICK)
        began = time.monotonic()
        assert client.generate("Hi.") == ANSWER
        assert time.monotonic() - began >= 0.4


def test_and_when_not_at_all(open_client):
    with running(Generate=after(refused(S.RESOURCE_EXHAUSTED, "-1"))) as server:
        with pytest.raises(syntaxd_client.ResourceExhaustedError):
            open_client(server.address, retry=QUICK).generate("Hi.")
        assert len(server.requests) == 1


@pytest.mark.parametrize(("retry", "attempts"), [(QUICK, 4), (None, 1)])
def test_there_is_an_end_to_it(open_client, retry, attempts):
    with running(Generate=refused()) as server:
        with pytest.raises(syntaxd_client.UnavailableError):
            open_client(server.address, retry=retry).generate("Hi.")
        assert len(server.requests) == attempts


def test_what_is_wrong_with_the_request_is_not_sent_again(open_client):
    with running(Generate=refused(S.INVALID_ARGUMENT)) as server:
        with pytest.raises(syntaxd_client.InvalidRequestError):
            open_client(server.address, retry=QUICK).generate("Hi.")
        assert len(server.requests) == 1


def test_the_timeout_is_that_of_all_attempts(open_client):
    with running(Generate=after(refused(pushback="60000"))) as server:
        client = open_client(server.address, retry=QUICK)
        began = time.monotonic()
        with pytest.raises(syntaxd_client.SyntaxdError):
            client.generate("Hi.", timeout=0.5)
        assert time.monotonic() - began < 30


def test_a_large_request_is_sent_again_too(open_client):
    with running(Generate=after(refused())) as server:
        client = open_client(server.address, retry=QUICK)
        assert client.generate("Hi. " * 200_000) == ANSWER
    assert len(server.requests) == 2


def test_every_service_of_the_contract_is_meant():
    files = (generation_pb2, constraint_pb2, model_pb2)
    services = {name for file in files for name in file.DESCRIPTOR.services_by_name}
    assert services == set(retries.SERVICES)
    config = json.loads(retries.DEFAULT_RETRY.service_config())
    assert config["methodConfig"][0]["name"] == [
        {"service": f"syntaxd.v1.{name}"} for name in retries.SERVICES
    ]


def test_the_page_for_other_languages_has_the_same():
    page = (Path(__file__).parents[2] / "clients/README.md").read_text()
    (config,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert json.loads(config) == json.loads(retries.DEFAULT_RETRY.service_config())


@pytest.mark.parametrize(
    "given",
    [
        {"max_attempts": 1},
        {"max_attempts": 6},
        {"initial_backoff": 0},
        {"max_backoff": float("inf")},
        {"multiplier": -1},
    ],
)
def test_what_grpc_would_not_take_is_refused(given):
    with pytest.raises(ValueError, match=next(iter(given))):
        syntaxd_client.Retry(**given)
