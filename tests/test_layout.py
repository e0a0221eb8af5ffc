"""What the code may import: exact lists, where import-linter can only forbid."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OURS = {"grammar", "service"}

# Import name -> distribution, where they differ.
DISTRIBUTIONS = {
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
    "google.protobuf": "protobuf",
    "google.rpc": "googleapis-common-protos",
    "typing_extensions": "typing-extensions",
    "huggingface_hub": "huggingface-hub",
}


def imported(package: str) -> dict[str, set[Path]]:
    """Top-level names (two levels for google) that a package's modules import, and where."""
    found: dict[str, set[Path]] = {}
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                assert node.module
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            for name in names:
                parts = name.split(".")
                top = ".".join(parts[: 2 if parts[0] == "google" else 1])
                if parts[0] not in sys.stdlib_module_names:
                    found.setdefault(top, set()).add(path.relative_to(ROOT))
    return found


def test_grammar_imports_numpy_and_numba_and_nothing_else():
    assert imported("grammar").keys() <= {"grammar", "numpy", "numba"}


@pytest.mark.parametrize("package", sorted(OURS))
def test_what_is_imported_is_declared(package):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"[^\w-]", each)[0] for each in project["dependencies"]}
    for name, where in imported(package).items():
        if name not in OURS:
            assert DISTRIBUTIONS.get(name, name) in declared, (name, where)


def test_every_dependency_has_its_reason_beside_it():
    text = (ROOT / "pyproject.toml").read_text()
    block = text[text.index("dependencies = [") : text.index("[project.scripts]")]
    for line in block.splitlines():
        if line.lstrip().startswith('"'):
            assert "# " in line, line
