"""What the code may import: exact lists, where import-linter can only forbid."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OURS = {"grammar", "service"}
CLIENT = ROOT / "clients/python"

# Import name -> distribution, where they differ.
DISTRIBUTIONS = {
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
    "google.protobuf": "protobuf",
    "prometheus_client": "prometheus-client",
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


def test_the_client_imports_what_it_declares_and_nothing_of_ours():
    project = tomllib.loads((CLIENT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[^\w-]", each)[0] for each in project["dependencies"]}
    optional = {name for extra in project["optional-dependencies"].values() for name in extra}
    for name, where in imported("clients/python/src").items():
        if name.startswith("pydantic"):
            assert {path.name for path in where} == {"pydantic_types.py"}
            assert any(each.startswith("pydantic") for each in optional)
        elif name != "syntaxd_client":
            assert DISTRIBUTIONS.get(name, name) in needed, (name, where)


def test_the_versions_that_committed_stubs_ask_for_are_those_declared():
    stub = (CLIENT / "src/syntaxd_client/pb/v1/model_pb2_grpc.py").read_text()
    (grpc_version,) = re.findall(r"GRPC_GENERATED_VERSION = '([\d.]+)'", stub)
    messages = (CLIENT / "src/syntaxd_client/pb/v1/model_pb2.py").read_text()
    (protobuf_version,) = re.findall(r"# Protobuf Python Version: ([\d.]+)", messages)
    for path in (ROOT / "pyproject.toml", CLIENT / "pyproject.toml"):
        text = path.read_text()
        assert f'"grpcio>={grpc_version},<2"' in text
        assert f'"protobuf>={protobuf_version},<8"' in text


@pytest.mark.parametrize(
    ("path", "end"),
    [("pyproject.toml", "[project.scripts]"), ("clients/python/pyproject.toml", "[project.opt")],
)
def test_every_dependency_has_its_reason_beside_it(path, end):
    text = (ROOT / path).read_text()
    block = text[text.index("dependencies = [") : text.index(end)]
    for line in block.splitlines():
        if line.lstrip().startswith('"'):
            assert "# " in line, line
