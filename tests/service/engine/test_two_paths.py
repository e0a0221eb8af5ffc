"""A Llama with its weights twice: both paths say the same, and each step takes the right one."""

import numba
import pytest
import torch

from service.engine.cpu_llama import CpuLlama
from service.engine.llama import LlamaModel
from service.engine.loading import load_model, make_cache
from service.engine.model import Row
from service.engine.two_paths import TwoPathLlama
from service.engine.types import EngineSettings
from tests.service.engine import tiny
from tests.service.engine.unpack import unpack_into

pytestmark = pytest.mark.skipif(
    numba.config.DISABLE_JIT, reason="interpreted it takes minutes; test_cpu_llama runs the parts"
)

TEXT = list(range(3, 60))


@pytest.fixture
def model():
    causal_lm = tiny.build(tiny.CONFIGS["llama"])
    packed = CpuLlama(causal_lm, threads=2)
    unpack_into(causal_lm, packed)  # both then have the same weights
    return TwoPathLlama(packed, LlamaModel(causal_lm), threads=2, crossover=8)


def last_logits(model, chunks):
    """Of ``TEXT`` in chunks of these sizes, in a cache of its own."""
    kv = tiny.make_cache(model, num_blocks=8)
    row, position = kv.open_row(), 0
    for size in chunks:
        ids = TEXT[position : position + size]
        kv.grow(row, position + size)
        logits = model.forward([Row(row, position, ids, 1)], kv)
        position += size
    return logits


def test_a_text_may_change_paths_as_it_goes(model):
    expected = last_logits(model.packed, [len(TEXT)])
    for chunks in ([57], [40, 16, 1], [1, 56], [3, 3, 3, 48], [50, 7]):
        torch.testing.assert_close(last_logits(model, chunks), expected, rtol=1e-3, atol=1e-3)


def test_the_positions_of_all_rows_decide(model, monkeypatch):
    taken = []
    for path in ("packed", "wide"):
        part = getattr(model, path)
        plain = part.forward
        monkeypatch.setattr(
            part, "forward", lambda *a, path=path, plain=plain: taken.append(path) or plain(*a)
        )
    kv = tiny.make_cache(model, num_blocks=8)
    rows = [kv.open_row() for _ in range(2)]
    for row in rows:
        kv.grow(row, 8)
    threads = torch.get_num_threads()
    for first, second in ((1, 1), (4, 3), (4, 4), (7, 7)):
        model.forward([Row(rows[0], 0, TEXT[:first], 1), Row(rows[1], 0, TEXT[:second], 1)], kv)
    assert taken == ["packed", "packed", "wide", "wide"]
    model.forward([Row(rows[0], 0, TEXT[:1], 1), Row(rows[1], 0, TEXT[:1], 1, is_prompt=True)], kv)
    assert taken.pop() == "wide"
    assert torch.get_num_threads() == threads


def test_calibrating_takes_the_first_size_at_which_the_library_is_faster(model, monkeypatch):
    def seconds(forward, rows, kv):
        return 5.0 if forward == model.forward_wide else float(len(rows))

    monkeypatch.setattr("service.engine.two_paths._seconds", seconds)
    model.calibrate()
    assert model.crossover == 8


def test_calibrating_for_real(model):
    model.calibrate()
    assert 2 <= model.crossover <= 64


def test_who_is_loaded(tmp_path):
    folder = tiny.save_folder(tmp_path)

    def load(**settings):
        threads = torch.get_num_threads()
        try:
            return load_model(EngineSettings(model=str(folder), **settings))
        finally:
            torch.set_num_threads(threads)

    mixed = load(weights="mixed")
    assert isinstance(mixed, TwoPathLlama)
    assert make_cache(mixed, EngineSettings(model=str(folder))).share_prefixes
    # Its answers must not depend on what shares the step.
    assert isinstance(load(weights="mixed", reproducible=True), CpuLlama)
