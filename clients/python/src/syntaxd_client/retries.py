"""When a call is sent again by itself: gRPC's own retries, set up by a service config.

A call is repeated while nothing of its answer has arrived and the server says UNAVAILABLE or
RESOURCE_EXHAUSTED. The server's word counts: it says in its trailers when to come back
(``grpc-retry-pushback-ms``, the same time as RetryInfo, a little spread), or that this request
would be refused again. Where it says nothing, because nobody listens there, pauses double.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

SERVICES = ("GenerationService", "ConstraintService", "ModelService")
RETRYABLE = ("UNAVAILABLE", "RESOURCE_EXHAUSTED")
_MOST_ATTEMPTS = 5  # gRPC makes no more, whatever it is told

# Requests up to this size are kept to be sent again: as large as the server takes by default.
KEPT_REQUEST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often and how soon. Raises ValueError for what gRPC would not take."""

    max_attempts: int = 4
    """The first one included; 2 to 5."""
    initial_backoff: float = 0.2
    """Seconds before the second attempt, about, where the server names no time."""
    max_backoff: float = 5.0
    """The longest such pause, in seconds."""
    multiplier: float = 2.0
    """By which each is longer than the one before."""

    def __post_init__(self) -> None:
        if not 2 <= self.max_attempts <= _MOST_ATTEMPTS:
            raise ValueError(f"max_attempts: {self.max_attempts} is not in 2..{_MOST_ATTEMPTS}")
        for name in ("initial_backoff", "max_backoff", "multiplier"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name}: {getattr(self, name)} is not a positive number")

    def service_config(self) -> str:
        """As JSON, for the channel argument ``grpc.service_config``."""
        policy = {
            "maxAttempts": self.max_attempts,
            "initialBackoff": f"{self.initial_backoff:.3f}s",
            "maxBackoff": f"{self.max_backoff:.3f}s",
            "backoffMultiplier": self.multiplier,
            "retryableStatusCodes": list(RETRYABLE),
        }
        names = [{"service": f"syntaxd.v1.{name}"} for name in SERVICES]
        # Where most calls fail, repeating them only adds to the load: gRPC then stops.
        throttling = {"maxTokens": 20, "tokenRatio": 0.5}
        config = {
            "methodConfig": [{"name": names, "retryPolicy": policy}],
            "retryThrottling": throttling,
        }
        return json.dumps(config)


DEFAULT_RETRY = Retry()
