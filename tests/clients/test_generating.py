"""The commands of clients/README.md, run; plugins of other languages stand in as recorders."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.compiler import plugin_pb2

from service.errors import Code

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "clients/README.md").read_text()
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
]

# A protoc plugin that writes its request down and generates one file for each that is asked of it.
RECORDER = f"""#!{sys.executable}
import pathlib, sys
from google.protobuf.compiler import plugin_pb2
data = sys.stdin.buffer.read()
pathlib.Path(sys.argv[0] + ".request").write_bytes(data)
request = plugin_pb2.CodeGeneratorRequest.FromString(data)
response = plugin_pb2.CodeGeneratorResponse(supported_features=1)
for name in request.file_to_generate:
    response.file.add(name=name + "." + pathlib.Path(sys.argv[0]).name, content="made")
sys.stdout.buffer.write(response.SerializeToString())
"""
PLUGINS = ("protoc-gen-go", "protoc-gen-go-grpc", "protoc-gen-es")


@pytest.fixture
def run(tmp_path):
    """Runs a command of the page with the recorders first on the PATH; returns both folders."""
    plugins, out = tmp_path / "plugins", tmp_path / "out"
    plugins.mkdir()
    out.mkdir()
    for name in PLUGINS:
        (plugins / name).write_text(RECORDER)
        (plugins / name).chmod(0o755)
    path = f"{plugins}:{Path(sys.executable).parent}:{os.environ['PATH']}"

    def do(command: str) -> tuple[Path, Path]:
        done = subprocess.run(
            ["bash", "-c", command.replace("OUT", str(out))],
            cwd=ROOT,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return plugins, out

    return do


def request(plugins: Path, name: str) -> plugin_pb2.CodeGeneratorRequest:
    data = (plugins / f"{name}.request").read_bytes()
    return plugin_pb2.CodeGeneratorRequest.FromString(data)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_makes_something_for_every_proto(run, command):
    _, out = run(command)
    made = " ".join(str(path.relative_to(out)) for path in out.rglob("*"))
    for proto in (ROOT / "proto").rglob("*.proto"):
        assert f"syntaxd/v1/{proto.stem}" in made


def test_go_files_have_a_package(run):
    (command,) = [each for each in COMMANDS if ".go." in each]
    plugins, _ = run(command)
    for name in ("protoc-gen-go", "protoc-gen-go-grpc"):
        asked = request(plugins, name)
        assert asked.parameter == "paths=source_relative"
        packages = {each.options.go_package for each in asked.proto_file}
        assert packages == {"example.com/you/gen/syntaxd/v1;syntaxdv1"}


def test_typescript_imports_name_files_that_node_finds(run):
    (command,) = [each for each in COMMANDS if ".typescript." in each]
    plugins, _ = run(command)
    assert "import_extension=js" in request(plugins, "protoc-gen-es").parameter


def test_python_stubs_can_be_imported(run, tmp_path):
    (command,) = [each for each in COMMANDS if "grpc_tools" in each]
    _, out = run(command)
    script = "from syntaxd.v1 import constraint_pb2_grpc as c; c.ConstraintServiceStub"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(out)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_retry_table_names_codes_and_reasons_of_the_contract():
    section = README[README.index("## When to try again") :]
    codes = {code.name for code in Code}
    contract = "".join(path.read_text() for path in (ROOT / "proto").rglob("*.proto"))
    named = re.findall(r"`([A-Z_]{6,})`", section)
    assert {"QUEUE_FULL", "DRAINING", "UNAVAILABLE"} <= set(named)
    for name in named:
        assert name in codes or re.search(rf"\b{name}\b", contract), name
