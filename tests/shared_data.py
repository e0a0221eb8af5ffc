"""The data that lies beside the repository: where it is, and how it is read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.suite import Suite

ROOT = Path(__file__).resolve().parents[2] / "shared"
SUITE = ROOT / "data" / "json-schema-test-suite"
MASKBENCH = ROOT / "data" / "maskbench.jsonl.xz"
REPORTED = ROOT / "cases" / "reported.json"

suite = Suite(SUITE)


def need(path: Path) -> Path:
    """``path`` if it is there; else the test is skipped, or fails in CI."""
    if not path.exists():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{path} is absent, and this is CI")
        pytest.skip(f"no {path}: the shared data lies beside the repository")
    return path


def suite_files() -> list[str]:
    """``draft7/allOf.json`` ...: required files and those of the optional formats."""
    return sorted([*suite.files("required"), *suite.files("format")])


def reported_cases() -> list[dict[str, Any]]:
    """Inputs that users of other engines reported as broken."""
    cases: list[dict[str, Any]] = json.loads(REPORTED.read_text(encoding="utf-8"))
    return cases
