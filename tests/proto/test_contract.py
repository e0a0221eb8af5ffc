"""The contract: what buf cannot check."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from service.errors import Code
from service.rpc.pb.v1 import admin_pb2, constraint_pb2, generation_pb2, model_pb2
from tools import stubs

MODULES = (admin_pb2, constraint_pb2, generation_pb2, model_pb2)
FILES = [each.DESCRIPTOR for each in MODULES]
ROOT = Path(__file__).resolve().parents[2]
GENERATION = (ROOT / "proto/syntaxd/v1/generation.proto").read_text()
CONTRACT = "".join(each.read_text() for each in (ROOT / "proto/syntaxd/v1").glob("*.proto"))


@pytest.mark.parametrize("folder", stubs.OUTS, ids=["service", "client"])
def test_committed_stubs_are_those_of_the_protos(tmp_path, folder):
    stubs.generate(tmp_path / "v1")
    committed = {path.name: path.read_text() for path in folder.glob("*.py*")}
    assert {path.name: path.read_text() for path in (tmp_path / "v1").iterdir()} == committed


def test_descriptors_keep_their_canonical_names():
    assert [each.name for each in FILES] == [
        "syntaxd/v1/admin.proto",
        "syntaxd/v1/constraint.proto",
        "syntaxd/v1/generation.proto",
        "syntaxd/v1/model.proto",
    ]


def test_a_clients_own_stubs_live_beside_ours_in_one_process(tmp_path):
    """A Python client that made its stubs the usual way can import both."""
    made = subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            "-Iproto",
            f"--python_out={tmp_path}",
            "syntaxd/v1/constraint.proto",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    script = (
        "from service.rpc.pb.v1 import constraint_pb2 as ours\n"
        "from syntaxd.v1 import constraint_pb2 as theirs\n"
        "assert ours.Constraint is theirs.Constraint or ours.Constraint() == theirs.Constraint()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": f"{ROOT}:{tmp_path}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_a_scalar_whose_zero_could_mean_default_knows_whether_it_is_there():
    """Absent means the model's default, never zero (the design's first complaint about others)."""
    for message in (generation_pb2.SamplingParams, generation_pb2.StoppingOptions):
        for each in message.DESCRIPTOR.fields:
            if each.is_repeated or each.enum_type:
                continue
            assert each.has_presence, each.full_name


@pytest.mark.parametrize("code", Code)
def test_every_status_code_we_send_is_explained_where_callers_look(code):
    assert re.search(rf"^//   {code.name}\b", GENERATION, re.MULTILINE), code


def test_every_reason_we_send_is_explained_where_callers_look():
    source = "\n".join(
        path.read_text()
        for folder in ("service/rpc", "service/engine")
        for path in (ROOT / folder).rglob("*.py")
        if "pb" not in path.parts
    )
    calls = re.findall(
        r"(?:reason=|reason = |Busy\(|NotFound\(|Unavailable\()\s*\"([A-Z_]+)\"", source
    )
    calls += re.findall(r"Code\.\w+,\s*\"([A-Z_]+)\"", source)
    assert {"BUDGET_TOO_SMALL", "QUEUE_FULL", "COMPILE_TIMEOUT", "UNKNOWN_MODEL"} <= set(calls)
    assert {"UNKNOWN_CONSTRAINT", "QUOTA", "CHECK_TIMEOUT", "DRAINING"} <= set(calls)
    for reason in sorted(set(calls)):
        assert re.search(rf"\b{reason}\b", CONTRACT), reason


@pytest.mark.parametrize(
    "rpc",
    [rpc for file in FILES for each in file.services_by_name.values() for rpc in each.methods],
    ids=lambda rpc: rpc.name,
)
def test_every_rpc_says_what_it_answers(rpc):
    """In its own comment or by pointing to its service's, which has the codes."""
    text = CONTRACT[: CONTRACT.index(f"  rpc {rpc.name}(")]
    comment = text.rpartition("\n\n" if "\n\n  //" in text else "{")[2]
    assert re.search(r"INVALID_ARGUMENT|NOT_FOUND|See the service", comment), rpc.name


def test_the_released_image_is_of_this_package():
    image = descriptor_pb2.FileDescriptorSet.FromString(
        (ROOT / "proto/released.binpb").read_bytes()
    )
    assert {each.package for each in image.file} == {"syntaxd.v1"}
