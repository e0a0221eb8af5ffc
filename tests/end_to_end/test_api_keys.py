"""A server that wants keys: who brings one is served, who does not learns what is missing."""

from __future__ import annotations

import subprocess
import sys
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import syntaxd_client
from service.cli.main import main
from tests.end_to_end.conftest import ONE_THREAD
from tools.local_server import LocalServer

KEY = "a-key-for-the-tests"
NEW = "a-key-that-comes-later"
POOR = "a-key-with-a-quota"


@pytest.fixture(scope="module")
def guarded(default_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    keys = folder / "keys"
    keys.write_text(f"# ours\n\n{KEY}\n{POOR} tenant=poor concurrent=1\n")
    flags = ("--api-keys", str(keys), "--reflection", "off")
    with LocalServer(
        "--model", str(default_model), *ONE_THREAD, *flags, log=folder / "log"
    ) as running:
        running.keys = keys
        yield running
    assert KEY not in (folder / "log").read_text()


def test_the_command_line_sends_its_key(guarded, monkeypatch, capsys):
    monkeypatch.setenv("SYNTAXD_API_KEY", KEY)
    assert main(["generate", "Yes?", "--choice", "yes", "--address", guarded.address]) == 0
    assert main(["tokenize", "Hello", "--server", guarded.address]) == 0
    assert "yes" in capsys.readouterr().out


@pytest.mark.parametrize("key", [None, "another-key-of-nobody"])
def test_without_one_it_says_what_is_missing(guarded, monkeypatch, capsys, key):
    monkeypatch.delenv("SYNTAXD_API_KEY", raising=False)
    if key:
        monkeypatch.setenv("SYNTAXD_API_KEY", key)
    assert main(["generate", "Yes?", "--choice", "yes", "--address", guarded.address]) != 0
    assert main(["tokenize", "Hello", "--server", guarded.address]) != 0
    said = capsys.readouterr().err
    assert said.count("SYNTAXD_API_KEY") == 2
    assert KEY not in said


def test_the_python_client_brings_metadata(guarded):
    metadata = [("authorization", f"Bearer {KEY}")]
    with syntaxd_client.Client(guarded.address, metadata=metadata) as client:
        assert client.generate("Yes?", choice=["yes"]).text == "yes"
        assert "".join(client.stream("Yes?", choice=["yes"])) == "yes"
    with (
        syntaxd_client.Client(guarded.address) as client,
        pytest.raises(syntaxd_client.UnauthenticatedError) as caught,
    ):
        client.generate("Yes?", choice=["yes"])
    assert caught.value.reason == "UNKNOWN_API_KEY"


def test_who_has_a_quota_has_no_more(guarded):
    metadata = [("authorization", f"Bearer {POOR}")]
    with syntaxd_client.Client(guarded.address, metadata=metadata, retry=None) as client:
        stream = client.stream("Count.", regex="[a-z ]{1500}")
        assert next(stream)
        with pytest.raises(syntaxd_client.ResourceExhaustedError) as caught:
            client.generate("Yes?", choice=["yes"])
        assert (caught.value.reason, caught.value.retry_after) == ("QUOTA", 1)
        with syntaxd_client.Client(
            guarded.address, metadata=[("authorization", f"Bearer {KEY}")]
        ) as other:
            assert other.generate("Yes?", choice=["yes"]).text == "yes"
        stream.cancel()
        with syntaxd_client.Client(guarded.address, metadata=metadata) as patient:
            assert patient.generate("Yes?", choice=["yes"]).text == "yes"


def test_a_changed_file_holds_without_a_restart(guarded):
    before = guarded.keys.read_text()
    metadata = [("authorization", f"Bearer {NEW}")]
    with syntaxd_client.Client(guarded.address, metadata=metadata) as client:
        with pytest.raises(syntaxd_client.UnauthenticatedError):
            client.get_model()
        guarded.keys.write_text(before + NEW + "\n")
        until = time.monotonic() + 30
        while True:
            try:
                assert client.get_model().name
                break
            except syntaxd_client.UnauthenticatedError:
                assert time.monotonic() < until
    guarded.keys.write_text(before)


def test_health_stays_open_and_reflection_is_off(guarded):
    with grpc.insecure_channel(guarded.address) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        ask = reflection_pb2.ServerReflectionRequest(list_services="")
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            next(stub.ServerReflectionInfo(iter([ask])))
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(("text", "said"), [("", "has no key"), ("short\n", "line 1"), (None, "")])
def test_a_file_without_keys_starts_nothing(default_model, tmp_path, text, said):
    keys = tmp_path / "keys"
    if text is not None:
        keys.write_text(text)
    command = [sys.executable, "-m", "service", "serve", "--port", "0", "--api-keys", str(keys)]
    done = subprocess.run(
        [*command, "--model", str(default_model)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode != 0
    assert f"--api-keys: {keys}" in done.stderr if said else "--api-keys" in done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
