"""The engine's verdicts on the official JSON Schema test suite, draft by draft.

    python -m benchmarks.bench_suite --list

Required files with formats annotated, as the drafts have it since 2019-09 (a format says nothing
there), the files about formats with formats enforced, the other optional files for information.
Remote schemas and meta-schemas are given as a mapping: nothing is fetched. Ends with status 1 when
an invalid instance is accepted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.suite import DIALECTS, Part, Suite, Verdicts

HEADINGS = ("tests", "right", "refused", "accepts invalid", "rejects valid", "right %")


def main() -> None:
    options = parse()
    suite = Suite(options.data)
    wrong = 0
    parts: list[tuple[Part, str]] = [
        ("required", "Required files, formats annotated"),
        ("format", "Formats enforced, all drafts together"),
        ("optional", "Other optional files, formats annotated"),
    ]
    for part, title in parts:
        judged = {file: suite.judge(file) for file in suite.files(part)}
        rows = by_format(judged) if part == "format" else by_draft(judged)
        print(table(title, rows))
        if options.list:
            print("\n".join(failures(judged)))
        wrong += sum(len(verdicts.invalid_accepted) for verdicts in judged.values())
    sys.exit(wrong > 0)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("../shared/data/json-schema-test-suite"),
        help="folder with the suite's tests/ and remotes/",
    )
    parser.add_argument("--list", action="store_true", help="each test that is not right, and why")
    return parser.parse_args()


def by_draft(judged: Mapping[str, Verdicts]) -> dict[str, Verdicts]:
    return {
        draft: total(v for file, v in judged.items() if file.startswith(f"{draft}/"))
        for draft in DIALECTS
    }


def by_format(judged: Mapping[str, Verdicts]) -> dict[str, Verdicts]:
    names = sorted({Path(file).stem for file in judged})
    return {
        name: total(v for file, v in judged.items() if Path(file).stem == name) for name in names
    }


def total(verdicts: Iterable[Verdicts]) -> Verdicts:
    return sum(verdicts, start=Verdicts())


def table(title: str, rows: Mapping[str, Verdicts]) -> str:
    lines = [f"\n{title}", f"  {'':<24}" + "".join(f"{heading:>17}" for heading in HEADINGS)]
    for name, verdicts in [*rows.items(), ("all", total(rows.values()))]:
        counts = (
            verdicts.tests,
            verdicts.right,
            verdicts.refused_tests,
            len(verdicts.invalid_accepted),
            len(verdicts.valid_rejected),
        )
        share = 100 * verdicts.right / max(1, verdicts.tests)
        lines.append(f"  {name:<24}" + "".join(f"{n:>17,}" for n in counts) + f"{share:>17.2f}")
    return "\n".join(lines)


def failures(judged: Mapping[str, Verdicts]) -> Iterable[str]:
    for file, verdicts in judged.items():
        for test in verdicts.invalid_accepted:
            yield f"  {file}: ACCEPTS INVALID {test}"
        for test in verdicts.valid_rejected:
            yield f"  {file}: rejects valid {test}"
        for group, reason in verdicts.refused.items():
            yield f"  {file}: refused {group}: {reason}"


if __name__ == "__main__":
    main()
