"""TLS: who this server is, who may connect, and certificates that are replaced while it runs.

gRPC asks before each handshake, in a thread of its own, whether there is a new configuration. The
answer costs a ``stat`` of each file while nothing changes. A changed file is read and judged as at
the start: a good set is used from this connection on, a bad one (half written, expired, a key of
another certificate) is logged once and the one before stays. Open connections keep what they
have.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import grpc
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from service.rpc.files import Version, version

_log = logging.getLogger(__name__)


class TlsError(Exception):
    """A file cannot be used; the message has its flag and name, and never its content."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the PEM files lie."""

    certificate: Path  # the server's own first, then those that lead to its authority
    key: Path  # its private key, unencrypted
    client_ca: Path | None = (
        None  # authorities of clients; with it each client needs a certificate
    )


class _Loaded(NamedTuple):
    configuration: grpc.ServerCertificateConfiguration
    expires: datetime  # when the first of the chain does


class Certificates:
    """The files as they were last good. ``credentials`` follows them."""

    def __init__(self, files: TlsFiles, clock: Callable[[], datetime] | None = None) -> None:
        """Raises TlsError."""
        self._files = files
        self._clock = clock or (lambda: datetime.now(UTC))
        self._seen = _versions(files)  # before reading: what changes meanwhile is read again
        self._loaded = _load(files, self._clock())
        self._looking = threading.Lock()

    @property
    def expires(self) -> datetime:
        """Until when clients accept what is presented to them now."""
        return self._loaded.expires

    def credentials(self) -> grpc.ServerCredentials:
        """For a server's port."""
        return grpc.dynamic_ssl_server_credentials(
            self._loaded.configuration,
            self.changed,  # type: ignore[arg-type]  # gRPC takes None as: no change
            require_client_authentication=self._files.client_ca is not None,
        )

    def changed(self) -> grpc.ServerCertificateConfiguration | None:
        """The configuration, if it is not the one of the call before. Never raises."""
        if not self._looking.acquire(blocking=False):
            return None  # another handshake is about to tell
        try:
            return self._look()
        finally:
            self._looking.release()

    def _look(self) -> grpc.ServerCertificateConfiguration | None:
        versions = _versions(self._files)
        if versions == self._seen:
            return None
        self._seen = versions
        try:
            self._loaded = _load(self._files, self._clock())
        except TlsError as error:
            _log.error("the certificate in use stays: %s", error)
            return None
        _log.info("new certificate, valid until %s", self._loaded.expires.isoformat())
        return self._loaded.configuration


def _versions(files: TlsFiles) -> Sequence[Version]:
    paths = (files.certificate, files.key, files.client_ca)
    return [version(path) for path in paths if path]


def _load(files: TlsFiles, now: datetime) -> _Loaded:
    """Raises TlsError."""
    chain_pem = _read("--tls-certificate", files.certificate)
    chain = _certificates("--tls-certificate", files.certificate, chain_pem)
    for each in chain:
        _check_dates(files.certificate, each, now)
    key_pem = _read("--tls-key", files.key)
    _check_key(files, key_pem, chain[0])
    authorities = None
    if files.client_ca:
        authorities = _read("--tls-client-ca", files.client_ca)
        found = _certificates("--tls-client-ca", files.client_ca, authorities)
        if all(each.not_valid_after_utc <= now for each in found):
            raise TlsError(f"--tls-client-ca: {files.client_ca}: has expired")
    configuration = grpc.ssl_server_certificate_configuration(
        [(key_pem, chain_pem)], root_certificates=authorities
    )
    return _Loaded(configuration, min(each.not_valid_after_utc for each in chain))


def _read(flag: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlsError(f"{flag}: {path}: {error.strerror or error}") from None


def _certificates(flag: str, path: Path, pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise TlsError(f"{flag}: {path}: has no certificate in PEM form") from None


def _check_dates(path: Path, certificate: x509.Certificate, now: datetime) -> None:
    name = certificate.subject.rfc4514_string() or "the certificate"
    if certificate.not_valid_after_utc <= now:
        said = f"{name} expired on {certificate.not_valid_after_utc.isoformat()}"
        raise TlsError(f"--tls-certificate: {path}: {said}")
    if certificate.not_valid_before_utc > now:
        said = f"{name} is not valid before {certificate.not_valid_before_utc.isoformat()}"
        raise TlsError(f"--tls-certificate: {path}: {said}")


def _check_key(files: TlsFiles, pem: bytes, certificate: x509.Certificate) -> None:
    try:
        key = load_pem_private_key(pem, password=None)
    except TypeError:
        raise TlsError(f"--tls-key: {files.key}: is encrypted; it has to be without") from None
    except (ValueError, UnsupportedAlgorithm):
        raise TlsError(f"--tls-key: {files.key}: is no private key in PEM form") from None
    if key.public_key() != certificate.public_key():
        raise TlsError(f"--tls-key: {files.key}: is not the key of {files.certificate}")
