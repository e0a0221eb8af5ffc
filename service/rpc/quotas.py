"""How much of the server one tenant may have: generations at a time, and tokens a minute.

Tokens are paid for afterwards: what an accepted generation takes is never cut, and who is in debt
waits until it is paid off. Nobody knows before how long an answer gets, and a reservation of
``max_tokens`` would refuse most callers for tokens that they do not use.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from service.errors import Busy

_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Quota:
    """None: no limit."""

    concurrent: int | None = None  # generations running and waiting
    tokens_per_minute: int | None = None  # of prompts and answers together


class Account:
    """One tenant's. Used from the event loop alone."""

    def __init__(self, quota: Quota, clock: Callable[[], float] = time.monotonic) -> None:
        self.quota = quota
        self._clock = clock
        self._running = 0
        self._credit = float(quota.tokens_per_minute or 0)  # a minute's worth at the most
        self._counted = clock()  # when the credit was as it says

    def limit(self, quota: Quota) -> None:
        """Another quota, also for those that run; another rate begins with a full minute."""
        if quota.tokens_per_minute != self.quota.tokens_per_minute:
            self._credit, self._counted = float(quota.tokens_per_minute or 0), self._clock()
        self.quota = quota

    def enter(self) -> Ticket:
        """Accepts a generation. Raises Busy."""
        most = self.quota.concurrent
        if most is not None and self._running >= most:
            raise _over(
                f"{most} generations of this API key's tenant run or wait, the most it may have",
                "generations of a tenant at a time",
                retry_after_s=1.0,
            )
        if self.quota.tokens_per_minute:
            self._earn()
            if self._credit < 1:
                raise _over(
                    f"this API key's tenant has used its {self.quota.tokens_per_minute} tokens a "
                    "minute",
                    "tokens of a tenant a minute",
                    retry_after_s=(1 - self._credit) * _MINUTE / self.quota.tokens_per_minute,
                )
        self._running += 1
        return Ticket(self)

    def spend(self, num_tokens: int) -> None:
        """Takes tokens off; the credit may become a debt."""
        if self.quota.tokens_per_minute:
            self._earn()
            self._credit -= num_tokens

    def leave(self) -> None:
        """One generation less."""
        self._running -= 1

    def _earn(self) -> None:
        assert self.quota.tokens_per_minute, "asked for by those with a limit"
        now = self._clock()
        earned = (now - self._counted) * self.quota.tokens_per_minute / _MINUTE
        self._credit = min(self._credit + earned, float(self.quota.tokens_per_minute))
        self._counted = now


class Ticket:
    """One generation's place in an account; of none, without an account."""

    def __init__(self, account: Account | None) -> None:
        self._account = account
        self._has_left = False

    def spend(self, num_tokens: int) -> None:
        """The generation has taken so many tokens more."""
        if self._account:
            self._account.spend(num_tokens)

    def leave(self) -> None:
        """The generation has ended. Idempotent."""
        if self._account and not self._has_left:
            self._account.leave()
        self._has_left = True


def _over(message: str, quota: str, *, retry_after_s: float) -> Busy:
    return Busy("QUOTA", message, retry_after_s=retry_after_s, quota=quota)
