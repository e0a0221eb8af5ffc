"""The kernels are plain Python underneath: a slice of the tests holds without the JIT too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SLICE = (
    "tests/grammar/test_matcher.py::test_no_object_has_a_key_twice",
    "tests/grammar/test_matcher.py::test_property_order",
    "tests/grammar/test_matcher.py::test_whitespace",
    "tests/grammar/test_matcher.py::test_eos_is_allowed_exactly_when_the_text_is_complete",
    "tests/grammar/test_matcher.py::test_bytes_are_taken_as_far_as_they_go",
    "tests/grammar/test_masks.py::test_the_mask_is_what_every_token_s_bytes_say[3-nasty]",
    "tests/grammar/test_masks.py::test_the_mask_is_what_every_token_s_bytes_say[4-lacking]",
    "tests/grammar/test_walks.py::test_random_walks_end_valid[2-nasty]",
    "tests/grammar/test_budget.py::test_finite_languages_by_enumeration[3]",
    "tests/grammar/test_check.py::test_an_incomplete_text_and_its_completion",
    "tests/grammar/test_check.py::test_equal_keys_of_different_objects_are_no_repetition",
    "tests/grammar/test_check.py::test_most_tokens_with_whitespace",
)


def test_without_the_jit():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *SLICE],
        cwd=ROOT,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-1_000:]
    assert " passed" in done.stdout
