"""Python's garbage collector where others wait for the interpreter's lock.

A collection stops every thread of the process. By default one follows each 700 new objects, and
compiling a schema of two megabytes makes a million: it took three times as long, and the event
loop beside it stood still for a second at a time instead of 40 ms (measured). What is compiled has
no reference cycles and is freed without the collector, so it may come seldom.
"""

from __future__ import annotations

import gc
import sys

_THRESHOLDS = (5_000, 100, 50)  # objects; collections of the youngest; of the middle generation
_SWITCH_SECONDS = 0.001  # how long a thread keeps the interpreter's lock from one that waits


def settle() -> None:
    """Call when everything that stays is loaded: it is never looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    sys.setswitchinterval(_SWITCH_SECONDS)


def unsettle() -> None:
    """Call before the process ends, so that what ``settle`` put aside is freed with the rest.

    Else libraries that count their objects (nanobind, in triton, which torch imports) report them
    as leaked, on standard error.
    """
    gc.unfreeze()
