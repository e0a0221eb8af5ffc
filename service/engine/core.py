"""The engine without its process: messages in, chunks out, one ``step`` at a time.

Joins the decoder and the compiler: a request whose constraint is not compiled yet waits here, and
compiling goes on in slices between the decoder's steps. No I/O, no threads, no event loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

import grammar
from service.engine.decoder import Decoder
from service.engine.drafting import Drafter
from service.engine.grammars import SlicedCompiler
from service.engine.loading import describe, load_model, make_cache, warm_up
from service.engine.messages import Cancel, Start, Submit, ToEngine, unpack_lexemes
from service.engine.tokenizer import Tokenizer
from service.engine.types import (
    Chunk,
    Constraint,
    EngineSettings,
    Finish,
    FinishReason,
    GenerationRequest,
    Load,
    ModelInfo,
    ServiceFailure,
    StopDetail,
    Timing,
    Usage,
)


class EngineCore:
    """One model being served. ``capacity`` requests may be in it at a time."""

    def __init__(
        self, decoder: Decoder, compiler: SlicedCompiler, info: ModelInfo, *, capacity: int
    ) -> None:
        self.info = info
        self.decoder = decoder
        self._compiler = compiler
        self._capacity = capacity
        #: Requests that wait for their constraint, by constraint, with their time of arrival.
        self._waiting: dict[Constraint, list[tuple[GenerationRequest, float]]] = {}
        self._chunks: list[Chunk] = []

    @property
    def is_idle(self) -> bool:
        """Whether ``step`` would do nothing."""
        return self.decoder.is_idle and not self._compiler.is_busy and not self._chunks

    @property
    def load(self) -> Load:
        """How full it is; who waits for a constraint is waiting."""
        load = self.decoder.load
        return msgspec.structs.replace(load, waiting=load.waiting + self._num_compiling())

    def handle(self, message: ToEngine) -> None:
        """Takes a message in; what follows from it comes out of ``step``."""
        match message:
            case Submit(request, lexemes):
                self.submit(request, unpack_lexemes(lexemes))
            case Cancel(request_id):
                self.cancel(request_id)
            case Start():
                raise AssertionError("Start is the first message and the only one of its kind")

    def submit(self, request: GenerationRequest, lexemes: Mapping[str, grammar.Dfa]) -> None:
        """Accepts the request, or answers QUEUE_FULL."""
        now = time.monotonic()
        if self._num_requests() >= self._capacity:
            failure = ServiceFailure(
                code="RESOURCE_EXHAUSTED",
                reason="QUEUE_FULL",
                message=f"{self._capacity} requests are running or waiting, the most accepted",
            )
            self._end(request, now, FinishReason.ERROR, failure)
            return
        constraint = request.constraint
        if constraint is None:
            self.decoder.submit(request, None, arrived=now)
            return
        compiled = self._compiler.get(constraint)
        if compiled is not None:
            self.decoder.submit(request, compiled, arrived=now)
            return
        self._waiting.setdefault(constraint, []).append((request, now))
        self._compiler.start(constraint, lexemes)

    def cancel(self, request_id: str) -> None:
        """Ends the request, wherever it is; nothing for an unknown one."""
        self.decoder.cancel(request_id)
        for waiting in self._waiting.values():
            for entry in [e for e in waiting if e[0].request_id == request_id]:
                waiting.remove(entry)
                self._end(*entry, FinishReason.CANCELLED)

    def step(self) -> list[Chunk]:
        """A slice of compiling, a step of decoding, and what came of them."""
        if self._compiler.is_busy:
            finished = self._compiler.work()
            if finished:
                self._release(*finished)
        chunks, self._chunks = self._chunks, []
        return chunks + self.decoder.step()

    def _release(
        self, constraint: Constraint, outcome: grammar.Grammar | grammar.GrammarError
    ) -> None:
        """Those who waited for this constraint go on."""
        now = time.monotonic()
        for request, arrived in self._waiting.pop(constraint, []):
            if isinstance(outcome, grammar.GrammarError):
                # The front compiled it, so this is for callers that do not come through it.
                failure = ServiceFailure(
                    code="INVALID_ARGUMENT",
                    reason="CONSTRAINT_SYNTAX",
                    message=str(outcome),
                    field=constraint.field,
                )
                self._end(request, arrived, FinishReason.ERROR, failure)
            else:
                compile_us = round((now - arrived) * 1e6)
                self.decoder.submit(request, outcome, arrived=arrived, compile_us=compile_us)

    def _num_requests(self) -> int:
        return self.decoder.num_live + self._num_compiling()

    def _num_compiling(self) -> int:
        return sum(map(len, self._waiting.values()))

    def _end(
        self,
        request: GenerationRequest,
        arrived: float,
        reason: FinishReason,
        error: ServiceFailure | None = None,
    ) -> None:
        """The one chunk of a request that never reached the decoder."""
        waited = round((time.monotonic() - arrived) * 1e6)
        finish = Finish(
            reason=reason,
            complete=False,
            detail=StopDetail(),
            usage=Usage(
                prompt_tokens=len(request.prompt_ids), completion_tokens=0, forced_tokens=0
            ),
            timing=Timing(
                queue_us=waited,
                compile_us=waited,
                time_to_first_token_us=waited,
                decode_us=0,
                mask_us=0,
            ),
            error=error,
        )
        self._chunks.append(Chunk(request_id=request.request_id, finish=finish))


def load(settings: EngineSettings, progress: Callable[[str], None] = lambda _: None) -> EngineCore:
    """Model, tokenizer and cache from disk.

    Raises UnsupportedModelError, TokenizerError, or OSError where files are missing.
    """
    tokenizer = Tokenizer.load(Path(settings.model))
    model = load_model(settings, progress)
    progress("compiling kernels (half a minute on a fresh installation)")
    grammar.warmup()
    warm_up(model)
    progress("building the vocabulary")
    vocabulary = tokenizer.vocabulary()
    kv = make_cache(model, settings)
    drafter = Drafter(vocabulary.token_bytes, vocabulary.segment)
    decoder = Decoder(
        model,
        kv,
        token_bytes=vocabulary.token_bytes,
        eos_ids=vocabulary.eos_ids,
        vocab_size=vocabulary.size,
        fill_masks=grammar.fill_masks,
        step_tokens=settings.step_tokens,
        reproducible=settings.reproducible,
        drafter=drafter if settings.speculation == "auto" else None,
    )
    info = describe(model, kv, settings, vocabulary.size)
    capacity = settings.max_rows + settings.max_queue
    return EngineCore(decoder, SlicedCompiler(vocabulary), info, capacity=capacity)
