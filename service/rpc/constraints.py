"""What callers do with constraints: compile, name, pin, describe, check, forget.

    places       room for calls that compile or check; their callers take one
    compile      by content or by id; what cannot be enforced is refused, every keyword by name
    describe     what the server makes of one
    check        judges a text

No protobuf and no gRPC here. The event loop runs this; whatever computes does so in the compile
thread (``service.engine.grammars``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from grammar import Check, Grammar, GrammarError, UnsupportedError
from service.engine.known import Excerpt, Known, KnownConstraints, PinsFullError, Summary
from service.engine.types import Constraint
from service.errors import Code, NotFound, ServiceError
from service.rpc import refusals
from service.rpc.draft import ConstraintId
from service.rpc.places import Places


class Compiler(Protocol):
    """``service.engine.grammars.Grammars`` as it is used here."""

    known: KnownConstraints

    async def compile(self, constraint: Constraint) -> tuple[Known, bool]:
        """The compiled constraint, and whether it was known. Raises GrammarError, TimeoutError."""
        ...

    async def summary(self, known: Known) -> Summary:
        """What there is to say of it. Raises TimeoutError."""
        ...

    @property
    def num_compiling(self) -> int:
        """Compiles in flight."""
        ...

    async def refused(self, constraint: Constraint) -> Excerpt:
        """The keywords of a JSON Schema that are refused. Raises GrammarError, TimeoutError."""
        ...

    async def recogniser(self, constraint: Constraint) -> Grammar:
        """The constraint compiled for ``check``. Raises GrammarError, TimeoutError."""
        ...

    async def check(self, recogniser: Grammar, text: bytes) -> Check:
        """Judges a text. Raises GrammarError, TimeoutError."""
        ...


class Watch(Protocol):
    """Who counts what is compiled."""

    def constraint_found(self, *, cached: bool, seconds: float) -> None:
        """A constraint was known, or compiled in so many seconds."""
        ...


@dataclass(frozen=True, slots=True)
class Description:
    """A compiled constraint and what there is to say of it."""

    known: Known
    cached: bool
    summary: Summary


class Constraints:
    """One model's constraints. Every method may raise ServiceError."""

    def __init__(self, compiler: Compiler, capacity: int, watch: Watch | None = None) -> None:
        """``capacity``: calls that compile or check at the same time."""
        self._compiler = compiler
        self._watch = watch
        self.places = Places(capacity, "constraints being compiled or texts checked")

    @property
    def num_compiling(self) -> int:
        """Constraints being compiled at this moment."""
        return self._compiler.num_compiling

    @property
    def nbytes(self) -> int:
        """Memory of those that are kept, about."""
        return self._compiler.known.nbytes

    def named(self, asked: ConstraintId) -> Known:
        """The constraint of this id."""
        known = self._compiler.known.get(asked.text)
        if known is None or known.constraint.kind == "unit":  # which nobody compiled by name
            raise _unknown(asked)
        return known

    async def compile(self, asked: Constraint | ConstraintId) -> tuple[Known, bool]:
        """The compiled constraint, and whether it was known."""
        if isinstance(asked, ConstraintId):
            return self.named(asked), True
        with _compile_timeout(asked):
            try:
                known, cached = await self._compiler.compile(asked)
            except GrammarError as error:
                raise await self._refusal(error, asked) from None
        if self._watch:
            self._watch.constraint_found(cached=cached, seconds=known.compile_us / 1e6)
        return known, cached

    async def describe(self, asked: Constraint | ConstraintId, *, pin: bool) -> Description:
        """Compiles where needed, pins if asked, and says what there is to say."""
        known, cached = await self.compile(asked)
        with _compile_timeout(known.constraint):
            summary = await self._compiler.summary(known)
        if pin:
            self._pin(known)
        return Description(known, cached, summary)

    def forget(self, asked: ConstraintId) -> None:
        """Forgets the constraint, pinned or not."""
        if not self._compiler.known.remove(asked.text):
            raise _unknown(asked)

    async def check(self, asked: Constraint | ConstraintId, text: str) -> Check:
        """Judges a text."""
        constraint = self.named(asked).constraint if isinstance(asked, ConstraintId) else asked
        with _compile_timeout(constraint):
            try:
                recogniser = await self._compiler.recogniser(constraint)
            except GrammarError as error:
                raise await self._refusal(error, constraint) from None
        try:
            return await self._compiler.check(recogniser, text.encode())
        except GrammarError as error:
            raise refusals.from_grammar(error, constraint) from None
        except TimeoutError:
            raise ServiceError(
                Code.RESOURCE_EXHAUSTED,
                "CHECK_TIMEOUT",
                "text: takes too long to check",
                quota="compile_timeout_ms",
            ) from None

    def _pin(self, known: Known) -> None:
        try:
            self._compiler.known.pin(known)
        except PinsFullError as error:
            message = f"pin: {error}; delete one that is not needed any more"
            raise ServiceError(
                Code.RESOURCE_EXHAUSTED, "QUOTA", message, quota=error.limit
            ) from None

    async def _refusal(self, error: GrammarError, constraint: Constraint) -> ServiceError:
        """The error for the caller; of a keyword that is refused, with all the others."""
        refused = Excerpt()
        if isinstance(error, UnsupportedError) and constraint.kind == "json_schema":
            with contextlib.suppress(GrammarError, TimeoutError):
                refused = await self._compiler.refused(constraint)
        return refusals.from_grammar(error, constraint, refused)


@contextmanager
def _compile_timeout(constraint: Constraint) -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise ServiceError(
            Code.RESOURCE_EXHAUSTED,
            "COMPILE_TIMEOUT",
            f"{constraint.field}: takes too long to compile",
            quota="compile_timeout_ms",
        ) from None


def _unknown(asked: ConstraintId) -> NotFound:
    return NotFound(
        "UNKNOWN_CONSTRAINT",
        f"constraint_id: {asked.text!r} is not known here; compile the constraint again",
    )
