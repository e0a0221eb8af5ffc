"""The check of a GPU runs here too, small, and its verdict follows what is computed."""

from __future__ import annotations

import json

import pytest
import torch

from tools import gpu_check


def test_it_runs_on_this_cpu_and_says_that_there_is_no_gpu(tmp_path, capsys):
    path = tmp_path / "report.json"
    assert gpu_check.main(["--device", "cpu", "--seconds", "0", "--json", str(path)]) == 0
    report = json.loads(path.read_text())
    assert report["ok"]
    assert "no GPU" in report["machine"]["note"]
    assert report["not_built"] == ["Triton kernels", "CUDA graphs"]
    assert report["bandwidth_gb_s"] > 0
    assert report["correctness"]["same_choices"]
    tiny = report["sizes"]["tiny"]
    assert [each["rows"] for each in tiny["steps"]] == [1, 4]
    assert all(each["ms"] > 0 < each["floor_ms"] for each in tiny["steps"])
    assert [each["valid"] for each in tiny["throughput"]] == [1, 4]
    assert capsys.readouterr().out.endswith("right\n")


def test_a_wrong_sum_is_noticed(monkeypatch):
    adapt = gpu_check.adapt

    def wrong(causal_lm):
        with torch.no_grad():
            causal_lm.model.layers[1].mlp.up_proj.weight *= 1.05
        return adapt(causal_lm)

    monkeypatch.setattr(gpu_check, "adapt", wrong)
    found = gpu_check.correctness(torch.device("cpu"))
    assert found["logit_error"] > gpu_check._TOLERANCE
    assert not found["ok"]


def test_another_choice_is_noticed(monkeypatch):
    sample, calls = gpu_check.sample, []

    def other(logits, masks, rows):
        calls.append(None)
        return sample(logits if len(calls) == 1 else -logits, masks, rows)

    monkeypatch.setattr(gpu_check, "sample", other)
    assert not gpu_check.correctness(torch.device("cpu"))["same_choices"]


@pytest.mark.parametrize(("name", "billions"), [("1b", 1.24), ("8b", 8.03)])
def test_the_sizes_are_those_of_their_names(name, billions):
    weights = gpu_check._weight_bytes(gpu_check.SIZES[name], whole=True) / 2
    assert weights / 1e9 == pytest.approx(billions, rel=0.01)
