"""Who waits behind whom: priorities are worth seconds, so age counts too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.engine.scheduler import PRIORITY_SECONDS, Scheduler
from service.engine.sequence import Sequence
from tests import fakes
from tests.service.engine.decoding import make_decoder, make_request, run

STEPS = st.integers(-10, 10)


def sequence(name, arrived, priority=0):
    request = make_request(name, priority=priority)
    return Sequence(request, None, max_output=1, arrived=arrived)


def queue(*sequences):
    """In which order they wait, having come one after the other."""
    scheduler = Scheduler(make_decoder(fakes.FakeModel(fakes.noise))._kv, step_tokens=1)
    for each in sequences:
        scheduler.add(each)
    return [each.request.request_id for each in scheduler.waiting]


def test_without_priorities_it_is_by_arrival():
    assert queue(*(sequence(name, 1.0) for name in "abc")) == ["a", "b", "c"]


def test_a_step_is_worth_ten_seconds_and_no_more():
    assert PRIORITY_SECONDS == 10
    first = sequence("first", 0.0)
    assert queue(first, sequence("soon", 9.0, 1)) == ["soon", "first"]
    assert queue(first, sequence("late", 11.0, 1)) == ["first", "late"]
    assert queue(first, sequence("later", 0.0, -1), sequence("c", 9)) == ["first", "c", "later"]


def test_who_has_run_already_is_not_passed_by():
    preempted = sequence("preempted", 5.0)
    preempted.admitted = 6.0
    assert queue(preempted, sequence("urgent", 7.0, 10)) == ["preempted", "urgent"]


@given(st.lists(st.tuples(st.floats(0, 5), STEPS), max_size=30))
def test_the_order_is_that_of_age_and_priority_together(calls):
    """At any moment the first is whose priority and age in tens of seconds are the most."""
    now, waiting = 0.0, []
    for number, (pause, priority) in enumerate(calls):
        now += pause
        waiting.append(sequence(str(number), now, priority))
    for moment in (now, now + 1_000):
        worths = [worth(waiting[int(name)], moment) for name in queue(*waiting)]
        assert worths == pytest.approx(sorted(worths, reverse=True))


def worth(each, moment):
    return each.request.priority + (moment - each.arrived) / PRIORITY_SECONDS


@given(st.integers(0, 10))
def test_nobody_is_passed_by_for_ever(priority):
    """By a stream of the most urgent requests, one each second: for ten seconds a step."""
    patient = sequence("patient", 0.0, priority)
    urgent = [sequence(str(second), float(second), 10) for second in range(1, 201)]
    passed = queue(patient, *urgent).index("patient")
    assert passed <= (10 - priority) * PRIORITY_SECONDS


def test_an_urgent_request_gets_the_next_row():
    model = fakes.FakeModel(fakes.replies({f"{name}>": name * 5 for name in "abc"}))
    decoder = make_decoder(model, max_rows=1)
    ends = []
    for name, priority in (("a", 0), ("b", 0), ("c", 1)):
        decoder.submit(make_request(name, priority=priority), None, arrived=0.0)
        decoder.step()  # the first has its row by then
    while not decoder.is_idle:
        ends += [chunk.request_id for chunk in decoder.step() if chunk.finish]
    assert ends == ["a", "c", "b"]
    assert not run(decoder)
