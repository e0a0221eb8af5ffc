"""Domain -> protobuf: what the caller reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from grammar import Diagnostic
from service.engine import types as domain
from service.rpc.convert.stopping import UNIT_NUMBERS
from service.rpc.draft import Report
from service.rpc.front import Accepted
from service.rpc.pb.v1 import constraint_pb2, generation_pb2

TokenBytes = Callable[[int], bytes]

_FINISH_REASONS = {
    domain.FinishReason.STOP: generation_pb2.FINISH_REASON_STOP,
    domain.FinishReason.LENGTH: generation_pb2.FINISH_REASON_LENGTH,
}
_SCOPES = {
    "all": generation_pb2.PENALTY_SCOPE_ALL,
    "free_text": generation_pb2.PENALTY_SCOPE_FREE_TEXT,
}
# What the caller may not have meant; every other remark is for information.
_WARNINGS = {"FORMAT_UNKNOWN"}


def whole(
    accepted: Accepted, outputs: Sequence[domain.Chunk], model: str, token_bytes: TokenBytes
) -> generation_pb2.GenerateResponse:
    """The answer of Generate; each chunk is a whole output."""
    ends = [chunk.finish for chunk in outputs if chunk.finish]
    return generation_pb2.GenerateResponse(
        request_id=accepted.request.request_id,
        model=model,
        outputs=[_output(accepted, chunk, token_bytes) for chunk in outputs],
        usage=_usage(ends),
        timing=_timing(ends, accepted.report),
        diagnostics=diagnostics(accepted.diagnostics),
        effective_sampling=_sampling(accepted.request),
        prompt_tokens=_prompt(accepted, ends, token_bytes),
    )


def _prompt(
    accepted: Accepted, ends: Sequence[domain.Finish], token_bytes: TokenBytes
) -> list[generation_pb2.TokenInfo]:
    """The prompt's tokens where their scores were asked for."""
    if accepted.request.prompt_logprobs is None:
        return []
    scores = next((end.prompt_scores for end in ends if end.prompt_scores), ())
    return [
        _token(domain.Token(token, forced=False, score=score), token_bytes)
        for token, score in zip(accepted.request.prompt_ids, (None, *scores), strict=True)
    ]


def _output(
    accepted: Accepted, chunk: domain.Chunk, token_bytes: TokenBytes
) -> generation_pb2.Output:
    finish = chunk.finish
    assert finish is not None
    return generation_pb2.Output(
        index=chunk.index,
        text=chunk.text,
        finish_reason=_FINISH_REASONS[finish.reason],
        stop_detail=_stop_detail(finish.detail),
        complete=finish.complete,
        abandoned_stop_regex=_abandoned(accepted, finish),
        tokens=_tokens(chunk.tokens, accepted.report, token_bytes),
    )


def started(accepted: Accepted, model: str) -> generation_pb2.GenerateStreamResponse:
    """The first event of a stream."""
    return generation_pb2.GenerateStreamResponse(
        request_id=accepted.request.request_id,
        started=generation_pb2.Started(
            model=model,
            prompt_tokens=len(accepted.request.prompt_ids),
            diagnostics=diagnostics(accepted.diagnostics),
            effective_sampling=_sampling(accepted.request),
        ),
    )


def events(
    accepted: Accepted, chunk: domain.Chunk, token_bytes: TokenBytes
) -> Iterable[generation_pb2.GenerateStreamResponse]:
    """The events that one chunk becomes: a delta, and with its output's last one the end."""
    request_id = accepted.request.request_id
    if chunk.text or chunk.tokens:
        yield generation_pb2.GenerateStreamResponse(
            request_id=request_id,
            delta=generation_pb2.TextDelta(
                index=chunk.index,
                text=chunk.text,
                tokens=_tokens(chunk.tokens, accepted.report, token_bytes),
            ),
        )
    if finish := chunk.finish:
        yield generation_pb2.GenerateStreamResponse(
            request_id=request_id,
            finished=generation_pb2.Finished(
                index=chunk.index,
                finish_reason=_FINISH_REASONS[finish.reason],
                stop_detail=_stop_detail(finish.detail),
                complete=finish.complete,
                abandoned_stop_regex=_abandoned(accepted, finish),
            ),
        )


