"""Files that are replaced while the server runs."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

Version: TypeAlias = tuple[int, ...] | None


def version(path: Path) -> Version:
    """What tells one version of a file from another; None: it is not there.

    Links are followed: a mounted secret is replaced by turning one.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
