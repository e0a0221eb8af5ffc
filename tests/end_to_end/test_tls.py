"""A server with TLS that asks each client for a certificate: both clients, the command line, and
a certificate that is replaced while it runs.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import syntaxd_client
from service.cli.main import main
from tests.certificates import DAY, Authority
from tests.end_to_end.calls import TIMEOUT
from tests.end_to_end.conftest import ONE_THREAD
from tests.end_to_end.test_metrics import scrape
from tools.local_server import LocalServer


@pytest.fixture(scope="module")
def authority():
    return Authority("tests")


@pytest.fixture(scope="module")
def folder(authority, tmp_path_factory):
    """The PEM files: ca, server and client."""
    made = tmp_path_factory.mktemp("tls")
    (made / "ca.pem").write_bytes(authority.pem)
    for name in ("server", "client"):
        authority.sign(name).write(made / f"{name}.crt", made / f"{name}.key")
    return made


def flags(folder):
    files = {"certificate": "server.crt", "key": "server.key", "client-ca": "ca.pem"}
    return [part for flag, name in files.items() for part in (f"--tls-{flag}", str(folder / name))]


@pytest.fixture(scope="module")
def secured(default_model, folder):
    log = folder / "log"
    more = ("--model", str(default_model), *ONE_THREAD, "--metrics", "127.0.0.1:0")
    with LocalServer(*more, *flags(folder), log=log) as running:
        yield running
    assert "PRIVATE" not in log.read_text()
    assert "Traceback" not in log.read_text()


@pytest.fixture
def replaced(folder, authority):
    """Replaces the server's certificate; afterwards there is a good one again."""

    def replace(signed):
        signed.write(folder / "server.crt", folder / "server.key")

    yield replace
    replace(authority.sign("server"))


@pytest.fixture
def pems(folder):
    """What a client is opened with."""
    return {
        "ca": folder / "ca.pem",
        "certificate": folder / "client.crt",
        "key": folder / "client.key",
    }


def test_the_python_client_brings_its_certificate(secured, pems):
    with syntaxd_client.Client(secured.address, timeout=TIMEOUT, **pems) as client:
        assert client.generate("Yes?", choice=["yes"]).text == "yes"
        assert "".join(client.stream("Yes?", choice=["yes"])) == "yes"
        with pytest.raises(syntaxd_client.ConstraintError) as caught:
            client.generate("?", regex="(")
    assert caught.value.pointer == "@0"  # the details of an error come through
    with (
        syntaxd_client.Client(secured.address, ca=pems["ca"]) as client,
        pytest.raises(syntaxd_client.UnavailableError),
    ):
        client.generate("Yes?", choice=["yes"])


async def test_so_does_the_one_for_asyncio(secured, pems):
    texts = {name: path.read_bytes() for name, path in pems.items()}
    async with syntaxd_client.AsyncClient(secured.address, timeout=TIMEOUT, **texts) as client:
        assert (await client.generate("Yes?", choice=["yes"])).text == "yes"
        async with client.stream("Count.", regex="[a-z ]{1500}") as stream:
            assert await anext(stream)
            stream.cancel()
            with pytest.raises(syntaxd_client.CallCancelledError):
                await stream.result()


def test_so_does_the_command_line(secured, pems, monkeypatch, capsys):
    names = {"ca": "CA", "certificate": "CLIENT_CERTIFICATE", "key": "CLIENT_KEY"}
    for name, path in pems.items():
        monkeypatch.setenv(f"SYNTAXD_{names[name]}", str(path))
    assert main(["generate", "Yes?", "--choice", "yes", "--address", secured.address]) == 0
    assert main(["tokenize", "Hello", "--server", secured.address]) == 0
    assert "yes" in capsys.readouterr().out
    assert main(["health", "--server", secured.address]) == 0
    monkeypatch.setenv("SYNTAXD_SERVER_NAME", "somebody.example")
    assert main(["health", "--server", secured.address]) == 1
    monkeypatch.setenv("SYNTAXD_SERVER_NAME", "localhost")
    assert main(["health", "--server", secured.address]) == 0
    monkeypatch.delenv("SYNTAXD_SERVER_NAME")
    capsys.readouterr()
    monkeypatch.delenv("SYNTAXD_CLIENT_CERTIFICATE")
    assert main(["generate", "Yes?", "--choice", "yes", "--address", secured.address]) == 1
    assert "SYNTAXD_CLIENT_KEY go together" in capsys.readouterr().err
    monkeypatch.delenv("SYNTAXD_CLIENT_KEY")
    assert main(["generate", "Yes?", "--choice", "yes", "--address", secured.address]) == 1
    assert "no server answers with TLS" in capsys.readouterr().err
    monkeypatch.setenv("SYNTAXD_CA", str(pems["ca"].parent / "nobody.pem"))
    assert main(["generate", "Yes?", "--choice", "yes", "--address", secured.address]) == 1
    assert "SYNTAXD_CA: " in capsys.readouterr().err


def test_who_speaks_without_tls_gets_no_answer(secured):
    with grpc.insecure_channel(secured.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Check(health_pb2.HealthCheckRequest(), timeout=10)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_new_certificate_is_used_without_a_restart(secured, pems, folder, replaced):
    """The stream on the connection before it goes on to its end."""
    expires = scrape(secured.metrics)["syntaxd_certificate_expiry_timestamp_seconds"]
    other = Authority("other")
    with syntaxd_client.Client(secured.address, timeout=TIMEOUT, **pems) as client:
        stream = client.stream("Count.", regex="[a-z ]{60}")
        assert next(stream)
        replaced(other.sign("server", days=9))
        with syntaxd_client.Client(secured.address, **{**pems, "ca": other.pem}) as another:
            assert another.generate("Yes?", choice=["yes"]).text == "yes"
        assert stream.result().complete
        assert client.generate("Yes?", choice=["yes"]).text == "yes"
    after = scrape(secured.metrics)["syntaxd_certificate_expiry_timestamp_seconds"]
    assert after > expires
    (folder / "server.key").write_text("half a ke")
    with syntaxd_client.Client(secured.address, **{**pems, "ca": other.pem}) as another:
        assert another.generate("Yes?", choice=["yes"]).text == "yes"
    assert "the certificate in use stays: --tls-key" in (folder / "log").read_text()


def started(default_model, *more):
    """How a server ends that cannot start, and what it says."""
    command = [sys.executable, "-m", "service", "serve", "--port", "0", *more]
    done = subprocess.run(
        [*command, "--model", str(default_model)], capture_output=True, text=True, timeout=120
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_an_expired_certificate_starts_nothing(default_model, authority, tmp_path):
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    gone = authority.sign("gone", begins=datetime.now(UTC) - 3 * DAY)
    gone.write(tmp_path / "server.crt", tmp_path / "server.key")
    status, said = started(default_model, *flags(tmp_path))
    assert status == 1
    assert "syntaxd: --tls-certificate: " in said
    assert "CN=gone expired on" in said
    (tmp_path / "server.key").unlink()
    authority.sign("good").write(tmp_path / "server.crt", tmp_path / "other.key")
    status, said = started(default_model, *flags(tmp_path))
    assert status == 1
    assert f"--tls-key: {tmp_path / 'server.key'}: No such file" in said
    assert started(default_model, "--tls-key", "x")[0] == 2
