"""Certificates for tests: an authority, and what it signs, as PEM files."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@dataclass(frozen=True)
class Signed:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes

    def write(self, certificate: Path, key: Path) -> None:
        certificate.write_bytes(self.certificate)
        key.write_bytes(self.key)


class Authority:
    """Signs certificates for this machine's loopback addresses."""

    def __init__(self, name: str, *, begins: datetime | None = None, days: float = 2) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        begins = begins or datetime.now(UTC) - DAY
        made = self._builder(self._name, self._key, begins, days).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.pem = made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def sign(
        self, name: str, *, begins: datetime | None = None, days: float = 2, password: bytes = b""
    ) -> Signed:
        key = ec.generate_private_key(ec.SECP256R1())
        addresses = [
            x509.DNSName("localhost"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        ]
        begins = begins or datetime.now(UTC) - DAY
        made = self._builder(_name(name), key, begins, days).add_extension(
            x509.SubjectAlternativeName(addresses), critical=False
        )
        hidden = BestAvailableEncryption(password) if password else NoEncryption()
        return Signed(
            made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM),
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden),
        )

    def _builder(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, begins: datetime, days: float
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(begins + timedelta(days=days))
        )
