"""How the engine judges the official suite and the reported cases, beside what is right.

    python -m tests.verdicts          # rewrites tests/data/suite/*.json from what is refused now

The files list what is refused (``uncovered``), so that a schema that newly compiles, or newly does
not, shows as a difference. A wrong verdict is never written there.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grammar
from tests import shared_data

DATA = Path(__file__).parent / "data" / "suite"
SUITE_UNCOVERED = DATA / "uncovered.json"  # file -> descriptions of the refused groups
REPORTED_UNCOVERED = DATA / "uncovered_reported.json"  # id -> what is missing
DISAGREEMENTS = DATA / "disagreements.json"  # file -> test -> why we reject a valid instance


@dataclass(slots=True)
class Verdicts:
    """Of one file of the suite."""

    refused: list[str] = field(default_factory=list)  # descriptions of groups
    valid_rejected: list[str] = field(default_factory=list)  # "group / test"
    invalid_accepted: list[str] = field(default_factory=list)


@functools.cache
def byte_vocabulary() -> grammar.Vocabulary:
    """A token for every byte, and EOS: the language without any tokenizer's limits."""
    return grammar.Vocabulary([bytes([byte]) for byte in range(256)] + [None], (256,), (256,))


def accepts(compiled: grammar.Grammar, text: str) -> bool:
    """Whether ``text`` may be generated, byte by byte, and end there."""
    matcher = compiled.matcher()
    data = text.encode("utf-8", "surrogatepass")
    return matcher.advance_bytes(data) == len(data) and matcher.is_complete


def compile_schema(schema: Any, **options: Any) -> grammar.Grammar:
    """For judging somebody else's text. Raises GrammarError."""
    return grammar.compile_json_schema(
        json.dumps(schema), byte_vocabulary(), options=grammar.JsonOptions.recognise(**options)
    )


def judge_file(file: str) -> Verdicts:
    """Every test of one file of the suite; formats are enforced in the files about formats."""
    formats = "enforce" if "optional/format/" in file else "annotate"
    verdicts = Verdicts()
    for group in shared_data.suite_groups(file):
        try:
            compiled = compile_schema(
                group.schema, formats=formats, remote_schemas=shared_data.suite_remotes()
            )
        except grammar.Unsatisfiable:
            # Not refused but decided: no instance at all.
            decided = dict.fromkeys(range(len(group.tests)), False)
        except grammar.GrammarError:
            verdicts.refused.append(group.description)
            continue
        else:
            decided = {
                number: accepts(compiled, json.dumps(test["data"], ensure_ascii=False))
                for number, test in enumerate(group.tests)
            }
        for number, test in enumerate(group.tests):
            if decided[number] == test["valid"]:
                continue
            wrong = verdicts.valid_rejected if test["valid"] else verdicts.invalid_accepted
            wrong.append(f"{group.description} / {test['description']}")
    return verdicts


def reported_refusal(case: dict[str, Any]) -> str:
    """Why the engine refuses a reported case; "" when it does not."""
    try:
        compile_reported(case)
    except grammar.Unsatisfiable:
        return "" if case.get("unsat") else "unsatisfiable"
    except grammar.UnsupportedError as error:
        return error.keyword
    return ""


def compile_reported(case: dict[str, Any]) -> grammar.Grammar:
    """Compiles a case for judging text. Raises GrammarError."""
    match case["kind"]:
        case "json":
            return compile_schema(case["schema"])
        case "regex":
            return grammar.compile_regex(case["pattern"], byte_vocabulary())
        case kind:
            raise grammar.UnsupportedError(f"{kind} is not a kind of constraint", keyword=kind)


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    DATA.mkdir(parents=True, exist_ok=True)
    suite = {file: judge_file(file) for file in shared_data.suite_files()}
    _write(SUITE_UNCOVERED, {file: got.refused for file, got in suite.items() if got.refused})
    cases = shared_data.reported_cases()
    refusals = {case["id"]: reported_refusal(case) for case in cases}
    _write(REPORTED_UNCOVERED, {name: why for name, why in refusals.items() if why})
    groups = sum(len(got.refused) for got in suite.values())
    print(f"refused: {groups} groups of the suite, {sum(map(bool, refusals.values()))} reported")
    excused = read(DISAGREEMENTS)
    for file, got in suite.items():
        for test in got.invalid_accepted:
            print(f"invalid accepted: {file}: {test}")
        for test in set(got.valid_rejected) ^ set(excused.get(file, ())):
            print(f"valid rejected, or a row of {DISAGREEMENTS.name} too many: {file}: {test}")


if __name__ == "__main__":
    main()