def summary(
    accepted: Accepted, ends: Sequence[domain.Finish], token_bytes: TokenBytes
) -> generation_pb2.GenerateStreamResponse:
    """The last event of a stream: what its outputs took together."""
    return generation_pb2.GenerateStreamResponse(
        request_id=accepted.request.request_id,
        summary=generation_pb2.Summary(
            usage=_usage(ends),
            timing=_timing(ends, accepted.report),
            prompt_tokens=_prompt(accepted, ends, token_bytes),
        ),
    )


def _tokens(
    tokens: Sequence[domain.Token], report: Report, token_bytes: TokenBytes
) -> list[generation_pb2.TokenInfo]:
    if not report.token_ids:
        return []
    return [_token(token, token_bytes) for token in tokens]


def _token(token: domain.Token, token_bytes: TokenBytes) -> generation_pb2.TokenInfo:
    told = generation_pb2.TokenInfo(
        token_id=token.token_id, bytes=token_bytes(token.token_id), forced=token.forced
    )
    if token.score is not None:
        told.logprob, told.rank = token.score.logprob, token.score.rank
        for token_id, logprob in map(msgspec.structs.astuple, token.score.candidates):
            told.candidates.add(token_id=token_id, bytes=token_bytes(token_id), logprob=logprob)
    return told


def _stop_detail(detail: domain.StopDetail) -> generation_pb2.StopDetail:
    if detail.steered_tokens is not None:
        return generation_pb2.StopDetail(
            budget_close=generation_pb2.BudgetClose(steered_tokens=detail.steered_tokens)
        )
    if detail.constraint_complete:
        return generation_pb2.StopDetail(constraint_complete=generation_pb2.ConstraintComplete())
    if detail.unit is not None:
        return generation_pb2.StopDetail(unit=UNIT_NUMBERS[detail.unit])
    if detail.stop_token_id is not None:
        return generation_pb2.StopDetail(stop_token_id=detail.stop_token_id)
    if detail.stop_regex is not None:
        return generation_pb2.StopDetail(stop_regex=detail.stop_regex)
    if detail.stop_string is not None:
        return generation_pb2.StopDetail(stop_string=detail.stop_string)
    if detail.eos_token_id is not None:
        return generation_pb2.StopDetail(eos_token_id=detail.eos_token_id)
    return generation_pb2.StopDetail()


def _abandoned(accepted: Accepted, finish: domain.Finish) -> list[str]:
    patterns = accepted.request.stopping.stop_regex
    return [patterns[place] for place in finish.abandoned]


def _usage(ends: Sequence[domain.Finish]) -> generation_pb2.Usage:
    def total(name: str) -> int:
        return sum(getattr(end.usage, name) for end in ends)

    prompt, completion = total("prompt_tokens"), total("completion_tokens")
    return generation_pb2.Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        forced_tokens=total("forced_tokens"),
        drafted_tokens=total("drafted_tokens"),
        accepted_draft_tokens=total("accepted_draft_tokens"),
    )


def _timing(ends: Sequence[domain.Finish], report: Report) -> generation_pb2.Timing | None:
    """Of several outputs: from the first one's first token to the last one's last."""
    if not report.timing:
        return None
    timings = [end.timing for end in ends]
    first = min(timing.time_to_first_token_us for timing in timings)
    last = max(timing.time_to_first_token_us + timing.decode_us for timing in timings)
    return generation_pb2.Timing(
        queue_us=min(timing.queue_us for timing in timings),
        compile_us=min(timing.compile_us for timing in timings),
        time_to_first_token_us=first,
        decode_us=last - first,
        mask_us=sum(timing.mask_us for timing in timings),
    )


def diagnostics(remarks: Iterable[Diagnostic]) -> list[constraint_pb2.Diagnostic]:
    """Remarks about a constraint."""
    return [
        constraint_pb2.Diagnostic(
            severity=(
                constraint_pb2.SEVERITY_WARNING
                if each.code in _WARNINGS
                else constraint_pb2.SEVERITY_INFO
            ),
            code=each.code,
            location=each.location,
            message=each.message,
        )
        for each in remarks
    ]


def _sampling(request: domain.GenerationRequest) -> generation_pb2.SamplingParams:
    sampling = request.sampling
    return generation_pb2.SamplingParams(
        n=request.n,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        frequency_penalty=sampling.frequency_penalty,
        presence_penalty=sampling.presence_penalty,
        repetition_penalty=sampling.repetition_penalty,
        seed=sampling.seed,
        penalty_scope=_SCOPES[sampling.penalty_scope],
        penalize_prompt=sampling.penalize_prompt,
        logit_bias=dict(sampling.logit_bias),
    )
