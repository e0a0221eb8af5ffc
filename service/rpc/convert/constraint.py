"""ConstraintService's answers: domain -> protobuf."""

from __future__ import annotations

from collections.abc import Sequence

from grammar import Check, Diagnostic, KeywordReport
from grammar.check import Verdict
from grammar.explain import Treatment
from service.engine.known import MAX_REPORTED, MAX_REPORTED_BYTES
from service.rpc.constraints import Description
from service.rpc.convert.answer import diagnostics
from service.rpc.pb.v1 import constraint_pb2

TREATMENTS: dict[Treatment, constraint_pb2.KeywordTreatment] = {
    "enforced": constraint_pb2.KEYWORD_TREATMENT_ENFORCED,
    "annotation": constraint_pb2.KEYWORD_TREATMENT_ANNOTATION,
}
VERDICTS: dict[Verdict, constraint_pb2.Verdict] = {
    "complete": constraint_pb2.VERDICT_COMPLETE,
    "incomplete": constraint_pb2.VERDICT_INCOMPLETE,
    "rejected": constraint_pb2.VERDICT_REJECTED,
}


def compiled(description: Description) -> constraint_pb2.CompiledConstraint:
    """A compiled constraint and what there is to know about it."""
    known, summary = description.known, description.summary
    remarks = _first(known.diagnostics)
    return constraint_pb2.CompiledConstraint(
        constraint_id=known.constraint_id,
        diagnostics=diagnostics(remarks),
        diagnostics_left_out=len(known.diagnostics) - len(remarks),
        min_output_tokens=known.min_tokens,
        max_output_tokens=summary.max_tokens,
        example=summary.example.decode(),
        compiled_bytes=known.nbytes,
        compile_time_us=known.compile_us,
        cached=description.cached,
        pinned=known.pinned,
        keywords=[_keyword(each) for each in summary.keywords.reports],
        keywords_left_out=summary.keywords.total - len(summary.keywords.reports),
    )


def check(found: Check) -> constraint_pb2.CheckTextResponse:
    """A judgement."""
    return constraint_pb2.CheckTextResponse(
        verdict=VERDICTS[found.verdict],
        byte_offset=found.offset,
        expected=found.expected,
        shortest_completion=None if found.completion is None else found.completion.decode(),
        spelling_only=found.spelling_only,
    )


def _keyword(report: KeywordReport) -> constraint_pb2.KeywordReport:
    return constraint_pb2.KeywordReport(
        location=report.location,
        keyword=report.keyword,
        treatment=TREATMENTS[report.treatment],
        reason=report.reason,
    )


def _first(remarks: Sequence[Diagnostic]) -> list[Diagnostic]:
    """As many as anybody reads, and as one answer has room for."""
    kept: list[Diagnostic] = []
    room = MAX_REPORTED_BYTES
    for remark in remarks[:MAX_REPORTED]:
        room -= sum(len(text) for text in remark)
        if room < 0:
            break
        kept.append(remark)
    return kept
