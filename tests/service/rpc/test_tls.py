"""Certificates: what is refused at the start, and what becomes of files that change later."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from service.rpc.tls import Certificates, TlsError, TlsFiles
from tests.certificates import DAY, Authority
from tests.service.rpc.fakes import serving

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def authority():
    return Authority("tests")


@pytest.fixture
def files(tmp_path, authority):
    """A good set for a server that asks its clients for a certificate."""
    made = TlsFiles(tmp_path / "server.crt", tmp_path / "server.key", tmp_path / "clients.pem")
    authority.sign("server").write(made.certificate, made.key)
    made.client_ca.write_bytes(authority.pem)
    return made


def test_what_is_good_is_taken(files, authority):
    found = Certificates(files)
    assert NOW < found.expires < NOW + 2 * DAY
    assert found.changed() is None


def test_the_first_of_a_chain_to_expire_counts(files, authority):
    sooner = authority.sign("between", days=1.5)
    with files.certificate.open("ab") as chain:
        chain.write(sooner.certificate)
    assert Certificates(files).expires < NOW + DAY / 2 + DAY / 10


def expired(files, authority):
    authority.sign("gone", begins=NOW - 3 * DAY).write(files.certificate, files.key)


def early(files, authority):
    authority.sign("soon", begins=NOW + DAY).write(files.certificate, files.key)


def behind(files, authority):
    with files.certificate.open("ab") as chain:
        chain.write(authority.sign("above", begins=NOW - 3 * DAY).certificate)


def encrypted(files, authority):
    authority.sign("secret", password=b"secret").write(files.certificate, files.key)


def stale_clients(files, authority):
    files.client_ca.write_bytes(Authority("stale", begins=NOW - 3 * DAY).pem)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (expired, "server.crt: CN=gone expired on 20"),
        (early, "server.crt: CN=soon is not valid before 20"),
        (behind, "server.crt: CN=above expired on 20"),
        (encrypted, "--tls-key: .*server.key: is encrypted"),
        (stale_clients, "--tls-client-ca: .*clients.pem: has expired"),
        (lambda f, a: f.certificate.unlink(), "--tls-certificate: .*server.crt: No such file"),
        (lambda f, a: f.key.unlink(), "--tls-key: .*server.key: No such file"),
        (lambda f, a: f.client_ca.unlink(), "--tls-client-ca: .*clients.pem: No such file"),
        (lambda f, a: f.certificate.write_bytes(b"{}"), "server.crt: has no certificate in PEM"),
        (lambda f, a: f.certificate.write_bytes(f.key.read_bytes()), "has no certificate in PEM"),
        (lambda f, a: f.client_ca.write_bytes(b""), "clients.pem: has no certificate in PEM"),
        (lambda f, a: f.key.write_bytes(f.certificate.read_bytes()), "is no private key in PEM"),
        (lambda f, a: f.key.write_bytes(a.sign("x").key), "server.key: is not the key of .*crt"),
    ],
)
def test_what_is_wrong_is_named_by_flag_and_file(files, authority, spoil, said):
    spoil(files, authority)
    with pytest.raises(TlsError, match=said) as caught:
        Certificates(files)
    assert "BEGIN" not in str(caught.value)


def test_a_certificate_that_is_replaced_half_way_waits_for_its_key(files, authority, caplog):
    found, new = Certificates(files), authority.sign("new", days=5)
    before = found.expires
    files.certificate.write_bytes(new.certificate)
    for _ in range(3):
        assert found.changed() is None
    assert found.expires == before
    (said,) = [each.getMessage() for each in caplog.records]  # once, not with every connection
    assert "the certificate in use stays: --tls-key" in said
    files.key.write_bytes(new.key)
    assert found.changed() is not None
    assert found.changed() is None
    assert found.expires > before


def test_one_that_expired_on_disk_does_not_replace_one_that_is_good(files, authority, caplog):
    found = Certificates(files)
    expired(files, authority)
    assert found.changed() is None
    assert "expired on" in caplog.text
    files.certificate.unlink()
    assert found.changed() is None
    assert found.expires > NOW


def test_a_link_that_is_turned_counts_as_a_change(tmp_path, authority):
    """As Kubernetes replaces a mounted secret."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        authority.sign(name).write(tmp_path / name / "tls.crt", tmp_path / name / "tls.key")
    data = tmp_path / "data"
    data.symlink_to(tmp_path / "one")
    found = Certificates(TlsFiles(data / "tls.crt", data / "tls.key"))
    turned = tmp_path / "turned"
    turned.symlink_to(tmp_path / "two")
    turned.rename(data)
    assert found.changed() is not None


async def check(port, ca, client=None):
    """The server's health over a connection of its own, or the code that there is none."""
    pair = (client.key, client.certificate) if client else (None, None)
    credentials = grpc.ssl_channel_credentials(ca, *pair)
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            return (await stub.Check(health_pb2.HealthCheckRequest(), timeout=10)).status
        except grpc.aio.AioRpcError as error:
            return error.code()


SERVING = health_pb2.HealthCheckResponse.SERVING
REFUSED = grpc.StatusCode.UNAVAILABLE


async def test_only_clients_with_a_certificate_of_the_authority_get_in(files, authority):
    stranger = Authority("somebody else")
    async with serving(credentials=Certificates(files).credentials()) as served:
        port = served.server.port
        assert await check(port, authority.pem, authority.sign("client")) is SERVING
        assert await check(port, authority.pem) is REFUSED
        assert await check(port, authority.pem, stranger.sign("client")) is REFUSED
        assert await check(port, stranger.pem, authority.sign("client")) is REFUSED
        assert (await served.health()) is REFUSED  # without TLS


async def test_without_an_authority_for_clients_anybody_gets_in(files, authority):
    files = TlsFiles(files.certificate, files.key)
    async with serving(credentials=Certificates(files).credentials()) as served:
        assert await check(served.server.port, authority.pem) is SERVING


async def test_the_next_connection_gets_the_new_certificate_and_open_ones_go_on(files, authority):
    other, client = Authority("other"), authority.sign("client")
    async with serving(credentials=Certificates(files).credentials()) as served:
        port = served.server.port
        credentials = grpc.ssl_channel_credentials(authority.pem, client.key, client.certificate)
        async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            watch = stub.Watch(health_pb2.HealthCheckRequest())
            assert (await watch.read()).status == SERVING

            other.sign("server").write(files.certificate, files.key)
            assert await check(port, other.pem, client) is SERVING
            assert await check(port, authority.pem, client) is REFUSED

            files.client_ca.write_bytes(other.pem)
            assert await check(port, other.pem, client) is REFUSED
            assert await check(port, other.pem, other.sign("client")) is SERVING

            files.key.write_bytes(b"broken")
            os.utime(files.key)
            assert await check(port, other.pem, other.sign("client")) is SERVING

            assert (await stub.Check(health_pb2.HealthCheckRequest())).status == SERVING
            watch.cancel()
