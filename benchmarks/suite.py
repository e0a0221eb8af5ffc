"""The official JSON Schema test suite: its files, and what the engine says of each test.

Tests and ``bench_suite`` judge by the same rules: a schema that is refused is no verdict, one that
nothing satisfies is (every instance is invalid), and a text is accepted when it may be generated
byte by byte, in any order of keys and any spacing, and may end there.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import jsonschema_specifications  # type: ignore[import-untyped]

import grammar

DIALECTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
Part = Literal["required", "format", "optional"]
PATTERNS: dict[Part, str] = {
    "required": "*.json",
    "format": "optional/format/*.json",
    "optional": "optional/*.json",
}


@dataclass(frozen=True, slots=True)
class Group:
    """A schema of the suite and what the suite says of some instances."""

    description: str
    schema: Any  # with the draft's ``$schema`` if it is an object without one
    tests: tuple[dict[str, Any], ...]  # description, data, valid


@dataclass(slots=True)
class Verdicts:
    """Of one file, or of several added up."""

    right: int = 0
    refused: dict[str, str] = field(default_factory=dict)  # description of a group -> reason
    refused_tests: int = 0
    valid_rejected: list[str] = field(default_factory=list)  # "group / test"
    invalid_accepted: list[str] = field(default_factory=list)

    @property
    def tests(self) -> int:
        wrong = len(self.valid_rejected) + len(self.invalid_accepted)
        return self.right + self.refused_tests + wrong

    def __add__(self, other: Verdicts) -> Verdicts:
        return Verdicts(
            self.right + other.right,
            self.refused | other.refused,
            self.refused_tests + other.refused_tests,
            self.valid_rejected + other.valid_rejected,
            self.invalid_accepted + other.invalid_accepted,
        )


class Suite:
    """A checkout of the suite: ``tests/`` and ``remotes/``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def files(self, part: Part, draft: str = "*") -> list[str]:
        """``draft7/allOf.json`` ..., sorted."""
        tests = self._folder / "tests"
        return sorted(
            path.relative_to(tests).as_posix()
            for name in DIALECTS
            if draft in ("*", name)
            for path in (tests / name).glob(PATTERNS[part])
        )

    def groups(self, file: str) -> Iterator[Group]:
        """The groups of one file, as ``files`` names it."""
        dialect = DIALECTS[file.split("/")[0]]
        path = self._folder / "tests" / file
        for group in json.loads(path.read_text(encoding="utf-8")):
            schema = group["schema"]
            if isinstance(schema, dict) and "$schema" not in schema:
                schema = {"$schema": dialect} | schema
            yield Group(group["description"], schema, tuple(group["tests"]))

    @functools.cached_property
    def remotes(self) -> dict[str, Any]:
        """URI -> schema: what the suite serves at localhost:1234, and the meta-schemas."""
        folder = self._folder / "remotes"
        remotes = {
            f"http://localhost:1234/{path.relative_to(folder).as_posix()}": json.loads(
                path.read_text(encoding="utf-8")
            )
            for path in folder.rglob("*.json")
        }
        registry = jsonschema_specifications.REGISTRY
        return remotes | {uri: registry.contents(uri) for uri in registry}

    def judge(self, file: str) -> Verdicts:
        """Every test of one file; formats are enforced in the files about formats."""
        formats = "enforce" if "optional/format" in file else "annotate"
        verdicts = Verdicts()
        for group in self.groups(file):
            try:
                decided = self._decide(group, formats)
            except grammar.GrammarError as error:
                verdicts.refused[group.description] = f"{type(error).__name__}: {error}"
                verdicts.refused_tests += len(group.tests)
                continue
            for test, accepted in zip(group.tests, decided, strict=True):
                name = f"{group.description} / {test['description']}"
                if accepted == test["valid"]:
                    verdicts.right += 1
                elif accepted:
                    verdicts.invalid_accepted.append(name)
                else:
                    verdicts.valid_rejected.append(name)
        return verdicts

    def _decide(self, group: Group, formats: str) -> list[bool]:
        try:
            compiled = compile_schema(group.schema, formats=formats, remote_schemas=self.remotes)
        except grammar.Unsatisfiable:
            return [False] * len(group.tests)
        return [
            accepts(compiled, json.dumps(test["data"], ensure_ascii=False)) for test in group.tests
        ]


@functools.cache
def byte_vocabulary() -> grammar.Vocabulary:
    """A token for every byte, and EOS: the language without any tokenizer's limits."""
    return grammar.Vocabulary([bytes([byte]) for byte in range(256)] + [None], (256,), (256,))


def compile_schema(schema: Any, **options: Any) -> grammar.Grammar:
    """For judging somebody else's text. Raises GrammarError."""
    return grammar.compile_json_schema(
        json.dumps(schema), byte_vocabulary(), options=grammar.JsonOptions.recognise(**options)
    )


def accepts(compiled: grammar.Grammar, text: str) -> bool:
    """Whether ``text`` may be generated, byte by byte, and end there."""
    matcher = compiled.matcher()
    data = text.encode("utf-8", "surrogatepass")
    return matcher.advance_bytes(data) == len(data) and matcher.is_complete
