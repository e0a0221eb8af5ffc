"""Places in the queue, and how they come free again."""

import time

import grpc
import pytest

from tests.end_to_end.calls import LONG, TIMEOUT, ask, choice, refused, regex
from tests.end_to_end.conftest import QUEUE, ROWS


def occupy(stub, number):
    """Streams that were accepted and go on for a while."""
    calls = [stub.GenerateStream(ask(constraint=LONG), timeout=TIMEOUT) for _ in range(number)]
    for call in calls:
        assert next(call).WhichOneof("event") == "started"
    return calls


def answer(stub):
    return stub.Generate(ask(constraint=choice("yes")), timeout=TIMEOUT).outputs[0].text


def answer_soon(stub, seconds=5.0):
    """An answer as soon as there is a place for it."""
    until = time.monotonic() + seconds
    while True:
        try:
            return answer(stub)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED or time.monotonic() > until:
                raise
        time.sleep(0.02)


def test_a_full_queue_refuses_at_once_and_cancelled_calls_free_their_places(stub):
    calls = occupy(stub, ROWS + QUEUE)
    began = time.monotonic()
    code, reason, found = refused(lambda: answer(stub))
    assert time.monotonic() - began < 1
    assert (code, reason) == ("RESOURCE_EXHAUSTED", "QUEUE_FULL")
    assert found["RetryInfo"].retry_delay.ToMilliseconds() > 0
    for call in calls:
        call.cancel()
    assert answer_soon(stub) == "yes"


def test_a_cancelled_call_frees_its_row_for_one_that_waits(stub):
    """Both rows are busy for longer than the answer may take: it needs the cancelled one's."""
    calls = occupy(stub, ROWS)
    for call in calls:
        while next(call).WhichOneof("event") != "delta":
            pass
    waiting = stub.Generate.future(ask(constraint=choice("yes")), timeout=TIMEOUT)
    time.sleep(0.3)
    assert not waiting.done()
    calls[0].cancel()
    began = time.monotonic()
    assert waiting.result().outputs[0].text == "yes"
    assert time.monotonic() - began < 2
    assert calls[1].is_active()
    calls[1].cancel()


def test_an_urgent_call_gets_the_next_row(stub):
    calls = occupy(stub, ROWS)
    for call in calls:
        while next(call).WhichOneof("event") != "delta":
            pass
    ended = []
    waiting = []
    for name, priority in (("patient", 0), ("urgent", 1)):
        asked = ask(constraint=regex("[a-z]{20}"), priority=priority)
        waiting.append(stub.Generate.future(asked, timeout=TIMEOUT))
        waiting[-1].add_done_callback(lambda call, name=name: ended.append(name))
        time.sleep(0.3)  # until the engine has it: their order is that of arrival there
    calls[0].cancel()
    for each in waiting:
        assert each.result().outputs[0].complete
    calls[1].cancel()
    assert ended == ["urgent", "patient"]


def test_a_deadline_ends_the_call_and_frees_its_place(stub):
    calls = [stub.Generate.future(ask(constraint=LONG), timeout=0.5) for _ in range(ROWS + QUEUE)]
    for call in calls:
        assert call.exception().code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert answer_soon(stub) == "yes"


@pytest.mark.parametrize("number", [ROWS + QUEUE])
def test_requests_side_by_side_get_what_each_gets_alone(stub, number):
    """Of different lengths, joining and leaving the batch at different steps."""
    asked = [
        ask(f"Word {i}?" * (i + 1), constraint=choice(f"{i}{'ab' * i}!", f"{i}"))
        for i in range(number)
    ]
    alone = [stub.Generate(each, timeout=TIMEOUT).outputs[0].text for each in asked]
    calls = [stub.Generate.future(each, timeout=TIMEOUT) for each in asked]
    assert [call.result().outputs[0].text for call in calls] == alone
