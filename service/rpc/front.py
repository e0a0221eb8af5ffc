"""What the front process does with a request before and while the engine works on it.

    reserve      a place and the request's id, or QUEUE_FULL at once
    prepare      chat template and tokenizer, trial compile, does it fit
    chunks       from the engine; its refusals become exceptions
    release      frees the place and the row; called however the call ends

No protobuf and no gRPC here. All of it runs on the event loop; tokenising runs beside it in a
thread (the tokenizer drops the GIL), and compiling gives the loop a turn about every millisecond.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from grammar import Dfa, Diagnostic
from service.engine.known import Known, canonical
from service.engine.types import Chunk, Constraint, FinishReason, GenerationRequest, ModelInfo
from service.errors import Busy, Code, InvalidRequest, ServiceError
from service.rpc import refusals
from service.rpc.constraints import Constraints
from service.rpc.describe import with_description
from service.rpc.draft import Chat, ConstraintId, Draft, Message, Report, TokenIds
from service.rpc.tokens import Tokens

_Result = TypeVar("_Result")


class Engine(Protocol):
    """The engine process as the front sees it."""

    def check(self) -> None:
        """Raises Unavailable while there is none."""
        ...

    def submit(
        self, request: GenerationRequest, lexemes: Mapping[str, Dfa] | None
    ) -> AsyncIterator[Chunk]:
        """Chunks of one request, the last one of each output with ``finish``."""
        ...

    def cancel(self, request_id: str) -> None:
        """Frees the request's row within one step; nothing for an unknown or finished one."""
        ...


class Watch(Protocol):
    """Who keeps the time of requests."""

    def arrived(self, request_id: str) -> None:
        """The request has a place."""
        ...

    def left(self, request_id: str) -> None:
        """Its place is free again."""
        ...


