"""What ended an answer arrives under its own name, and nothing else with it."""

from typing import get_args

import pytest

import grammar
from service.engine.types import (
    Chunk,
    FinishReason,
    GenerationRequest,
    Sampling,
    StopDetail,
    Stopping,
    Unit,
)
from service.rpc.convert import answer
from service.rpc.draft import Report
from service.rpc.front import Accepted
from service.rpc.pb.v1 import generation_pb2 as g
from tests.service.rpc.fakes import finish

CAUSES = [
    (StopDetail(), None, None),
    (StopDetail(constraint_complete=True), "constraint_complete", g.ConstraintComplete()),
    (StopDetail(eos_token_id=0), "eos_token_id", 0),
    (StopDetail(stop_token_id=0), "stop_token_id", 0),
    (StopDetail(stop_string="."), "stop_string", "."),
    (StopDetail(stop_regex="a+"), "stop_regex", "a+"),
    (StopDetail(steered_tokens=3), "budget_close", g.BudgetClose(steered_tokens=3)),
    *(
        (StopDetail(unit=name), "unit", g.StopUnit.Value(f"STOP_UNIT_{name.upper()}"))
        for name in get_args(Unit)
    ),
]


@pytest.mark.parametrize(("detail", "cause", "value"), CAUSES, ids=range(len(CAUSES)))
def test_every_cause_in_answer_and_stream(detail, cause, value):
    request = GenerationRequest(
        request_id="a",
        prompt_ids=(1,),
        sampling=Sampling(logit_bias=((3, -2.5),)),
        stopping=Stopping(stop_regex=("a+", "b+", "c+")),
    )
    accepted = Accepted(request=request, lexemes=None, diagnostics=(), report=Report())
    end = finish(detail=detail, reason=FinishReason.LENGTH, abandoned=(0, 2))
    chunk = Chunk(request_id="a", text="x", finish=end)
    response = answer.whole(accepted, [chunk], "model", lambda _: b"")
    _, finished = answer.events(accepted, chunk, lambda _: b"")
    for said in (response.outputs[0], finished.finished):
        assert said.stop_detail.WhichOneof("cause") == cause
        assert cause is None or getattr(said.stop_detail, cause) == value
        assert said.finish_reason == g.FINISH_REASON_LENGTH
        assert list(said.abandoned_stop_regex) == ["a+", "c+"]
    assert dict(response.effective_sampling.logit_bias) == {3: -2.5}


def test_every_cause_of_the_contract_is_here():
    causes = {each.name for each in g.StopDetail.DESCRIPTOR.oneofs_by_name["cause"].fields}
    assert causes == {cause for _, cause, _ in CAUSES if cause}


def test_every_unit_of_the_grammar_engine_is_one_of_the_service():
    assert get_args(Unit) == grammar.UNITS
    assert len(grammar.UNITS) == len(g.StopUnit.values()) - 1
