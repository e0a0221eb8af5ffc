"""What is deployed: each file in its own syntax, and all of them true of this server."""

from __future__ import annotations

import configparser
import dataclasses
import json
import re
import shlex
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from service import config
from service.cli.main import main
from service.config import Config
from service.rpc import server as grpc_server
from tools import configuration

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "deploy/kubernetes/syntaxd.yaml"
UNIT = ROOT / "deploy/systemd/syntaxd.service"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
OPERATIONS = (ROOT / "docs/operations.md").read_text()

VARIABLES = {config.variable(each.name) for each in dataclasses.fields(Config)}
# Read elsewhere than in Config: where models are, and by the commands that call a server.
OTHERS = {f"SYNTAXD_{name}" for name in ("CACHE", "API_KEY", "ADDRESS", "SERVER_NAME")}
OTHERS |= {f"SYNTAXD_{name}" for name in ("CA", "CLIENT_CERTIFICATE", "CLIENT_KEY")}
DRAIN_SECONDS = Config().drain_seconds


@pytest.mark.parametrize(
    "path",
    [
        "Dockerfile",
        "deploy/kubernetes/syntaxd.yaml",
        "deploy/systemd/syntaxd.service",
        "docs/operations.md",
        "README.md",
    ],
)
def test_every_variable_is_one_that_is_read(path):
    text = (ROOT / path).read_text()
    found = set(re.findall(r"\bSYNTAXD_[A-Z_]*[A-Z]\b", text))
    assert found <= VARIABLES | OTHERS


def test_variables_that_are_no_settings_are_read_in_the_source():
    source = "".join(path.read_text() for path in (ROOT / "service").rglob("*.py"))
    for name in OTHERS:
        short = name.removeprefix("SYNTAXD_")
        assert f'"{name}"' in source or f'"{short}"' in source, name
        assert name in OPERATIONS, name


# --- the page of settings ---


def test_the_page_of_settings_is_that_of_the_code():
    assert configuration.PAGE.read_text() == configuration.page(), "run: make configuration"


def test_flags_in_the_page_for_operators_exist(capsys):
    known = {config.flag(each.name) for each in dataclasses.fields(Config)}
    commands = ["generate", "health", "check", "compile", "tokenize"]
    for command in commands:
        with pytest.raises(SystemExit):
            main([command, "--help"])
    known |= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    docker = {"--target", "--gpus", "--index-url", "--from-file"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", OPERATIONS)) <= known | docker


# --- Kubernetes ---


@pytest.fixture(scope="module")
def manifest():
    return {each["kind"]: each for each in yaml.safe_load_all(MANIFEST.read_text())}


@pytest.fixture(scope="module")
def container(manifest):
    (found,) = manifest["Deployment"]["spec"]["template"]["spec"]["containers"]
    return found


def test_every_resource_is_one_of_kubernetes(manifest):
    """By its own schemas, where an unknown field is an error."""
    assert set(manifest) == {"Deployment", "Service", "PodDisruptionBudget"}
    for resource in manifest.values():
        kubernetes_validate.validate(resource, "1.33", strict=True)
    broken = {**manifest["Service"], "spec": {"clusterIp": None}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, "1.33", strict=True)


def test_its_settings_are_taken(container):
    environment = {each["name"]: each["value"] for each in container["env"]}
    loaded = config.load({}, environment)
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"grpc": loaded.port, "metrics": config.split_address(loaded.metrics)[1]}
    assert any(
        loaded.api_keys.startswith(each["mountPath"] + "/") for each in container["volumeMounts"]
    )


def test_probes_ask_for_services_that_there_are(container):
    health = {"", *grpc_server.SERVICES}
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        probe = container[name]["grpc"]
        assert probe["port"] == Config().port
        assert probe.get("service", "") in health
    # Without an engine the pod gets no calls, and is not killed: the engine comes back.
    assert container["readinessProbe"]["grpc"]["service"] == grpc_server.GENERATION
    assert container["livenessProbe"]["grpc"]["service"] not in ("", grpc_server.GENERATION)


def test_there_is_time_to_drain(manifest, container):
    pod = manifest["Deployment"]["spec"]["template"]["spec"]
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > pause + DRAIN_SECONDS
    liveness = container["livenessProbe"]
    assert liveness["periodSeconds"] * liveness["failureThreshold"] > DRAIN_SECONDS


