"""Room for a number of calls at a time; one more is refused at once."""

from __future__ import annotations

from types import TracebackType

from service.errors import Busy


class Places:
    """``with places:`` holds one. Raises Busy (QUEUE_FULL) on entering when all are taken."""

    def __init__(self, number: int, what: str) -> None:
        """``what``: of whose kind the calls are, for the message."""
        self._number = number
        self._what = what
        self._taken = 0

    def __enter__(self) -> None:
        if self._taken >= self._number:
            raise Busy(
                "QUEUE_FULL",
                f"{self._number} {self._what}, the most this server accepts at a time",
                retry_after_s=1.0,
                quota=self._what,
            )
        self._taken += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._taken -= 1
