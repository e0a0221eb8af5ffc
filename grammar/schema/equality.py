"""When two JSON values are the same (JSON Schema core, section 4.2.2)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any


def json_key(value: Any) -> Any:
    """A hashable key: equal exactly for equal JSON values (1 = 1.0, true != 1).

    Decimals compare by value at any length; ``normalize`` would round them to 28 digits.
    """
    if isinstance(value, bool) or value is None:
        return ("constant", value)
    if isinstance(value, int | Decimal):
        return ("number", Decimal(value))
    if isinstance(value, str):
        return ("string", value)
    if isinstance(value, list):
        return ("array", tuple(map(json_key, value)))  # one Python frame for each level
    return ("object", frozenset(zip(value, map(json_key, value.values()), strict=True)))
