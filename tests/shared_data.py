"""The data that lies beside the repository: where it is, and how it is read."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema_specifications  # type: ignore[import-untyped]
import pytest

ROOT = Path(__file__).resolve().parents[2] / "shared"
SUITE = ROOT / "data" / "json-schema-test-suite"
MASKBENCH = ROOT / "data" / "maskbench.jsonl.xz"
REPORTED = ROOT / "cases" / "reported.json"

DIALECTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}


def need(path: Path) -> Path:
    """``path`` if it is there; else the test is skipped, or fails in CI."""
    if not path.exists():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{path} is absent, and this is CI")
        pytest.skip(f"no {path}: the shared data lies beside the repository")
    return path


@dataclass(frozen=True, slots=True)
class Group:
    """A schema of the official suite and what it says of some instances."""

    description: str
    schema: Any  # with the draft's ``$schema`` if it is an object without one
    tests: tuple[dict[str, Any], ...]  # description, data, valid


def suite_files() -> list[str]:
    """``draft7/allOf.json`` ...: required files and those of the optional formats."""
    return sorted(
        path.relative_to(SUITE / "tests").as_posix()
        for draft in DIALECTS
        for part in ("*.json", "optional/format/*.json")
        for path in (SUITE / "tests" / draft).glob(part)
    )


def suite_groups(file: str) -> Iterator[Group]:
    """The groups of one file, as ``suite_files`` names it."""
    dialect = DIALECTS[file.split("/")[0]]
    for group in json.loads((SUITE / "tests" / file).read_text(encoding="utf-8")):
        schema = group["schema"]
        if isinstance(schema, dict) and "$schema" not in schema:
            schema = {"$schema": dialect} | schema
        yield Group(group["description"], schema, tuple(group["tests"]))


@functools.cache
def suite_remotes() -> dict[str, Any]:
    """URI -> schema: what the suite serves at localhost:1234, and the meta-schemas."""
    folder = SUITE / "remotes"
    remotes = {
        f"http://localhost:1234/{path.relative_to(folder).as_posix()}": json.loads(
            path.read_text(encoding="utf-8")
        )
        for path in folder.rglob("*.json")
    }
    registry = jsonschema_specifications.REGISTRY
    return remotes | {uri: registry.contents(uri) for uri in registry}


def reported_cases() -> list[dict[str, Any]]:
    """Inputs that users of other engines reported as broken."""
    cases: list[dict[str, Any]] = json.loads(REPORTED.read_text(encoding="utf-8"))
    return cases
