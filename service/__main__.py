"""``python -m service`` is the console script ``syntaxd``."""

from __future__ import annotations

import sys

from service.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
