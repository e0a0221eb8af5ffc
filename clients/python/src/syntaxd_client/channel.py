"""What both clients open a channel with."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import grpc

from syntaxd_client.retries import KEPT_REQUEST_BYTES, Retry

ChannelOptions: TypeAlias = Sequence[tuple[str, Any]]
"""gRPC channel arguments, such as ``("grpc.keepalive_time_ms", 30_000)``."""

Pem: TypeAlias = bytes | str | PathLike[str]
"""A PEM file's path, or what would stand in it as bytes."""

DEFAULT_ADDRESS = "127.0.0.1:50051"

# An answer with its tokens can be longer than gRPC's default of 4 MiB.
_MAX_ANSWER_BYTES = 64 << 20


def channel_options(given: ChannelOptions, retry: Retry | None) -> list[tuple[str, Any]]:
    """Ours, and the caller's after them: the last of a name counts."""
    ours: list[tuple[str, Any]] = [("grpc.max_receive_message_length", _MAX_ANSWER_BYTES)]
    if retry is None:
        ours.append(("grpc.enable_retries", 0))
    else:
        ours.append(("grpc.service_config", retry.service_config()))
        ours.append(("grpc.per_rpc_retry_buffer_size", KEPT_REQUEST_BYTES))
    return [*ours, *given]


def channel_credentials(
    given: grpc.ChannelCredentials | None,
    ca: Pem | None,
    certificate: Pem | None,
    key: Pem | None,
) -> grpc.ChannelCredentials | None:
    """Those of a channel with TLS, or None for one without. Raises TypeError, OSError."""
    if (certificate is None) != (key is None):
        raise TypeError("certificate and key go together")
    if certificate is not None and ca is None:
        raise TypeError("a client's certificate needs TLS: give the ca of the server too")
    if ca is None:
        return given
    if given is not None:
        raise TypeError("credentials and ca exclude each other")
    return grpc.ssl_channel_credentials(_read(ca), _read(key), _read(certificate))


def _read(pem: Pem | None) -> bytes | None:
    return pem if pem is None or isinstance(pem, bytes) else Path(pem).read_bytes()
