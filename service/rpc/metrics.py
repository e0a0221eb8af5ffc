"""What Prometheus may know of this server: counts and times, and never a text.

``Metrics`` is told by three parties: the interceptor ``counting`` of calls, the front of requests
that arrive and leave, and the engine's steps of everything else. Times of tokens are taken when
the engine's message arrives, so a slow reader does not look like a slow model.

Labels have few values: a method, a code, a finish reason; never a model's or a caller's name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from service.config import split_address
from service.engine.types import Chunk, Finish, Load

_CALL_BUCKETS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)  # seconds
_TOKEN_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 5)
_COMPILE_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)


class ExportError(Exception):
    """The metrics cannot be shown where they were asked for."""


@dataclass(slots=True)
class _Clock:
    """Of one request: when its place was taken, then when its last tokens came."""

    last: float
    has_tokens: bool = False


class Metrics:
    """Everything that is exported; ``registry`` has it all. Used from the event loop alone."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = registry = CollectorRegistry()
        self._clock = clock
        self._clocks: dict[str, _Clock] = {}
        self._preemptions = 0

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"syntaxd_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"syntaxd_{name}", text, registry=registry)

        def histogram(name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(f"syntaxd_{name}", text, labels, buckets=buckets, registry=registry)

        self._calls = counter("calls", "Calls that ended.", "method", "code")
        self._call_seconds = histogram(
            "call_seconds", "From a call's arrival to its end.", _CALL_BUCKETS, "method"
        )
        self._requests = gauge("requests", "Generations that hold a place: in any stage.")
        self._running = gauge("requests_running", "Generations that hold a row of the model.")
        self._waiting = gauge("requests_waiting", "Generations in the engine without a row yet.")
        self._queue_seconds = histogram(
            "queue_seconds", "From the engine's acceptance to a row.", _CALL_BUCKETS
        )
        self._first_token = histogram(
            "time_to_first_token_seconds",
            "From a place taken to the first token: queue, tokenising and compiling included.",
            _CALL_BUCKETS,
        )
        self._inter_token = histogram(
            "inter_token_seconds",
            "Between two steps that gave a request tokens, for each of the latter's tokens.",
            _TOKEN_BUCKETS,
        )
        self._prompt_tokens = counter("prompt_tokens", "Tokens of prompts.")
        self._cached_tokens = counter(
            "cached_prompt_tokens", "Tokens of prompts that were in the prefix cache."
        )
        self._output_tokens = counter("output_tokens", "Tokens of answers.")
        self._forced_tokens = counter("forced_tokens", "Tokens of answers without a choice.")
        self._drafted_tokens = counter("drafted_tokens", "Tokens guessed ahead and checked.")
        self._accepted_tokens = counter(
            "accepted_draft_tokens", "Those of them that were right: each saved its row a step."
        )
        self._mask_seconds = counter("mask_seconds", "Time to fill token masks.")
        self._answers = counter("answers", "Generations that ended.", "finish_reason", "complete")
        self._lookups = counter(
            "constraint_lookups", "Constraints known before (hit) or compiled (miss).", "result"
        )
        self._compile_seconds = histogram(
            "compile_seconds", "Time to compile one constraint.", _COMPILE_BUCKETS
        )
        self._engine_deaths = counter(
            "engine_deaths", "Times the engine process ended without being told to."
        )
        self._kv_usage = gauge("kv_usage_ratio", "Share of the key-value blocks that rows hold.")
        self._num_preemptions = counter(
            "preemptions", "Rows that gave their blocks up for an older one."
        )

    def watch_certificate(self, expires: Callable[[], float]) -> None:
        """``expires`` gives the time (Unix seconds) at which the server's certificate does."""
        name, text = (
            "syntaxd_certificate_expiry_timestamp_seconds",
            "When the certificate expires.",
        )
        Gauge(name, text, registry=self.registry).set_function(expires)

    # --- calls ---

    def call_ended(self, method: str, code: str, seconds: float) -> None:
        """A call of ``Service/Method`` ended with this code's name."""
        self._calls.labels(method, code).inc()
        self._call_seconds.labels(method).observe(seconds)

    # --- requests, as the front sees them ---

    def arrived(self, request_id: str) -> None:
        """The request has a place."""
        self._clocks[request_id] = _Clock(self._clock())
        self._requests.set(len(self._clocks))

    def left(self, request_id: str) -> None:
        """Its place is free again."""
        del self._clocks[request_id]
        self._requests.set(len(self._clocks))

    def constraint_found(self, *, cached: bool, seconds: float) -> None:
        """A constraint was known, or compiled in so many seconds."""
        self._lookups.labels("hit" if cached else "miss").inc()
        if not cached:
            self._compile_seconds.observe(seconds)

    # --- steps of the engine ---

    def step(self, chunks: Sequence[Chunk], load: Load) -> None:
        """What a step produced, and how full it left the engine."""
        now = self._clock()
        for chunk in chunks:
            if chunk.tokens:
                self._tokens(chunk, now)
            if chunk.finish:
                self._finished(chunk.finish)
        self._running.set(load.running)
        self._waiting.set(load.waiting)
        self._kv_usage.set(load.kv_used_blocks / load.kv_blocks)
        # The engine counts from its start; a smaller number is that of a new process.
        new = load.preemptions - self._preemptions
        self._num_preemptions.inc(new if new >= 0 else load.preemptions)
        self._preemptions = load.preemptions

    def engine_died(self) -> None:
        """The engine process has gone, with every row in it."""
        self._engine_deaths.inc()
        for gauge in (self._running, self._waiting, self._kv_usage):
            gauge.set(0)

    def _tokens(self, chunk: Chunk, now: float) -> None:
        self._output_tokens.inc(len(chunk.tokens))
        self._forced_tokens.inc(sum(token.forced for token in chunk.tokens))
        clock = self._clocks.get(chunk.request_id)
        if clock is None:  # its caller has gone
            return
        passed, clock.last = now - clock.last, now
        if clock.has_tokens:
            self._inter_token.observe(passed / len(chunk.tokens))
        else:
            self._first_token.observe(passed)
            clock.has_tokens = True

    def _finished(self, finish: Finish) -> None:
        complete = "true" if finish.complete else "false"
        self._answers.labels(finish.reason.value, complete).inc()
        self._queue_seconds.observe(finish.timing.queue_us / 1e6)
        self._prompt_tokens.inc(finish.usage.prompt_tokens)
        self._cached_tokens.inc(finish.usage.cached_tokens)
        self._drafted_tokens.inc(finish.usage.drafted_tokens)
        self._accepted_tokens.inc(finish.usage.accepted_draft_tokens)
        self._mask_seconds.inc(finish.timing.mask_us / 1e6)


@contextmanager
def exporting(metrics: Metrics, address: str) -> Iterator[str | None]:
    """Serves ``/metrics`` at HOST:PORT; gives its URL, or None where ``address`` is empty.

    A thread of its own answers: a scrape takes about a millisecond. Raises ExportError.
    """
    if not address:
        yield None
        return
    host, port = split_address(address)
    # They would be one more gauge for each series, which nobody reads.
    prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
    try:
        server, thread = prometheus_client.start_http_server(port, host, metrics.registry)
    except OSError as error:
        raise ExportError(f"--metrics: cannot listen on {address}: {error}") from error
    shown = f"[{host}]" if ":" in host else host
    try:
        yield f"http://{shown}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
