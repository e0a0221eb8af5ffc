"""Compiled constraints: kept within a bound, built once, given up when they take too long."""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar

import pytest

import grammar
from service.engine import grammars
from service.engine.grammars import GrammarCache, Grammars, SlicedCompiler
from service.engine.types import Constraint, JsonFormat

VOCABULARY = grammar.Vocabulary([bytes([b]) for b in range(256)] + [None], eos_ids=(256,))


def choice(*texts: str) -> Constraint:
    return Constraint(kind="choice", choices=texts)


class Sized:
    min_tokens = 1
    lexemes: ClassVar[dict[str, Any]] = {}

    def __init__(self, nbytes):
        self.nbytes = nbytes


def test_the_least_recently_used_goes_first_when_over_the_bound():
    cache = GrammarCache(max_bytes=150)
    a, b, c = choice("a"), choice("b"), choice("c")
    cache.put(a, Sized(40))
    cache.put(b, Sized(40))
    assert cache.get(a) is not None
    cache.put(c, Sized(40))
    assert (cache.get(a) is None, cache.get(b) is None, cache.get(c) is None) == (
        False,
        True,
        False,
    )


def test_what_grew_since_counts_as_it_is_now():
    cache = GrammarCache(max_bytes=200)
    growing = Sized(10)
    cache.put(choice("a"), growing)
    growing.nbytes = 199
    cache.put(choice("b"), Sized(10))
    assert cache.get(choice("a")) is None


@pytest.fixture
def slow_steps(monkeypatch):
    """compile_steps of as many slices as the choice has texts; counts how often it began."""
    begun = []

    def steps(constraint, vocabulary, limits, lexemes=None):
        begun.append(constraint)
        for _ in constraint.choices:
            yield
        return Sized(1)

    monkeypatch.setattr(grammars, "compile_steps", steps)
    return begun


async def test_equal_constraints_in_flight_are_compiled_once_and_then_kept(slow_steps):
    compiler = Grammars(VOCABULARY)
    first = await asyncio.gather(*(compiler.compile(choice("a", "b")) for _ in range(5)))
    again, cached = await compiler.compile(choice("a", "b"))
    assert {id(each) for each, _ in first} == {id(again)}
    assert cached
    assert not any(each for _, each in first)
    assert slow_steps == [choice("a", "b")]
    compiler.close()


