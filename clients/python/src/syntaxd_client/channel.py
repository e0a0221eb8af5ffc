"""What both clients open a channel with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

ChannelOptions: TypeAlias = Sequence[tuple[str, Any]]
"""gRPC channel arguments, such as ``("grpc.keepalive_time_ms", 30_000)``."""

DEFAULT_ADDRESS = "127.0.0.1:50051"

# An answer with its tokens can be longer than gRPC's default of 4 MiB.
_MAX_ANSWER_BYTES = 64 << 20


def channel_options(given: ChannelOptions) -> list[tuple[str, Any]]:
    """Ours, and the caller's after them: the last of a name counts."""
    return [("grpc.max_receive_message_length", _MAX_ANSWER_BYTES), *given]
