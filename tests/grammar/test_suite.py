"""The official JSON Schema test suite: what compiles is decided right, what does not is listed."""

from __future__ import annotations

import pytest

from benchmarks.suite import DIALECTS
from tests import shared_data, verdicts

FILES = shared_data.suite_files() if shared_data.SUITE.is_dir() else []


def test_the_suite_is_there():
    shared_data.need(shared_data.SUITE)
    assert {file.split("/")[0] for file in FILES} == set(DIALECTS)


@pytest.mark.parametrize("file", FILES)
def test_every_instance_is_decided_right(file):
    """Invalid ones without exception; a valid one may be rejected where a row says why."""
    got = shared_data.suite.judge(file)
    excused = verdicts.read(verdicts.DISAGREEMENTS).get(file, {})
    uncovered = verdicts.read(verdicts.SUITE_UNCOVERED).get(file, [])
    assert got.invalid_accepted == []
    assert sorted(got.valid_rejected) == sorted(excused)
    assert [*got.refused] == uncovered, "if that is meant: python -m tests.verdicts"


def test_the_lists_name_only_files_of_the_suite():
    shared_data.need(shared_data.SUITE)
    for path in (verdicts.SUITE_UNCOVERED, verdicts.DISAGREEMENTS):
        assert set(verdicts.read(path)) <= set(FILES)
