"""Constraints and tokens for the command line: here, or on a server, with the same answers.

``Here`` runs what the servicers run, without a server and without a model's weights; ``There``
asks one. Both give the same types and raise the same ``Refused``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import grpc
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

import grammar
from service.engine.grammars import Grammars, byte_vocabulary
from service.engine.tokenizer import Tokenizer
from service.engine.types import Constraint
from service.errors import ServiceError
from service.rpc import client
from service.rpc.constraints import Constraints
from service.rpc.convert import constraint as convert
from service.rpc.convert import status
from service.rpc.convert.request import read_constraint
from service.rpc.pb.v1 import (
    constraint_pb2,
    constraint_pb2_grpc,
    model_pb2,
    model_pb2_grpc,
)
from service.rpc.tokens import Tokens

_Result = TypeVar("_Result")
_OF_THE_REQUEST = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)
_TREATMENTS = {number: treatment for treatment, number in convert.TREATMENTS.items()}
_VERDICTS = {number: verdict for verdict, number in convert.VERDICTS.items()}


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled constraint and what there is to say of it, as the contract names it."""

    constraint_id: str
    min_output_tokens: int
    max_output_tokens: int | None
    example: str
    compiled_bytes: int
    compile_time_us: int
    keywords: tuple[grammar.KeywordReport, ...]
    keywords_left_out: int
    diagnostics: tuple[grammar.Diagnostic, ...]
    diagnostics_left_out: int


@dataclass(frozen=True, slots=True)
class Token:
    """A token and the bytes it stands for; a special one's are its name."""

    token_id: int
    text: bytes


