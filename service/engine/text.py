"""Token bytes to text: whole characters only. A token may end inside one."""

from __future__ import annotations

import codecs


class Detokenizer:
    """Bytes in, whole UTF-8 characters out. Bytes that are no UTF-8 become U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, data: bytes) -> str:
        """The characters that ``data`` completes; an unfinished one waits (or never comes)."""
        return self._decoder.decode(data)