def test_the_pod_has_no_rights_and_writes_only_where_it_may(manifest, container):
    pod = manifest["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert f"USER {pod['securityContext']['runAsUser']}:" in DOCKERFILE
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    mounts = {each["mountPath"]: each.get("readOnly", False) for each in container["volumeMounts"]}
    written = re.findall(r"(?:HF_HOME|NUMBA_CACHE_DIR)=(\S+)", DOCKERFILE)
    for path in written:
        assert any(path.startswith(mount) for mount, only in mounts.items() if not only)
    assert {each["name"] for each in container["volumeMounts"]} == {
        each["name"] for each in pod["volumes"]
    }


def test_the_labels_meet(manifest):
    labels = manifest["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for selector in (
        manifest["Deployment"]["spec"]["selector"]["matchLabels"],
        manifest["Service"]["spec"]["selector"],
        manifest["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()


# --- systemd ---


@pytest.fixture(scope="module")
def unit():
    """Its sections; of a setting that is repeated, the last."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read_string(UNIT.read_text())
    return parser


def test_the_unit_is_one_of_systemd(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze on this machine")
    text = UNIT.read_text().replace("/opt/syntaxd/bin/syntaxd", "/bin/true")
    (tmp_path / "syntaxd.service").write_text(text)

    def verify():
        return subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(tmp_path / "syntaxd.service")],
            capture_output=True,
            text=True,
        )

    done = verify()
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "syntaxd.service").write_text(text.replace("PrivateTmp=", "PrivateTemp="))
    assert "PrivateTemp" in verify().stderr


def test_the_unit_starts_the_server_and_knows_its_ends(unit):
    service = unit["Service"]
    program, command = shlex.split(service["ExecStart"])
    assert (Path(program).name, command) == ("syntaxd", "serve")
    assert int(service["TimeoutStopSec"]) > DRAIN_SECONDS
    assert service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"] == "2"
    assert "MemoryDenyWriteExecute" not in service  # kernels are compiled


def test_all_that_it_writes_lies_in_its_cache(unit):
    written = re.findall(r"^Environment=\w+=(/\S+)", UNIT.read_text(), re.MULTILINE)
    assert len(written) == 3
    for path in written:
        assert path.startswith(f"/var/cache/{unit['Service']['CacheDirectory']}")


# --- Docker ---


def instructions():
    """(name, arguments) of each, continued lines joined and comments left out."""
    lines = [line for line in DOCKERFILE.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line]


def stages():
    """Each stage: what it is made from, and its instructions."""
    found: dict[str, tuple[str, list]] = {}
    for name, arguments in instructions():
        if name == "FROM":
            base, _, stage = arguments.split()
            found[stage] = (base, [])
        else:
            found[stage][1].append((name, arguments))
    return found


def inherited(stage):
    """The instructions of a stage after those of the stages that it is made from."""
    base, own = stages()[stage]
    return (inherited(base) if base in stages() else []) + own


def test_every_instruction_is_one_of_docker():
    allowed = {"FROM", "RUN", "ENV", "VOLUME", "EXPOSE", "USER", "WORKDIR", "COPY"}
    allowed |= {"HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert {name for name, *_ in instructions()} <= allowed
    known = set()
    for stage, (base, own) in stages().items():
        assert base in known or base.startswith("python:3.11"), stage
        for name, arguments in own:
            if name == "COPY" and (source := re.match(r"--from=(\S+)", arguments)):
                assert source[1] in known
            if name == "RUN":
                checked = subprocess.run(["sh", "-n", "-c", arguments], capture_output=True)
                assert checked.returncode == 0, arguments
        known.add(stage)


def test_what_is_copied_is_there_and_not_ignored():
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert ignored[1] == "*"
    copied = set()
    for name, arguments in instructions():
        if name == "COPY" and not arguments.startswith("--from="):
            copied.update(arguments.split()[:-1])
    assert copied == kept
    assert all((ROOT / each).exists() for each in copied)
    project = (ROOT / "pyproject.toml").read_text()
    packages = re.search(r"packages\.find\]\ninclude = (\[.*\])", project)
    assert packages
    for pattern in json.loads(packages[1]):  # all that the wheel is made of
        assert any(fnmatch(each, pattern) for each in copied)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_each_target_runs_without_rights_and_is_watched(target):
    found = inherited(target)
    last = dict(found)
    assert last["USER"] == "10001:10001"
    assert json.loads(last["ENTRYPOINT"]) == ["syntaxd"]
    assert json.loads(last["CMD"]) == ["serve"]
    probe = re.search(r"CMD (\[.*\])", last["HEALTHCHECK"])
    assert probe
    assert json.loads(probe[1]) == ["syntaxd", "health"]
    assert last["EXPOSE"] == str(Config().port)
    names = [name for name, _ in found]
    assert "RUN" not in names[names.index("USER") :]
    assert any(arguments.startswith("--from=build-" + target) for _, arguments in found)
