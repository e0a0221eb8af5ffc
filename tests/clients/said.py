"""One answer, as the server says it and as the client gives it."""

from __future__ import annotations

from dataclasses import dataclass

import syntaxd_client
from syntaxd_client.pb.v1 import constraint_pb2 as c
from syntaxd_client.pb.v1 import generation_pb2 as g


@dataclass
class Cat:
    name: str


RESPONSE = g.GenerateResponse(
    request_id="r",
    model="tiny",
    outputs=[
        g.Output(
            text='{"name":"Tom"}',
            finish_reason=g.FINISH_REASON_LENGTH,
            stop_detail=g.StopDetail(budget_close=g.BudgetClose(steered_tokens=2)),
            complete=True,
            tokens=[
                g.TokenInfo(
                    token_id=7,
                    bytes=b"\xff",
                    forced=True,
                    logprob=-0.5,
                    rank=2,
                    candidates=[g.Candidate(token_id=8, bytes=b"a", logprob=-0.25)],
                )
            ],
        )
    ],
    usage=g.Usage(prompt_tokens=3, completion_tokens=1, total_tokens=4),
    diagnostics=[
        c.Diagnostic(severity=c.SEVERITY_WARNING, code="OBJECT_CLOSED", location="", message="m")
    ],
    effective_sampling=g.SamplingParams(
        temperature=0, seed=2**64 - 1, penalty_scope=g.PENALTY_SCOPE_FREE_TEXT, logit_bias={5: 1}
    ),
)


EVENTS = [
    g.GenerateStreamResponse(
        request_id="r",
        started=g.Started(
            model="tiny",
            prompt_tokens=3,
            diagnostics=RESPONSE.diagnostics,
            effective_sampling=RESPONSE.effective_sampling,
        ),
    ),
    g.GenerateStreamResponse(request_id="r", delta=g.TextDelta(text='{"name":')),
    g.GenerateStreamResponse(
        request_id="r", delta=g.TextDelta(text="", tokens=RESPONSE.outputs[0].tokens)
    ),
    g.GenerateStreamResponse(request_id="r", delta=g.TextDelta(text='"Tom"}')),
    g.GenerateStreamResponse(
        request_id="r",
        finished=g.Finished(
            finish_reason=g.FINISH_REASON_LENGTH,
            stop_detail=RESPONSE.outputs[0].stop_detail,
            complete=True,
        ),
    ),
    g.GenerateStreamResponse(request_id="r", summary=g.Summary(usage=RESPONSE.usage)),
]


ANSWER = syntaxd_client.Answer(
    text='{"name":"Tom"}',
    complete=True,
    finish_reason="length",
    stop=syntaxd_client.Stop("budget_close", 2),
    request_id="r",
    model="tiny",
    usage=syntaxd_client.Usage(3, 1, 4, None),
    timing=None,
    diagnostics=(syntaxd_client.Diagnostic("warning", "OBJECT_CLOSED", "", "m"),),
    effective_sampling={
        "temperature": 0.0,
        "seed": 2**64 - 1,
        "penalty_scope": "free_text",
        "logit_bias": {5: 1.0},
    },
    tokens=(
        syntaxd_client.Token(
            7,
            b"\xff",
            forced=True,
            logprob=-0.5,
            rank=2,
            candidates=(syntaxd_client.Candidate(8, b"a", -0.25),),
        ),
    ),
)