async def test_a_caller_that_goes_away_takes_nothing_from_the_others(slow_steps):
    compiler = Grammars(VOCABULARY)
    tasks = [asyncio.create_task(compiler.compile(choice(*"abc"))) for _ in range(2)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    assert (await tasks[1])[0].compiled.nbytes == 1
    compiler.close()


async def test_a_compile_that_nobody_waits_for_any_more_stops(monkeypatch):
    steps = []

    def endless(*_):
        while True:
            steps.append(1)
            time.sleep(0.001)
            yield

    monkeypatch.setattr(grammars, "compile_steps", endless)
    compiler = Grammars(VOCABULARY)
    tasks = [asyncio.create_task(compiler.compile(choice("a"))) for _ in range(2)]
    async with asyncio.timeout(10):
        while len(steps) < 3:  # noqa: ASYNC110 - the steps are in a thread
            await asyncio.sleep(0.001)
        tasks[0].cancel()
        so_far = len(steps)
        while len(steps) < so_far + 20:  # noqa: ASYNC110 - the other one still waits
            await asyncio.sleep(0.001)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert not compiler._in_flight
    await asyncio.sleep(0.05)
    so_far = len(steps)
    await asyncio.sleep(0.05)
    assert len(steps) == so_far
    monkeypatch.undo()
    assert not (await compiler.compile(choice("a")))[1]
    compiler.close()


async def test_a_compile_that_takes_too_long_is_given_up_and_not_remembered(slow_steps):
    compiler = Grammars(VOCABULARY, timeout_s=-1)
    monster = choice(*(str(i) for i in range(10_000_000 // 10)))
    with pytest.raises(TimeoutError):
        await compiler.compile(monster)
    compiler._timeout_s = 60
    assert (await compiler.compile(monster))[0].compiled.nbytes == 1
    compiler.close()


async def test_an_error_reaches_everyone_who_waits():
    compiler = Grammars(VOCABULARY)
    broken = Constraint(kind="regex", text="(")
    outcomes = await asyncio.gather(
        *(compiler.compile(broken) for _ in range(3)), return_exceptions=True
    )
    assert all(isinstance(each, grammar.GrammarError) for each in outcomes)
    compiler.close()


async def test_the_engine_compiles_with_what_the_front_built():
    front = Grammars(VOCABULARY)
    constraint = Constraint(kind="json_schema", text='{"type": "string", "pattern": "^a+b$"}')
    lexemes = (await front.compile(constraint))[0].lexemes
    front.close()
    engine = SlicedCompiler(VOCABULARY)
    engine.start(constraint, lexemes)
    outcome = None
    while outcome is None:
        outcome = engine.work()
    assert isinstance(outcome[1], grammar.Grammar)
    assert engine.get(constraint) is outcome[1]
    assert not engine.is_busy


SCHEMA = """{
  "type": "object",
  "title": "a person",
  "properties": {"name": {"type": "string", "format": "x"}, "age": {"type": "integer"}},
  "required": ["age"]
}"""


@pytest.fixture
def compiler():
    made = Grammars(VOCABULARY)
    yield made
    made.close()


async def test_the_summary_has_a_shortest_text_and_what_becomes_of_each_keyword(compiler):
    known, _ = await compiler.compile(Constraint(kind="json_schema", text=SCHEMA))
    summary = await compiler.summary(known)
    assert summary.example == b'{"age":0}'
    assert known.min_tokens == len(summary.example)
    assert summary.max_tokens is None
    treatments = {each.location: each.treatment for each in summary.keywords.reports}
    assert treatments["/title"] == "annotation"
    assert treatments["/properties/name/format"] == "annotation"
    assert treatments["/properties/age/type"] == "enforced"
    assert summary.keywords.total == len(summary.keywords.reports) == 7
    assert await compiler.summary(known) is summary


async def test_a_finite_language_has_a_longest_output(compiler):
    known, _ = await compiler.compile(choice("a", "abc"))
    assert (await compiler.summary(known)).max_tokens == 3
    assert (await compiler.summary(known)).keywords == ((), 0)


async def test_every_refused_keyword_is_found(compiler):
    inner = '{"a": {"not": {"uniqueItems": true}}, "b": {"type": "null"}}'
    text = f'{{"not": {{"uniqueItems": true}}, "properties": {inner}}}'
    refused = await compiler.refused(Constraint(kind="json_schema", text=text))
    assert [each.location for each in refused.reports] == [
        "/not/uniqueItems",
        "/properties/a/not/uniqueItems",
    ]
    assert refused.total == 2


async def test_of_very_many_reports_the_first_are_kept_and_all_counted(compiler):
    """Their pointers together would be 40 MB."""
    inner = ",".join(f'"a{i}":{{"$ref":"x.json"}}' for i in range(200))
    text = f'{{"properties":{{"{"x" * 200_000}":{{"properties":{{{inner}}}}}}}}}'
    refused = await compiler.refused(Constraint(kind="json_schema", text=text))
    assert refused.total == 200
    assert 1 <= len(refused.reports) <= 3


JUDGED = [
    ('{"age":3}', "complete"),
    ('{ "name" : "x",\r\n' + " " * 300 + '"age" : 3.0 }', "complete"),  # any space, any order
    ('{"age":3,"more":[1,2]}', "complete"),  # additional properties
    ('{"ag', "incomplete"),
    ('{"age":"3"}', "rejected"),
    ('{"name":"x"}', "rejected"),
]


@pytest.mark.parametrize(("text", "verdict"), JUDGED)
async def test_a_text_is_judged_however_it_is_spelled(compiler, text, verdict):
    recogniser = await compiler.recogniser(Constraint(kind="json_schema", text=SCHEMA))
    assert (await compiler.check(recogniser, text.encode())).verdict == verdict


async def test_undeclared_keys_are_refused_where_the_constraint_says_so(compiler):
    form = JsonFormat(additional_properties_default="forbid")
    constraint = Constraint(kind="json_schema", text=SCHEMA, json_format=form)
    recogniser = await compiler.recogniser(constraint)
    found = await compiler.check(recogniser, b'{"age":3,"more":1}')
    assert (found.verdict, found.offset) == ("rejected", 10)


async def test_a_recogniser_is_compiled_once_for_many_texts(compiler):
    first = await compiler.recogniser(choice("a", "b"))
    assert await compiler.recogniser(choice("a", "b")) is first


async def test_a_text_that_takes_too_long_is_given_up():
    compiler = Grammars(VOCABULARY)
    recogniser = await compiler.recogniser(Constraint(kind="json_schema", text="{}"))
    compiler._timeout_s = -1
    with pytest.raises(TimeoutError):
        await compiler.check(recogniser, b"[" * 2_000_000)
    compiler.close()


async def test_texts_are_checked_side_by_side_with_one_recogniser(compiler):
    recogniser = await compiler.recogniser(Constraint(kind="json_schema", text=SCHEMA))
    texts = [f'{{"age":{n},"k{n}":' + "[" * 60 * n + "]" * 60 * n + "}" for n in range(1, 9)]
    texts += ["[" * 10_000, '{"age":x']
    found = await asyncio.gather(*(compiler.check(recogniser, t.encode()) for t in texts))
    assert [each.verdict for each in found] == ["complete"] * 8 + ["rejected"] * 2
    assert [each.offset for each in found[-2:]] == [0, 7]
