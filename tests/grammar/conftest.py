"""Fixtures of the grammar's tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

import grammar


@pytest.fixture
def dead_bytes() -> Callable[[bytes], npt.NDArray[np.bool_]]:
    """Makes the mask bool[256] of bytes that no token spells."""

    def mask(which: bytes) -> npt.NDArray[np.bool_]:
        dead = np.zeros(256, dtype=np.bool_)
        dead[list(which)] = True
        return dead

    return mask


@pytest.fixture(scope="session")
def model_vocabulary(default_model) -> grammar.Vocabulary:
    """The default model's vocabulary."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(default_model)
    return grammar.Vocabulary.from_tokenizer(tokenizer, len(tokenizer))
