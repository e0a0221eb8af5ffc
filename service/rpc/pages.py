"""Lists a page at a time, as google.aip.dev/158 has it."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from service.errors import InvalidRequest

MAX_PAGE_SIZE = 100


class Page(NamedTuple):
    """Where a page lies in its list, and the token for the next one ("": there is none)."""

    start: int
    end: int
    next_token: str


def page(items: Sequence[str], size: int, token: str) -> Page:
    """The page of a list of distinct names that a request asks for.

    A token holds a place and a checksum of the list, so one of another list, or of this one
    before it changed, is refused. Raises InvalidRequest.
    """
    if size < 0:
        raise InvalidRequest("page_size", f"{size} is less than 0")
    start = _place(items, token) if token else 0
    end = start + min(size or MAX_PAGE_SIZE, MAX_PAGE_SIZE)
    return Page(start, min(end, len(items)), _token(items, end) if end < len(items) else "")


def _token(items: Sequence[str], place: int) -> str:
    return base64.urlsafe_b64encode(f"{place}:{_checksum(items)}".encode()).decode()


def _place(items: Sequence[str], token: str) -> int:
    try:
        text = base64.urlsafe_b64decode(token.encode()).decode()
        place = int(text.partition(":")[0])
    except (binascii.Error, ValueError):
        place = -1
    if not 0 < place < len(items) or token != _token(items, place):
        raise InvalidRequest("page_token", "is none that this server gave; begin without it")
    return place


def _checksum(items: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(items).encode()).hexdigest()[:16]