class Refused(Exception):  # noqa: N818 - names the verdict
    """The constraint or the text is refused.

    ``reason`` is UPPER_SNAKE and stable; ``violations`` say what is wrong, one thing each, and
    ``left_out`` how many more there are.
    """

    def __init__(
        self, reason: str, message: str, violations: tuple[str, ...], left_out: int
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.violations = violations
        self.left_out = left_out


class Workbench(Protocol):
    """Raises Refused, and ``client.CallError`` where a server does not answer."""

    def compile(self, constraint: Constraint) -> Compiled:
        """What there is to say of a constraint."""
        ...

    def check(self, constraint: Constraint, text: str) -> grammar.Check:
        """Judges a text."""
        ...

    def tokenize(self, text: str, *, add_special_tokens: bool) -> list[Token]:
        """A text's tokens."""
        ...


class Here:
    """``find_model``: gives a model's folder, of which only the tokenizer is read, and only by
    ``compile`` and ``tokenize``. May raise TokenizerError."""

    def __init__(self, find_model: Callable[[], Path], timeout_s: float) -> None:
        self._find_model = find_model
        self._timeout_s = timeout_s

    def compile(self, constraint: Constraint) -> Compiled:
        vocabulary = self._tokenizer().vocabulary()
        grammar.warmup()  # before the compile, whose time is told and limited
        answer = _run(self._compile(vocabulary, client.constraint_to_proto(constraint)))
        return _compiled(answer)

    def check(self, constraint: Constraint, text: str) -> grammar.Check:
        return _checked(_run(self._check(client.constraint_to_proto(constraint), text)))

    def tokenize(self, text: str, *, add_special_tokens: bool) -> list[Token]:
        tokens = Tokens(self._tokenizer(), 0)
        try:
            ids = _run(tokens.encode(text, add_special_tokens=add_special_tokens))
            return list(map(Token, ids, tokens.spellings(ids)))
        finally:
            tokens.close()

    def _tokenizer(self) -> Tokenizer:
        return Tokenizer.load(self._find_model())

    async def _compile(
        self, vocabulary: grammar.Vocabulary, given: constraint_pb2.Constraint
    ) -> constraint_pb2.CompiledConstraint:
        compiler = Grammars(vocabulary, timeout_s=self._timeout_s)
        try:
            asked = read_constraint(given)
            return convert.compiled(await Constraints(compiler, 1).describe(asked, pin=False))
        finally:
            compiler.close()

    async def _check(
        self, given: constraint_pb2.Constraint, text: str
    ) -> constraint_pb2.CheckTextResponse:
        compiler = Grammars(byte_vocabulary(), timeout_s=self._timeout_s)
        try:
            return convert.check(
                await Constraints(compiler, 1).check(read_constraint(given), text)
            )
        finally:
            compiler.close()


class There:
    """A server at ``address``."""

    def __init__(self, address: str, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s

    def compile(self, constraint: Constraint) -> Compiled:
        request = constraint_pb2.CompileConstraintRequest(
            constraint=client.constraint_to_proto(constraint)
        )
        with client.connected(self._address) as channel, _refusals():
            stub = constraint_pb2_grpc.ConstraintServiceStub(channel)
            answer = stub.CompileConstraint(request, timeout=self._timeout_s)
        return _compiled(answer.constraint)

    def check(self, constraint: Constraint, text: str) -> grammar.Check:
        request = constraint_pb2.CheckTextRequest(
            constraint=client.constraint_to_proto(constraint), text=text
        )
        with client.connected(self._address) as channel, _refusals():
            stub = constraint_pb2_grpc.ConstraintServiceStub(channel)
            return _checked(stub.CheckText(request, timeout=self._timeout_s))

    def tokenize(self, text: str, *, add_special_tokens: bool) -> list[Token]:
        request = model_pb2.TokenizeRequest(
            text=text, add_special_tokens=add_special_tokens, token_bytes=True
        )
        with client.connected(self._address) as channel, _refusals():
            stub = model_pb2_grpc.ModelServiceStub(channel)
            answer = stub.Tokenize(request, timeout=self._timeout_s)
        return list(map(Token, answer.token_ids, answer.token_bytes))


def _run(work: Coroutine[Any, Any, _Result]) -> _Result:
    try:
        return asyncio.run(work)
    except ServiceError as error:
        raise _refused(status.to_proto(error)) from None


@contextmanager
def _refusals() -> Iterator[None]:
    """What a server says of the request is a Refused; other failures pass."""
    try:
        yield
    except grpc.RpcError as error:
        found = rpc_status.from_call(error)
        if found is None or error.code() not in _OF_THE_REQUEST:
            raise
        raise _refused(found) from None


def _refused(found: status_pb2.Status) -> Refused:
    info, wrong = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    for detail in found.details:
        detail.Unpack(info)
        detail.Unpack(wrong)
    return Refused(
        info.reason,
        found.message,
        tuple(each.description for each in wrong.field_violations),
        int(info.metadata.get("violationsLeftOut", "0")),
    )


def _compiled(answer: constraint_pb2.CompiledConstraint) -> Compiled:
    has_most = answer.HasField("max_output_tokens")
    return Compiled(
        constraint_id=answer.constraint_id,
        min_output_tokens=answer.min_output_tokens,
        max_output_tokens=answer.max_output_tokens if has_most else None,
        example=answer.example,
        compiled_bytes=answer.compiled_bytes,
        compile_time_us=answer.compile_time_us,
        keywords=tuple(
            grammar.KeywordReport(
                each.location, each.keyword, _TREATMENTS[each.treatment], each.reason
            )
            for each in answer.keywords
        ),
        keywords_left_out=answer.keywords_left_out,
        diagnostics=tuple(
            grammar.Diagnostic(each.code, each.location, each.message)
            for each in answer.diagnostics
        ),
        diagnostics_left_out=answer.diagnostics_left_out,
    )


def _checked(answer: constraint_pb2.CheckTextResponse) -> grammar.Check:
    has_completion = answer.HasField("shortest_completion")
    return grammar.Check(
        _VERDICTS[answer.verdict],
        answer.byte_offset,
        tuple(answer.expected),
        answer.shortest_completion.encode() if has_completion else None,
        answer.spelling_only,
    )
