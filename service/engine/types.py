"""Everything that crosses a module border of the service, and nothing else.

Requests and chunks are frozen msgspec structs: the same objects travel inside a process (tests
run the engine in-process) and, encoded as MessagePack, between the front and the engine process.
No gRPC, protobuf or torch type appears here.
"""

from __future__ import annotations

import enum
from typing import Literal

import msgspec


class FinishReason(enum.Enum):
    STOP = "stop"  # the model, a stop of the caller's, the constraint or unit came to its end
    LENGTH = "length"  # max_tokens used up, or it overruled the model so that the answer is whole
    CANCELLED = "cancelled"
    ERROR = "error"  # refused, deadline passed, or a fault of ours: ``Finish.error`` says which


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """Resolved sampling parameters: no field is absent, the front filled in the defaults."""

    temperature: float = 1.0  # 0 is greedy
    top_p: float = 1.0
    top_k: int = 0  # 0: off
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    penalize_prompt: bool = False
    penalty_scope: Literal["all", "free_text"] = "all"
    seed: int = 0  # uint64; the front draws one when the caller gave none
    logit_bias: tuple[tuple[int, float], ...] = ()  # (token id, added to its logit)


Unit = Literal["json_value", "brackets", "fence", "line", "sentence"]


class Stopping(msgspec.Struct, frozen=True, kw_only=True):
    max_tokens: int | None = None  # None: whatever context and KV allow
    min_tokens: int = 0  # no EOS or stop before; never overrides a finished constraint or unit
    stop: tuple[str, ...] = ()
    stop_regex: tuple[str, ...] = ()  # each compiles: see ``engine.stops.compile_stop_regex``
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    include_stop_in_output: bool = False


class JsonFormat(msgspec.Struct, frozen=True, kw_only=True):
    """Mirror of grammar.JsonOptions, field for field (those a caller may set)."""

    whitespace: Literal["compact", "single_space", "flexible"] = "compact"
    max_whitespace_run: int = 8
    property_order: Literal["schema", "any"] = "schema"
    additional_properties_default: Literal["auto", "allow", "forbid"] = "auto"
    ascii_only: bool = False
    formats: Literal["enforce", "annotate"] = "enforce"


class Logprobs(msgspec.Struct, frozen=True, kw_only=True):
    """Report log-probabilities (see ``scoring``)."""

    top: int = 0  # of the likeliest tokens at each place
    masked: bool = False  # over what could be chosen, else the model's own


class Constraint(msgspec.Struct, frozen=True, kw_only=True):
    """What the output must match. Hashable: it is its own cache key.

    A structural unit is one too, inside the service: free text up to the unit, then its end.
    """

    kind: Literal["json_schema", "regex", "choice", "unit"]
    text: str = ""  # schema text, pattern, or the name of a Unit
    choices: tuple[str, ...] = ()
    json_format: JsonFormat = JsonFormat()

    @property
    def field(self) -> str:
        """The request's field that it came from."""
        return "stopping.unit" if self.kind == "unit" else f"constraint.{self.kind}"


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One validated request. After ``rpc.convert`` nobody checks its fields again."""

    request_id: str
    prompt_ids: tuple[int, ...]
    sampling: Sampling
    n: int = 1  # outputs; number i is what seed + i alone would give
    stopping: Stopping = Stopping()
    constraint: Constraint | None = None
    guaranteed: bool = True  # False: BEST_EFFORT
    logprobs: Logprobs | None = None
    prompt_logprobs: int | None = None  # of the prompt's tokens, and so many of the likeliest
    priority: int = 0  # see scheduler.PRIORITY_SECONDS
    deadline: float | None = None  # time.monotonic() seconds (one clock per machine)


class StopDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Why it stopped: exactly one of these is set, or none (cancelled, max_tokens ran out)."""

    constraint_complete: bool = False
    eos_token_id: int | None = None
    stop_token_id: int | None = None
    stop_string: str | None = None
    stop_regex: str | None = None  # the pattern
    unit: Unit | None = None
    steered_tokens: int | None = None  # budget close: masks that the budget narrowed