class Tokenizer(Protocol):
    """The model's tokenizer and chat template."""

    def encode(self, text: str) -> list[int]:
        """Token ids of a text."""
        ...

    def apply_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Token ids of a conversation, up to where the answer begins. Raises ValueError."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that a token stands for."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """One of the places for requests, taken under an id; two of one id are not the same place."""

    request_id: str
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)  # by somebody else


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request on its way to the engine, and what to say about it."""

    request: GenerationRequest
    lexemes: Mapping[str, Dfa] | None  # spares the engine the work of building them
    diagnostics: Sequence[Diagnostic]
    report: Report


class Front:
    """One model's requests, from the caller's draft to the engine's chunks."""

    def __init__(
        self,
        *,
        model: ModelInfo,
        engine: Engine,
        tokenizer: Tokenizer,
        tokens: Tokens,
        constraints: Constraints,
        watch: Watch,
        capacity: int,
    ) -> None:
        """``capacity`` is the number of requests running and waiting together."""
        self.model = model
        self.tokenizer = tokenizer
        self._tokens = tokens
        self._engine = engine
        self._constraints = constraints
        self._watch = watch
        self.capacity = capacity
        self._places: dict[str, Place] = {}

    @property
    def num_requests(self) -> int:
        """Requests that hold a place."""
        return len(self._places)

    def reserve(self, request_id: str) -> Place:
        """Takes a place under this id. Raises Busy, Unavailable or ServiceError."""
        self._engine.check()
        if request_id in self._places:
            raise ServiceError(
                Code.ALREADY_EXISTS,
                "REQUEST_ID_IN_USE",
                f"request_id: a request {request_id!r} is still running",
            )
        if len(self._places) >= self.capacity:
            raise Busy(
                "QUEUE_FULL",
                f"{self.capacity} requests are running or waiting, the most this server accepts",
                retry_after_s=1.0,
                quota="requests running and waiting",
            )
        place = self._places[request_id] = Place(request_id)
        self._watch.arrived(request_id)
        return place

    def release(self, place: Place) -> None:
        """Gives the place back and stops the request where it still runs. Idempotent."""
        if self._places.get(place.request_id) is place:
            del self._places[place.request_id]
            self._watch.left(place.request_id)
            self._engine.cancel(place.request_id)

    def cancel(self, request_id: str) -> bool:
        """Ends a request, whatever stage it is in; False if there is none of this id."""
        place = self._places.get(request_id)
        if place is None:
            return False
        place.cancelled.set()
        self._engine.cancel(request_id)
        return True

    async def unless_cancelled(self, place: Place, work: Awaitable[_Result]) -> _Result:
        """The work's result, or CANCELLED at once. Raises ServiceError."""
        working = asyncio.ensure_future(work)
        working.add_done_callback(_looked_at)
        told = asyncio.ensure_future(place.cancelled.wait())
        try:
            await asyncio.wait((working, told), return_when=asyncio.FIRST_COMPLETED)
            if place.cancelled.is_set():
                raise _cancelled()
            return working.result()
        finally:
            working.cancel()
            told.cancel()

    async def prepare(self, draft: Draft, deadline: float | None) -> Accepted:
        """Tokenises, compiles, and refuses what cannot fit.

        ``deadline`` is on the clock of ``time.monotonic``. Raises ServiceError.
        """
        told = self._told(draft.constraint)
        prompt_ids = await self._prompt_ids(draft, told)
        known = None
        if draft.constraint:
            known, _ = await self._constraints.compile(draft.constraint)
        self._check_budget(draft, len(prompt_ids), known)
        request = GenerationRequest(
            request_id=draft.request_id,
            priority=draft.priority,
            prompt_ids=prompt_ids,
            sampling=draft.sampling,
            n=draft.n,
            logprobs=draft.logprobs,
            prompt_logprobs=draft.prompt_logprobs,
            stopping=draft.stopping,
            constraint=known.constraint if known else None,
            guaranteed=draft.guaranteed,
            deadline=deadline,
        )
        return Accepted(
            request=request,
            lexemes=known.lexemes if known else None,
            diagnostics=known.diagnostics if known else (),
            report=draft.report,
        )

    async def chunks(self, accepted: Accepted) -> AsyncIterator[Chunk]:
        """The engine's, at least one token each but an output's last. Raises ServiceError."""
        place = self._places.get(accepted.request.request_id)
        if place and place.cancelled.is_set():  # the engine has not heard of it yet
            raise _cancelled()
        async for chunk in self._engine.submit(accepted.request, accepted.lexemes):
            if chunk.finish and chunk.finish.error:
                raise refusals.from_failure(chunk.finish.error)
            if chunk.finish and chunk.finish.reason is FinishReason.CANCELLED:
                raise _cancelled()
            yield chunk

    def _told(self, asked: Constraint | ConstraintId | None) -> Constraint | None:
        """The constraint as the model may be told of it: one of an id in its canonical form."""
        if isinstance(asked, ConstraintId):
            return canonical(self._constraints.named(asked).constraint)
        return asked

    async def _prompt_ids(self, draft: Draft, told: Constraint | None) -> tuple[int, ...]:
        match draft.input:
            case TokenIds(ids):
                return ids
            case Chat(messages, describe):
                if describe and told:
                    messages = with_description(messages, told)
                return await self._chat_ids(messages)
            case text:
                prompt_ids = await self._tokens.call(
                    len(text), lambda: self.tokenizer.encode(text)
                )
                if not prompt_ids:
                    raise InvalidRequest("prompt", "has no token")
                return tuple(prompt_ids)

    async def _chat_ids(self, messages: Sequence[Message]) -> tuple[int, ...]:
        turns = [{"role": each.role, "content": each.content} for each in messages]
        length = sum(len(each.content) for each in messages)
        try:
            ids = await self._tokens.call(length, lambda: self.tokenizer.apply_chat(turns))
            return tuple(ids)
        except ValueError as error:
            raise InvalidRequest(
                "chat.messages", f"the model's chat template refuses them: {error}"
            ) from None

    def _check_budget(self, draft: Draft, num_prompt_tokens: int, known: Known | None) -> None:
        """Refuses a prompt that leaves no room, and a budget below the shortest whole answer."""
        shortest = known.min_tokens if known and draft.guaranteed else 0
        needed = max(shortest, 1)
        limit = self.model.max_request_tokens
        if num_prompt_tokens + needed > limit:
            raise InvalidRequest(
                "input",
                f"{num_prompt_tokens} prompt tokens and at least {needed} of output are more "
                f"than the {limit} that a request may have",
                reason="CONTEXT_LENGTH_EXCEEDED",
                metadata={
                    "promptTokens": str(num_prompt_tokens),
                    "minOutputTokens": str(needed),
                    "maxContextTokens": str(limit),
                },
            )
        max_tokens = draft.stopping.max_tokens
        if max_tokens is not None and max_tokens < shortest:
            raise InvalidRequest(
                "stopping.max_tokens",
                f"{max_tokens} is less than the {shortest} tokens that suffice for the "
                "shortest whole answer",
                reason="BUDGET_TOO_SMALL",
                metadata={"minOutputTokens": str(shortest), "maxTokens": str(max_tokens)},
            )


def _looked_at(done: asyncio.Future[Any]) -> None:
    """Nobody misses the error of what nobody waits for any more."""
    if not done.cancelled():
        done.exception()


def _cancelled() -> ServiceError:
    return ServiceError(Code.CANCELLED, "CANCELLED", "the request was cancelled")
