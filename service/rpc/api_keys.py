"""Who may call: holders of a key from a file, sent as metadata ``authorization: Bearer KEY``.

The file has one key a line; empty lines and lines that begin with ``#`` do not count. A key may be
followed by its tenant's name and limits, of which each key of the tenant has the same or none:

    KEY
    KEY tenant=shop concurrent=8 tokens_per_minute=60000

In memory there are only digests of the keys, and a key is compared with all of them in constant
time.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from typing_extensions import override

from service.errors import Code, ServiceError
from service.rpc.answering import Context
from service.rpc.convert import status
from service.rpc.guards import Handler, guarded, is_ours
from service.rpc.quotas import Account, Quota

MIN_KEY_BYTES = 16  # shorter ones can be guessed
_LIMITS = ("concurrent", "tokens_per_minute")
_LARGEST_LIMIT = 10**9


class Key(NamedTuple):
    """A line of the file."""

    secret: bytes
    tenant: str = ""  # "": a tenant of its own
    quota: Quota = Quota()


class ApiKeysError(ValueError):
    """The file has no keys, or one that is none; the message says where and never what."""


class ApiKeys(grpc.aio.ServerInterceptor):
    """Refuses calls of our services without a known key. Health and reflection stay open."""

    def __init__(self, keys: Iterable[Key]) -> None:
        """Keys of one tenant share an account; one without a tenant has its own."""
        keys = list(keys)
        quotas = {key.tenant: key.quota for key in keys if key.quota != Quota()}
        tenants = {key.tenant: Account(quotas.get(key.tenant, Quota())) for key in keys}
        self._accounts = [
            (_digest(key.secret), tenants[key.tenant] if key.tenant else Account(key.quota))
            for key in keys
        ]

    @override
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        if handler is None or not is_ours(handler_call_details):
            return handler
        if self.account_of(handler_call_details.invocation_metadata):
            return handler
        return guarded(handler, _refuse, lambda data: data)  # nothing of theirs is parsed

    def account_of(self, metadata: Any) -> Account | None:
        """That of the key in a call's metadata; None if it is not known."""
        digest, found = _digest(_presented(metadata)), None
        for known, account in self._accounts:  # all of them: the time says nothing about which
            if hmac.compare_digest(known, digest):
                found = account
        return found


def read_keys(path: Path) -> list[Key]:
    """The keys of a file. Raises ApiKeysError, OSError."""
    keys: list[Key] = []
    quotas: dict[str, Quota] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        parts = line.split()
        if not parts or parts[0].startswith(b"#"):
            continue
        try:
            key = _key(parts[0], parts[1:])
        except ValueError as error:
            raise ApiKeysError(f"{path}, line {number}: {error}") from None
        has_limits = key.tenant and key.quota != Quota()
        if has_limits and quotas.setdefault(key.tenant, key.quota) != key.quota:
            raise ApiKeysError(f"{path}, line {number}: the tenant has other limits above")
        keys.append(key)
    if not keys:
        raise ApiKeysError(f"{path}: has no key")
    return keys


def _key(secret: bytes, settings: list[bytes]) -> Key:
    """Raises ValueError, which never has a word of the line."""
    if len(secret) < MIN_KEY_BYTES or not all(33 <= each <= 126 for each in secret):
        raise ValueError(
            f"a key has at least {MIN_KEY_BYTES} printable ASCII characters and no space"
        )
    given = dict(setting.decode("ascii", "replace").partition("=")[::2] for setting in settings)
    if len(given) < len(settings) or not given.keys() <= {"tenant", *_LIMITS}:
        raise ValueError(f"after a key only tenant=, {'=, '.join(_LIMITS)}= may stand, once each")
    limits = {name: _limit(name, given[name]) for name in _LIMITS if name in given}
    tenant = given.get("tenant", "")
    if "tenant" in given and not tenant:
        raise ValueError("tenant= has no name")
    return Key(secret, tenant, Quota(**limits))


def _limit(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= _LARGEST_LIMIT:
        raise ValueError(f"{name}= is not a number from 1 to {_LARGEST_LIMIT}")
    return int(text)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _presented(metadata: Any) -> bytes:
    for name, value in metadata or ():
        if name == "authorization" and isinstance(value, str):
            scheme, _, key = value.partition(" ")
            if scheme.lower() == "bearer":
                return key.strip().encode()
    return b""


async def _refuse(request: Any, context: Context) -> None:
    del request
    error = ServiceError(
        Code.UNAUTHENTICATED,
        "UNKNOWN_API_KEY",
        "a key of this server is needed as metadata 'authorization: Bearer KEY'",
    )
    await context.abort_with_status(status.to_grpc(error))
