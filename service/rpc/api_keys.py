"""Who may call: holders of a key from a file, sent as metadata ``authorization: Bearer KEY``.

The file has one key a line; empty lines and lines that begin with ``#`` do not count. In memory
there are only digests of the keys, and a key is compared with all of them in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import grpc
from typing_extensions import override

from service.errors import Code, ServiceError
from service.rpc.answering import Context
from service.rpc.convert import status
from service.rpc.guards import Handler, guarded, is_ours

MIN_KEY_BYTES = 16  # shorter ones can be guessed


class ApiKeysError(ValueError):
    """The file has no keys, or one that is none; the message says where and never what."""


class ApiKeys(grpc.aio.ServerInterceptor):
    """Refuses calls of our services without a known key. Health and reflection stay open."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        self._digests = [_digest(key) for key in keys]

    @override
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        if handler is None or not is_ours(handler_call_details):
            return handler
        if self._is_known(_presented(handler_call_details.invocation_metadata)):
            return handler
        return guarded(handler, _refuse, lambda data: data)  # nothing of theirs is parsed

    def _is_known(self, key: bytes) -> bool:
        digest, found = _digest(key), False
        for known in self._digests:  # all of them: the time says nothing about which
            found |= hmac.compare_digest(known, digest)
        return found


def read_keys(path: Path) -> list[bytes]:
    """The keys of a file. Raises ApiKeysError, OSError."""
    keys = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        key = line.strip()
        if not key or key.startswith(b"#"):
            continue
        if len(key) < MIN_KEY_BYTES or not all(33 <= each <= 126 for each in key):
            raise ApiKeysError(
                f"{path}, line {number}: a key has at least {MIN_KEY_BYTES} printable ASCII "
                "characters and no space"
            )
        keys.append(key)
    if not keys:
        raise ApiKeysError(f"{path}: has no key")
    return keys


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
