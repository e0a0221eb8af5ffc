"""How the engine judges the official suite and the reported cases, beside what is right.

    python -m tests.verdicts          # rewrites tests/data/suite/*.json from what is refused now

The files list what is refused (``uncovered``), so that a schema that newly compiles, or newly does
not, shows as a difference. A wrong verdict is never written there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grammar
from benchmarks.suite import accepts, byte_vocabulary, compile_schema
from tests import shared_data

__all__ = ["accepts", "byte_vocabulary", "compile_schema"]

DATA = Path(__file__).parent / "data" / "suite"
SUITE_UNCOVERED = DATA / "uncovered.json"  # file -> descriptions of the refused groups
REPORTED_UNCOVERED = DATA / "uncovered_reported.json"  # id -> what is missing
DISAGREEMENTS = DATA / "disagreements.json"  # file -> test -> why we reject a valid instance


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
    suite = {file: shared_data.suite.judge(file) for file in shared_data.suite_files()}
    _write(SUITE_UNCOVERED, {file: [*got.refused] for file, got in suite.items() if got.refused})
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
