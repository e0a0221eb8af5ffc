"""What every test may ask for: the shared data, the default model, and how hard to search."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

CI = os.environ.get("CI") == "true"

# The gate is the same on every run; a developer's runs search somewhere else each time.
hypothesis.settings.register_profile("dev", max_examples=50, deadline=None)
hypothesis.settings.register_profile("ci", max_examples=50, deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if CI else "dev")


def _absent(what: str) -> None:
    """Skips, saying what is missing; in CI nothing may be missing."""
    if CI:
        pytest.fail(f"{what}: absent, and this is CI")
    pytest.skip(what)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of data that lies beside the repository and is not part of it."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        _absent(f"no folder {folder}")
    return folder


@pytest.fixture(scope="session")
def default_model() -> Path:
    """The default model's folder; `make test` has fetched it."""
    from service import models

    try:
        return models.fetch_default()
    except models.ModelError as error:
        _absent(f"no default model: {error}")
        raise
