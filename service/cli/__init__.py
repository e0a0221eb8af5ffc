"""The console script ``syntaxd``."""
