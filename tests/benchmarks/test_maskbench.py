"""The figures of the mask benchmark, and one whole run of it on a few schemas."""

from __future__ import annotations

import array
import json
import lzma
import os
import sys

import numpy as np
import pytest

from benchmarks import bench_maskbench, machine, maskbench_figures, maskbench_plot
from benchmarks.bench_maskbench import Run
from benchmarks.maskbench import Case, Instance
from benchmarks.maskbench_run import Result
from tests.service.engine.tiny import save_folder


def result(first_us: float, *tokens_us: float, **fields) -> Result:
    times = array.array("q", [round(us * 1_000) for us in tokens_us])
    return Result(first_mask_ns=round(first_us * 1_000), token_ns=times, **fields)


CASES = [
    Case("a", "one", {}, (Instance(True, 1), Instance(False, 2))),
    Case("b", "one", {}, (Instance(True, 1),)),
    Case("c", "two", {}, (Instance(True, 1), Instance(False, 2))),
]
RESULTS = [
    result(10, 1, 2, 3, 4),
    result(30, 5, wrong=["x"], valid_rejected=1),
    Result(refused="no", keyword="not"),
]


def test_figures_are_those_of_the_results():
    figures = maskbench_figures.summary(CASES, RESULTS)
    expected = {"schemas": 3, "passing": 1, "refused": 1, "valid_rejected": 1}
    expected |= {"invalid_accepted": 0, "tested_both_ways": 2, "passing_both_ways": 1, "tokens": 5}
    expected |= {"tbm_avg_us": 3, "tbm_p25_us": 2, "tbm_p50_us": 3, "tbm_p75_us": 4}
    expected |= {"ttfm_p50_us": 20, "ttfm_avg_us": 20, "tbm_p999_us": pytest.approx(4.996, 1e-3)}
    assert {key: figures[key] for key in expected} == expected
    assert maskbench_figures.summary(CASES[2:], RESULTS[2:])["tokens"] == 0
    for text in ("  schemas ", "p25 2.0   p50 3.0   p75 4.0", "p99.9 5.0"):
        assert text in maskbench_figures.table(figures)


def test_verdicts_are_told_by_group():
    lines = maskbench_figures.by_group(CASES, RESULTS).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["one", "2", "1", "0", "1", "0"],
        ["two", "1", "0", "1", "0", "0"],
    ]
    assert maskbench_figures.refusals(RESULTS).endswith("not 1")
    assert "c: refused: no" in maskbench_figures.failures(CASES, RESULTS)


def test_engines_are_compared_on_the_schemas_that_both_had():
    ours, other = Run("syntaxd", "any", "v"), Run("xgrammar", "any", "v")
    one_order = Run("llguidance", "schema", "v")
    everything = {
        ours: RESULTS,
        Run("syntaxd", "any", "w"): RESULTS,
        other: [result(5, 2, 2, 3, 3)],
        one_order: [result(20, 3), result(80, 3), result(1, 3)],
    }
    found = bench_maskbench.comparisons(everything)
    assert list(found) == [
        "v.syntaxd.any over v.xgrammar.any, 1 schemas",
        "v.syntaxd.any over v.llguidance.schema, 3 schemas",
    ]
    first, second = found.values()
    assert (first["ttfm_p50_us"], first["tbm_avg_us"]) == (2, 1)
    assert (second["ttfm_p50_us"], second["tbm_p50_us"]) == (1, 1)


def test_an_engine_with_one_order_runs_once():
    found = bench_maskbench.runs(["syntaxd", "llguidance"], ["any", "schema"], ["v", "w"])
    assert [run.name for run in found][:3] == ["v.syntaxd.any", "v.syntaxd.schema",
                                               "v.llguidance.schema"]  # fmt: skip
    assert len(found) == 6


def test_the_share_that_takes_longer():
    times = np.arange(1.0, 2_001.0)
    x, y = maskbench_plot.exceeded(times)
    assert (x[-1], y[-1]) == (2_000, 1 / 2_000)
    assert np.allclose(y, [(times >= value).mean() for value in x])
    assert len(x) <= maskbench_plot.POINTS
    assert maskbench_plot.exceeded(np.array([7.0]))[0].tolist() == [7]


def test_the_machine_is_described():
    about = machine.describe(["numpy", "a-package-that-is-not-there"])
    assert about["numpy"] == np.__version__
    assert "a-package-that-is-not-there" not in about
    assert int(about["cores"]) >= 1


def test_a_run_of_two_schemas(tmp_path, monkeypatch, capsys):
    data = tmp_path / "cases.jsonl.xz"
    cases = [
        {"name": "number", "group": "g", "schema": {"type": "integer"},
         "tests": [{"valid": True, "data": 12}, {"valid": False, "data": "x"}]},
        {"name": "wrong", "group": "g", "schema": {"minimum": 3},
         "tests": [{"valid": True, "data": 2}]},
    ]  # fmt: skip
    with lzma.open(data, "wt") as file:
        file.write("\n".join(map(json.dumps, cases)))
    folder = save_folder(tmp_path / "model")
    written, flat = tmp_path / "record.json", tmp_path / "figures.json"
    options = ["--data", str(data), "--vocabulary", str(folder), "--order", "schema"]
    monkeypatch.setattr(
        "sys.argv",
        ["x", *options, "--json", str(flat), "--record", str(written), "--list-failures"],
    )
    environment = dict(os.environ)
    bench_maskbench.main()
    assert dict(os.environ) == environment  # one thread is the child's affair
    found = json.loads(written.read_text())
    (figures,) = found["figures"].values()
    assert (figures["schemas"], figures["passing"], figures["valid_rejected"]) == (2, 1, 1)
    assert figures["tokens"] > 2
    numbers = {f"syntaxd.schema.{key}": value for key, value in figures.items()}
    assert json.loads(flat.read_text()) == numbers
    assert numbers["syntaxd.schema.tbm_p999_us"] >= numbers["syntaxd.schema.tbm_p50_us"]
    assert found["about"]["python"] == sys.version.split()[0]
    assert "wrong: valid instance 0 rejected" in capsys.readouterr().out


def test_a_plot_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    panels = bench_maskbench.panels({Run("syntaxd", "any", "v"): RESULTS})
    assert list(panels) == ["v: time to first mask", "v: time per token"]
    maskbench_plot.draw(panels, "title", tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