class Ending(msgspec.Struct, frozen=True):
    """How an output ends."""

    reason: FinishReason
    complete: bool
    detail: StopDetail = StopDetail()


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Of one output; the prompt's tokens are counted with the first of a request."""

    prompt_tokens: int
    completion_tokens: int
    forced_tokens: int
    cached_tokens: int = 0
    drafted_tokens: int = 0  # guessed ahead, to be checked several a step
    accepted_draft_tokens: int = 0  # ... that turned out right


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Microseconds."""

    queue_us: int
    compile_us: int
    time_to_first_token_us: int
    decode_us: int
    mask_us: int


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    reason: FinishReason
    complete: bool
    detail: StopDetail
    usage: Usage
    timing: Timing
    abandoned: tuple[int, ...] = ()  # stop regexes, by place, no longer watched: too slow
    prompt_scores: tuple[
        Score, ...
    ] = ()  # if asked for: of all tokens of the prompt but the first
    error: ServiceFailure | None = None  # set exactly when reason is ERROR


class ServiceFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal or fault, ready for the wire: see service.errors for codes and reasons."""

    code: str  # name of service.errors.Code
    reason: str  # UPPER_SNAKE, stable
    message: str
    metadata: dict[str, str] = {}
    field: str = ""  # request field path, for BadRequest


class Candidate(msgspec.Struct, frozen=True, array_like=True):
    token_id: int
    logprob: float


class Score(msgspec.Struct, frozen=True, array_like=True):
    """How likely a token was at its place; ``rank`` 1 is the likeliest."""

    logprob: float
    rank: int
    candidates: tuple[Candidate, ...]  # the likeliest, in that order


class Token(msgspec.Struct, frozen=True, array_like=True):
    token_id: int
    forced: bool
    score: Score | None = None  # if asked for


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of one output: at most one per output and step. Its last one has ``finish``.

    A request ends when all its outputs have, or with the first error or cancel.
    """

    request_id: str
    index: int = 0  # of the output
    text: str = ""  # whole UTF-8 characters, never cumulative
    tokens: tuple[Token, ...] = ()  # those accepted and scored (text may lag behind, or be ahead)
    finish: Finish | None = None


class Load(msgspec.Struct, frozen=True, array_like=True):
    """How full the engine is after a step."""

    running: int  # requests that have a row
    waiting: int  # accepted requests that have none yet
    kv_used_blocks: int  # those that a row holds; remembered prefixes count as free
    kv_blocks: int
    preemptions: int  # since the process started


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine process is started with."""

    model: str  # folder, or id on the hub
    name: str = ""  # what requests call it; "": the last part of ``model``
    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"  # auto: bfloat16 on CUDA, else float32
    weights: Literal["auto", "full", "int4", "mixed"] = "auto"  # see loading.load_model
    threads: int = 0  # CPU threads of the model; 0: one a core
    max_rows: int = 8  # requests decoded together
    max_queue: int = 64  # requests waiting beyond those
    max_context: int = 0  # prompt plus output, in tokens; 0: the model's
    kv_bytes: int = 1 << 30  # KV pool; less is taken when max_rows full contexts need less
    step_tokens: int = 512  # positions computed in one step: bounds how long others wait
    reproducible: bool = False  # decision 14
    speculation: Literal["auto", "off"] = "auto"  # guess tokens ahead where that pays
    log_level: str = "info"
    log_format: Literal["text", "json"] = "text"


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The loaded model, as the front needs to know it."""

    name: str
    vocab_size: int  # token ids that mean something: 0 .. vocab_size - 1
    logit_size: int  # width of the logits, padding included
    max_context_tokens: int
    max_request_tokens: int  # what the KV pool holds for one request; never above the context
    eos_token_ids: tuple[int, ...]
    dtype: str
    device: str
    default_sampling: Sampling = Sampling()
