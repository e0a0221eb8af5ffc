"""A server of our own on a free loopback port, as a child process: for the demo and the tests."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parent.parent
_METRICS = re.compile(r"metrics on (?P<url>\S+)\n")
_ADMIN = re.compile(r"admin on (?P<address>\S+)\n")
_READY = re.compile(r"serving (?P<model>.+) on (?P<address>\S+)\n")


class LocalServer:
    """``with LocalServer("--max-rows", "2") as server:`` serves at ``server.address``.

    Enters once requests are accepted; raises RuntimeError if the server ends before. Its log goes
    to our standard error, or to the file ``log``.
    """

    address: str  # host:port
    model: str  # the name to use in requests
    metrics: str  # their URL, with --metrics
    admin: str  # host:port of AdminService, with a port of its own

    def __init__(self, *flags: str, log: Path | None = None) -> None:
        self._command = [sys.executable, "-m", "service", "serve", "--port", "0", *flags]
        self._log = log
        self.process: subprocess.Popen[str]

    def __enter__(self) -> Self:
        log = self._log.open("w") if self._log else None
        self.process = subprocess.Popen(
            self._command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True
        )
        if log:
            log.close()  # the child has its own
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if metrics := _METRICS.fullmatch(line):
                self.metrics = metrics["url"]
            if admin := _ADMIN.fullmatch(line):
                self.admin = admin["address"]
            if ready := _READY.fullmatch(line):
                self.address, self.model = ready["address"], ready["model"]
                return self
        said = self._log.read_text() if self._log else ""
        raise RuntimeError(f"the server ended with status {self.stop()} before it served\n{said}")

    def stop(self) -> int:
        """Asks it to stop and returns its exit status."""
        self.process.terminate()
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            if self.process.stdout:
                self.process.stdout.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
