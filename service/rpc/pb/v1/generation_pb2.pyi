from . import constraint_pb2 as _constraint_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PenaltyScope(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PENALTY_SCOPE_UNSPECIFIED: _ClassVar[PenaltyScope]
    PENALTY_SCOPE_ALL: _ClassVar[PenaltyScope]
    PENALTY_SCOPE_FREE_TEXT: _ClassVar[PenaltyScope]

class StopUnit(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STOP_UNIT_UNSPECIFIED: _ClassVar[StopUnit]
    STOP_UNIT_JSON_VALUE: _ClassVar[StopUnit]
    STOP_UNIT_BRACKETS: _ClassVar[StopUnit]
    STOP_UNIT_FENCE: _ClassVar[StopUnit]
    STOP_UNIT_LINE: _ClassVar[StopUnit]
    STOP_UNIT_SENTENCE: _ClassVar[StopUnit]

class CompletionPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPLETION_POLICY_UNSPECIFIED: _ClassVar[CompletionPolicy]
    COMPLETION_POLICY_GUARANTEED: _ClassVar[CompletionPolicy]
    COMPLETION_POLICY_BEST_EFFORT: _ClassVar[CompletionPolicy]

class LogprobsMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOGPROBS_MODE_UNSPECIFIED: _ClassVar[LogprobsMode]
    LOGPROBS_MODE_RAW: _ClassVar[LogprobsMode]
    LOGPROBS_MODE_MASKED: _ClassVar[LogprobsMode]

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    FINISH_REASON_STOP: _ClassVar[FinishReason]
    FINISH_REASON_LENGTH: _ClassVar[FinishReason]
PENALTY_SCOPE_UNSPECIFIED: PenaltyScope
PENALTY_SCOPE_ALL: PenaltyScope
PENALTY_SCOPE_FREE_TEXT: PenaltyScope
STOP_UNIT_UNSPECIFIED: StopUnit
STOP_UNIT_JSON_VALUE: StopUnit
STOP_UNIT_BRACKETS: StopUnit
STOP_UNIT_FENCE: StopUnit
STOP_UNIT_LINE: StopUnit
STOP_UNIT_SENTENCE: StopUnit
COMPLETION_POLICY_UNSPECIFIED: CompletionPolicy
COMPLETION_POLICY_GUARANTEED: CompletionPolicy
COMPLETION_POLICY_BEST_EFFORT: CompletionPolicy
LOGPROBS_MODE_UNSPECIFIED: LogprobsMode
LOGPROBS_MODE_RAW: LogprobsMode
LOGPROBS_MODE_MASKED: LogprobsMode
FINISH_REASON_UNSPECIFIED: FinishReason
FINISH_REASON_STOP: FinishReason
FINISH_REASON_LENGTH: FinishReason

class GenerateRequest(_message.Message):
    __slots__ = ("request_id", "model", "prompt", "token_ids", "chat", "sampling", "stopping", "response", "constraint", "completion_policy", "priority")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    CHAT_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_POLICY_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    model: str
    prompt: str
    token_ids: TokenIds
    chat: ChatInput
    sampling: SamplingParams
    stopping: StoppingOptions
    response: ResponseOptions
    constraint: _constraint_pb2.Constraint
    completion_policy: CompletionPolicy
    priority: int
    def __init__(self, request_id: _Optional[str] = ..., model: _Optional[str] = ..., prompt: _Optional[str] = ..., token_ids: _Optional[_Union[TokenIds, _Mapping]] = ..., chat: _Optional[_Union[ChatInput, _Mapping]] = ..., sampling: _Optional[_Union[SamplingParams, _Mapping]] = ..., stopping: _Optional[_Union[StoppingOptions, _Mapping]] = ..., response: _Optional[_Union[ResponseOptions, _Mapping]] = ..., constraint: _Optional[_Union[_constraint_pb2.Constraint, _Mapping]] = ..., completion_policy: _Optional[_Union[CompletionPolicy, str]] = ..., priority: _Optional[int] = ...) -> None: ...

class TokenIds(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class ChatInput(_message.Message):
    __slots__ = ("messages", "describe_constraint")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[ChatMessage]
    describe_constraint: bool
    def __init__(self, messages: _Optional[_Iterable[_Union[ChatMessage, _Mapping]]] = ..., describe_constraint: _Optional[bool] = ...) -> None: ...

class ChatMessage(_message.Message):
    __slots__ = ("role", "content")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    role: str
    content: str
    def __init__(self, role: _Optional[str] = ..., content: _Optional[str] = ...) -> None: ...

class SamplingParams(_message.Message):
    __slots__ = ("temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty", "seed", "n", "logit_bias", "penalty_scope", "penalize_prompt")
    class LogitBiasEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: float
        def __init__(self, key: _Optional[int] = ..., value: _Optional[float] = ...) -> None: ...
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    LOGIT_BIAS_FIELD_NUMBER: _ClassVar[int]
    PENALTY_SCOPE_FIELD_NUMBER: _ClassVar[int]
    PENALIZE_PROMPT_FIELD_NUMBER: _ClassVar[int]
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    frequency_penalty: float
    presence_penalty: float
    repetition_penalty: float
    seed: int
    n: int
    logit_bias: _containers.ScalarMap[int, float]
    penalty_scope: PenaltyScope
    penalize_prompt: bool
    def __init__(self, temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., top_k: _Optional[int] = ..., min_p: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., presence_penalty: _Optional[float] = ..., repetition_penalty: _Optional[float] = ..., seed: _Optional[int] = ..., n: _Optional[int] = ..., logit_bias: _Optional[_Mapping[int, float]] = ..., penalty_scope: _Optional[_Union[PenaltyScope, str]] = ..., penalize_prompt: _Optional[bool] = ...) -> None: ...

class StoppingOptions(_message.Message):
    __slots__ = ("max_tokens", "min_tokens", "stop", "stop_token_ids", "ignore_eos", "include_stop_in_output", "stop_regex", "unit")
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MIN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    IGNORE_EOS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_STOP_IN_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    STOP_REGEX_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    max_tokens: int
    min_tokens: int
    stop: _containers.RepeatedScalarFieldContainer[str]
    stop_token_ids: _containers.RepeatedScalarFieldContainer[int]
    ignore_eos: bool
    include_stop_in_output: bool
    stop_regex: _containers.RepeatedScalarFieldContainer[str]
    unit: StopUnit
    def __init__(self, max_tokens: _Optional[int] = ..., min_tokens: _Optional[int] = ..., stop: _Optional[_Iterable[str]] = ..., stop_token_ids: _Optional[_Iterable[int]] = ..., ignore_eos: _Optional[bool] = ..., include_stop_in_output: _Optional[bool] = ..., stop_regex: _Optional[_Iterable[str]] = ..., unit: _Optional[_Union[StopUnit, str]] = ...) -> None: ...

class ResponseOptions(_message.Message):
    __slots__ = ("logprobs", "prompt_logprobs", "logprobs_mode", "token_ids", "timing", "stream_interval")
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_MODE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    STREAM_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    logprobs: int
    prompt_logprobs: int
    logprobs_mode: LogprobsMode
    token_ids: bool
    timing: bool
    stream_interval: int
    def __init__(self, logprobs: _Optional[int] = ..., prompt_logprobs: _Optional[int] = ..., logprobs_mode: _Optional[_Union[LogprobsMode, str]] = ..., token_ids: _Optional[bool] = ..., timing: _Optional[bool] = ..., stream_interval: _Optional[int] = ...) -> None: ...

class GenerateResponse(_message.Message):
    __slots__ = ("request_id", "model", "outputs", "usage", "timing", "diagnostics", "effective_sampling", "prompt_tokens")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_SAMPLING_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    model: str
    outputs: _containers.RepeatedCompositeFieldContainer[Output]
    usage: Usage
    timing: Timing
    diagnostics: _containers.RepeatedCompositeFieldContainer[_constraint_pb2.Diagnostic]
    effective_sampling: SamplingParams
    prompt_tokens: _containers.RepeatedCompositeFieldContainer[TokenInfo]
    def __init__(self, request_id: _Optional[str] = ..., model: _Optional[str] = ..., outputs: _Optional[_Iterable[_Union[Output, _Mapping]]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., timing: _Optional[_Union[Timing, _Mapping]] = ..., diagnostics: _Optional[_Iterable[_Union[_constraint_pb2.Diagnostic, _Mapping]]] = ..., effective_sampling: _Optional[_Union[SamplingParams, _Mapping]] = ..., prompt_tokens: _Optional[_Iterable[_Union[TokenInfo, _Mapping]]] = ...) -> None: ...

class Output(_message.Message):
    __slots__ = ("index", "text", "finish_reason", "stop_detail", "complete", "tokens", "abandoned_stop_regex")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_DETAIL_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_STOP_REGEX_FIELD_NUMBER: _ClassVar[int]
    index: int
    text: str
    finish_reason: FinishReason
    stop_detail: StopDetail
    complete: bool
    tokens: _containers.RepeatedCompositeFieldContainer[TokenInfo]
    abandoned_stop_regex: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, index: _Optional[int] = ..., text: _Optional[str] = ..., finish_reason: _Optional[_Union[FinishReason, str]] = ..., stop_detail: _Optional[_Union[StopDetail, _Mapping]] = ..., complete: _Optional[bool] = ..., tokens: _Optional[_Iterable[_Union[TokenInfo, _Mapping]]] = ..., abandoned_stop_regex: _Optional[_Iterable[str]] = ...) -> None: ...

class GenerateStreamResponse(_message.Message):
    __slots__ = ("request_id", "started", "delta", "finished", "summary")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    started: Started
    delta: TextDelta
    finished: Finished
    summary: Summary
    def __init__(self, request_id: _Optional[str] = ..., started: _Optional[_Union[Started, _Mapping]] = ..., delta: _Optional[_Union[TextDelta, _Mapping]] = ..., finished: _Optional[_Union[Finished, _Mapping]] = ..., summary: _Optional[_Union[Summary, _Mapping]] = ...) -> None: ...

class Started(_message.Message):
    __slots__ = ("model", "prompt_tokens", "diagnostics", "effective_sampling")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_SAMPLING_FIELD_NUMBER: _ClassVar[int]
    model: str
    prompt_tokens: int
    diagnostics: _containers.RepeatedCompositeFieldContainer[_constraint_pb2.Diagnostic]
    effective_sampling: SamplingParams
    def __init__(self, model: _Optional[str] = ..., prompt_tokens: _Optional[int] = ..., diagnostics: _Optional[_Iterable[_Union[_constraint_pb2.Diagnostic, _Mapping]]] = ..., effective_sampling: _Optional[_Union[SamplingParams, _Mapping]] = ...) -> None: ...

class TextDelta(_message.Message):
    __slots__ = ("index", "text", "tokens")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    index: int
    text: str
    tokens: _containers.RepeatedCompositeFieldContainer[TokenInfo]
    def __init__(self, index: _Optional[int] = ..., text: _Optional[str] = ..., tokens: _Optional[_Iterable[_Union[TokenInfo, _Mapping]]] = ...) -> None: ...

class Finished(_message.Message):
    __slots__ = ("index", "finish_reason", "stop_detail", "complete", "abandoned_stop_regex")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_DETAIL_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_STOP_REGEX_FIELD_NUMBER: _ClassVar[int]
    index: int
    finish_reason: FinishReason
    stop_detail: StopDetail
    complete: bool
    abandoned_stop_regex: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, index: _Optional[int] = ..., finish_reason: _Optional[_Union[FinishReason, str]] = ..., stop_detail: _Optional[_Union[StopDetail, _Mapping]] = ..., complete: _Optional[bool] = ..., abandoned_stop_regex: _Optional[_Iterable[str]] = ...) -> None: ...

class Summary(_message.Message):
    __slots__ = ("usage", "timing", "prompt_tokens")
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    usage: Usage
    timing: Timing
    prompt_tokens: _containers.RepeatedCompositeFieldContainer[TokenInfo]
    def __init__(self, usage: _Optional[_Union[Usage, _Mapping]] = ..., timing: _Optional[_Union[Timing, _Mapping]] = ..., prompt_tokens: _Optional[_Iterable[_Union[TokenInfo, _Mapping]]] = ...) -> None: ...

class StopDetail(_message.Message):
    __slots__ = ("constraint_complete", "eos_token_id", "stop_token_id", "stop_string", "stop_regex", "budget_close", "unit")
    CONSTRAINT_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    EOS_TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    STOP_STRING_FIELD_NUMBER: _ClassVar[int]
    STOP_REGEX_FIELD_NUMBER: _ClassVar[int]
    BUDGET_CLOSE_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    constraint_complete: ConstraintComplete
    eos_token_id: int
    stop_token_id: int
    stop_string: str
    stop_regex: str
    budget_close: BudgetClose
    unit: StopUnit
    def __init__(self, constraint_complete: _Optional[_Union[ConstraintComplete, _Mapping]] = ..., eos_token_id: _Optional[int] = ..., stop_token_id: _Optional[int] = ..., stop_string: _Optional[str] = ..., stop_regex: _Optional[str] = ..., budget_close: _Optional[_Union[BudgetClose, _Mapping]] = ..., unit: _Optional[_Union[StopUnit, str]] = ...) -> None: ...

class ConstraintComplete(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BudgetClose(_message.Message):
    __slots__ = ("steered_tokens",)
    STEERED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    steered_tokens: int
    def __init__(self, steered_tokens: _Optional[int] = ...) -> None: ...

class TokenInfo(_message.Message):
    __slots__ = ("token_id", "bytes", "logprob", "rank", "candidates", "forced")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    FORCED_FIELD_NUMBER: _ClassVar[int]
    token_id: int
    bytes: bytes
    logprob: float
    rank: int
    candidates: _containers.RepeatedCompositeFieldContainer[Candidate]
    forced: bool
    def __init__(self, token_id: _Optional[int] = ..., bytes: _Optional[bytes] = ..., logprob: _Optional[float] = ..., rank: _Optional[int] = ..., candidates: _Optional[_Iterable[_Union[Candidate, _Mapping]]] = ..., forced: _Optional[bool] = ...) -> None: ...

class Candidate(_message.Message):
    __slots__ = ("token_id", "bytes", "logprob")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    token_id: int
    bytes: bytes
    logprob: float
    def __init__(self, token_id: _Optional[int] = ..., bytes: _Optional[bytes] = ..., logprob: _Optional[float] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("prompt_tokens", "completion_tokens", "total_tokens", "forced_tokens", "drafted_tokens", "accepted_draft_tokens")
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    FORCED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DRAFTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_DRAFT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    forced_tokens: int
    drafted_tokens: int
    accepted_draft_tokens: int
    def __init__(self, prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., total_tokens: _Optional[int] = ..., forced_tokens: _Optional[int] = ..., drafted_tokens: _Optional[int] = ..., accepted_draft_tokens: _Optional[int] = ...) -> None: ...

class Timing(_message.Message):
    __slots__ = ("queue_us", "compile_us", "time_to_first_token_us", "decode_us", "mask_us")
    QUEUE_US_FIELD_NUMBER: _ClassVar[int]
    COMPILE_US_FIELD_NUMBER: _ClassVar[int]
    TIME_TO_FIRST_TOKEN_US_FIELD_NUMBER: _ClassVar[int]
    DECODE_US_FIELD_NUMBER: _ClassVar[int]
    MASK_US_FIELD_NUMBER: _ClassVar[int]
    queue_us: int
    compile_us: int
    time_to_first_token_us: int
    decode_us: int
    mask_us: int
    def __init__(self, queue_us: _Optional[int] = ..., compile_us: _Optional[int] = ..., time_to_first_token_us: _Optional[int] = ..., decode_us: _Optional[int] = ..., mask_us: _Optional[int] = ...) -> None: ...
