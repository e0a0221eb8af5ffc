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
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from typing_extensions import override

from service.errors import Code, ServiceError
from service.rpc.answering import Context
from service.rpc.convert import status
from service.rpc.files import version
from service.rpc.guards import Handler, guarded, is_ours
from service.rpc.quotas import Account, Quota

MIN_KEY_BYTES = 16  # shorter ones can be guessed
_LOOK_SECONDS = 1.0  # a file is looked at no more often
_LIMITS = ("concurrent", "tokens_per_minute")
_LARGEST_LIMIT = 10**9


_log = logging.getLogger(__name__)


class Key(NamedTuple):
    """A line of the file."""

    secret: bytes
    tenant: str = ""  # "": a tenant of its own
    quota: Quota = Quota()


class ApiKeysError(ValueError):
    """The file has no keys, or one that is none; the message says where and never what."""


class ApiKeys(grpc.aio.ServerInterceptor):
    """Refuses calls of our services without a known key. Health and reflection stay open."""

    def __init__(
        self, keys: Iterable[Key], reread: Callable[[], Sequence[Key] | None] = lambda: None
    ) -> None:
        """``reread`` is asked before each call for the keys, if they are others by now."""
        self._reread = reread
        self._accounts: list[tuple[bytes, Account]] = []
        self._by_name: dict[str | bytes, Account] = {}
        self.replace(keys)

    def replace(self, keys: Iterable[Key]) -> None:
        """From now on these: an account for each tenant, and for each key without one.

        An account that stays keeps what it has used, under its new limits.
        """
        keys = list(keys)
        quotas = {key.tenant: key.quota for key in keys if key.tenant and key.quota != Quota()}
        before, self._by_name, self._accounts = self._by_name, {}, []
        for key in keys:
            digest = _digest(key.secret)
            name = key.tenant or digest
            quota = quotas.get(key.tenant, Quota()) if key.tenant else key.quota
            if name not in self._by_name:
                self._by_name[name] = before.get(name) or Account(quota)
                self._by_name[name].limit(quota)
            self._accounts.append((digest, self._by_name[name]))

    @override
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        if handler is None or not is_ours(handler_call_details):
            return handler
        if (keys := self._reread()) is not None:
            self.replace(keys)
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


class KeyFile:
    """A file of keys that may be replaced while the server runs."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises ApiKeysError, OSError."""
        self._path = path
        self._clock = clock
        self._seen = version(path)  # before reading: what changes meanwhile is read again
        self._looked = clock()
        self.keys = read_keys(path)

    def reread(self) -> list[Key] | None:
        """The keys, if the file has others than when last asked; a bad file is no change."""
        now = self._clock()
        if now - self._looked < _LOOK_SECONDS:
            return None
        self._looked = now
        found = version(self._path)
        if found == self._seen:
            return None
        self._seen = found
        try:
            self.keys = read_keys(self._path)
        except (ApiKeysError, OSError) as error:
            _log.error("the API keys in use stay: %s", error)
            return None
        _log.info("%d API keys from now on", len(self.keys))
        return self.keys


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
