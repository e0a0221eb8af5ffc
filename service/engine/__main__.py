"""``python -m service.engine FD``: the engine process; its socket is the open file FD."""

from __future__ import annotations

import signal
import socket
import sys

from service import logs
from service.engine import garbage
from service.engine.process import serve


def main() -> int:
    """Serves the front on the inherited socket."""
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.stderr.write("the engine process is started by 'syntaxd serve', not by hand\n")
        return 2
    # Ctrl-C in a terminal and a supervisor's SIGTERM reach both processes; the front lets running
    # requests end, and this one ends when the front's socket closes.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    logs.set_up("info", "text", "engine")  # until the front says otherwise
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        try:
            return serve(connection)
        finally:
            garbage.unsettle()


if __name__ == "__main__":
    sys.exit(main())
