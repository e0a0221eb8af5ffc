"""Compiles hostile constraints with 512 MB of memory to spare, and writes what became of each.

A program of its own, for ``test_hostile_memory``: a limit of memory holds for a whole process.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np

import grammar

SPARE = 512 << 20


def chain(length: int, link: str) -> dict[str, Any]:
    """References one after the other."""
    defs: dict[str, Any] = {}
    for i in range(length):
        ref = {"$ref": f"#/$defs/d{i + 1}"}
        defs[f"d{i}"] = ref if link == "ref" else {"allOf": [ref, {"required": [f"k{i}"]}]}
    return {"$defs": defs | {f"d{length}": {"type": "object"}}, "$ref": "#/$defs/d0"}


def nested(keyword: str, depth: int) -> Any:
    """Each level has the one below and a branch of its own."""
    schema: Any = {"type": "object"}
    for i in range(depth):
        schema = {keyword: [schema, {"type": "object", "required": [f"k{i}"]}]}
    return schema


def shared(keyword: str, depth: int) -> Any:
    """Each level leads to the one below twice: 2 ** depth ways down."""
    defs: dict[str, Any] = {f"d{depth}": {"type": "object"}}
    for i in range(depth):
        ref = {"$ref": f"#/$defs/d{i + 1}"}
        defs[f"d{i}"] = {keyword: [ref, {"required": [f"a{i}"], "allOf": [ref]}]}
    return {"$defs": defs, "$ref": "#/$defs/d0"}


def conditions(depth: int) -> Any:
    schema: Any = {"type": "object"}
    for i in range(depth):
        schema = {"if": schema, "then": {"required": [f"t{i}"]}, "else": {"required": [f"e{i}"]}}
    return schema


NAMES = [f"property {i}" for i in range(22_000)]
PATTERNS = {
    "a huge count": "a{1000000}",
    "counts of counts": "((a{1,50}){1,50}){1,50}",
    "a blow-up": "(a|b)*a(a|b){18}",
    "wide counted classes": r"[^\n\r]{1,5000}",
    "10,000 parentheses": "(" * 10_000 + "a" + ")" * 10_000,
    "ten looks ahead": "^" + "".join(f"(?=.*{letter})" for letter in "abcdefghij") + ".*$",
}
SCHEMAS: dict[str, Any] = {
    **{f"{keyword} 20 deep": nested(keyword, 20) for keyword in ("oneOf", "anyOf")},
    **{f"{keyword} 2^20 ways": shared(keyword, 20) for keyword in ("oneOf", "anyOf", "allOf")},
    "if 20 deep": conditions(20),
    "maxItems": {"type": "array", "maxItems": 2**64 - 1, "items": {"type": "string"}},
    "minItems": {"type": "array", "minItems": 2**64 - 1},
    "minContains": {"type": "array", "contains": {"const": 1}, "minContains": 2**64 - 1},
    "minProperties": {"type": "object", "minProperties": 2**64 - 1},
    "maxLength": {"type": "string", "maxLength": 2**64 - 1},
    "enum of 5,000": {"enum": [f"value {i}" for i in range(5_000)]},
    "not one of 5,000": {"type": "string", "not": {"enum": [f"value {i}" for i in range(5_000)]}},
    "2 MB of properties": {
        "type": "object",
        "properties": {name: {"title": "x" * 45, "type": "string"} for name in NAMES},
    },
    "2 MB of branches": {"anyOf": [{"type": "object", "required": [name * 4]} for name in NAMES]},
    "10,000 references": chain(10_000, "ref"),
    "10,000 references and demands": chain(10_000, "allOf"),
    **{name: {"type": "string", "pattern": pattern} for name, pattern in PATTERNS.items()},
}  # fmt: skip


def main(vocabulary: grammar.Vocabulary) -> None:
    grammar.warmup()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE, used + SPARE))
    row = np.zeros(vocabulary.words, dtype=np.uint32)
    for name, schema in SCHEMAS.items():
        try:
            compiled = grammar.compile_json_schema(json.dumps(schema), vocabulary)
            compiled.matcher().fill_mask(row)
            outcome = "works" if row.any() else "dead"
        except grammar.TooComplex as error:
            outcome = f"refused {error.limit}"
        except grammar.Unsatisfiable:
            outcome = "refused unsatisfiable"
        except MemoryError:
            outcome = "out of memory"
        json.dump([name, outcome], sys.stdout)
        print(flush=True)


if __name__ == "__main__":
    main(grammar.Vocabulary([bytes([byte]) for byte in range(256)] + [None], (256,)))
