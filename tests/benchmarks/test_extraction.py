"""How answers are counted: nothing here is timed."""

from __future__ import annotations

import itertools
import json

import pytest

from benchmarks import bench_generate, extraction
from benchmarks.extraction import CLOSED, OPEN, Answer, Run, Task
from tests import validator

TASKS = extraction.tasks()
RIGHT = [json.dumps(task.expected) for task in TASKS]


def answered(*texts: str, seconds: float = 2.0, steered: bool = False) -> Run:
    return Run([Answer(text, 10, steered) for text in texts], seconds)


def test_there_are_twenty_tasks_whose_expected_answers_are_valid_and_stand_in_the_text():
    assert len(TASKS) == 20
    for task, right in zip(TASKS, RIGHT, strict=True):
        assert validator.valid(CLOSED, right)
        text = task.messages[-1]["content"]
        values = [v for v in task.expected.values() if not isinstance(v, list)]
        for value in [*values, *task.expected["skills"]]:
            assert str(value) in text, value


def test_right_answers_count_in_full():
    found = extraction.figures(TASKS, answered(*RIGHT, seconds=4.0), CLOSED)
    assert found["valid_per_s"] == 5
    assert found["tokens_per_s"] == 50
    assert found["valid_share"] == found["exact_fields"] == 1
    assert found["answer_bytes"] == sum(map(len, RIGHT)) / 20
    assert found["steered_share"] == 0


def test_a_field_is_exact_only_with_the_expected_value_and_type():
    expected = {"name": "Ann", "age": 30, "skills": ["a", "b"]}
    for text, exact in (
        ('{"name":"Ann","age":30,"skills":["a","b"]}', 3),
        ('{"name":"ann","age":30,"skills":["b","a"]}', 1),
        ('{"name":"Ann","age":"30"}', 1),
        ('{"age":true}', 0),
        ('{"name":"Ann","age":30.0}', 1),
        ('["Ann",30]', 0),
        ('{"name":"Ann","age":30', 0),
        ("", 0),
    ):
        assert extraction.exact_fields(expected, text) == exact, text


def test_answers_that_were_cut_or_break_the_schema_are_not_valid():
    cut, long = RIGHT[0][:-1], json.dumps(TASKS[0].expected | {"city": "x" * 31})
    found = extraction.figures(TASKS[:3], answered(RIGHT[0], cut, long, steered=True), CLOSED)
    assert found["valid_per_s"] == 0.5
    assert found["valid_share"] == pytest.approx(1 / 3)
    assert found["steered_share"] == 1


def test_only_the_open_schema_allows_further_keys():
    task = Task((), {"name": "Ann"})
    more = json.dumps(TASKS[0].expected | {"more": 1})
    assert extraction.figures([task], answered(more), CLOSED)["valid_share"] == 0
    assert extraction.figures([task], answered(more), OPEN)["valid_share"] == 1


@pytest.mark.parametrize(("concurrency", "count"), [(1, 20), (8, 24), (20, 20), (32, 32)])
def test_a_workload_has_every_task_and_whole_batches(concurrency, count):
    chosen = extraction.workload(TASKS, concurrency, itertools.count(27))
    assert len(chosen) == count
    texts = [task.messages[-1]["content"] for task in chosen]
    assert texts[0] == f"Text 27: {TASKS[7].messages[-1]['content']}"
    assert len(set(texts)) == count, "no two prompts are the same"
    assert {id(task.expected) for task in chosen} == {id(task.expected) for task in TASKS}


def test_the_ratio_is_over_the_best_peer():
    assert bench_generate.ratio_over_best({"syntaxd": 6.0, "a": 2.0, "b": 3.0}) == 2.0
    assert bench_generate.ratio_over_best({"syntaxd": 6.0}) is None
    assert bench_generate.ratio_over_best({"a": 2.0}) is None
    assert bench_generate.ratio_over_best({"syntaxd": 6.0, "a": 0.0}) is None


class Scripted:
    """An engine that answers rightly, each answer in so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def warm_up(self, tasks, schema, concurrency):
        return ""

    def run(self, tasks, schema, concurrency):
        answers = [Answer(json.dumps(task.expected), 10) for task in tasks]
        return Run(answers, len(tasks) * self.seconds / concurrency)

    def close(self):
        pass


def test_the_report_is_one_flat_object_of_medians(capsys):
    engines = {"syntaxd": Scripted(1.0), "transformers-xgrammar": Scripted(2.0)}
    series = bench_generate.Series(list)
    for schema in ("closed", "open"):
        bench_generate.measure(engines, schema, [1, 8], 3, itertools.count(), series)
    report = bench_generate.flat(series)
    assert report["ratio.c1"] == report["open.ratio.c8"] == 2
    assert report["syntaxd.c8.valid_per_s"] == 8
    assert report["transformers-xgrammar.c1.exact_fields"] == 1
    assert report["syntaxd.c1.steered_share"] == 0
    assert "transformers-xgrammar.c1.steered_share" not in report
    assert all(isinstance(value, float) for value in report.values())
