from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetModelRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetModelResponse(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: Model
    def __init__(self, model: _Optional[_Union[Model, _Mapping]] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("name", "max_context_tokens", "vocab_size", "eos_token_ids", "capabilities")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MAX_CONTEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    EOS_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    name: str
    max_context_tokens: int
    vocab_size: int
    eos_token_ids: _containers.RepeatedScalarFieldContainer[int]
    capabilities: Capabilities
    def __init__(self, name: _Optional[str] = ..., max_context_tokens: _Optional[int] = ..., vocab_size: _Optional[int] = ..., eos_token_ids: _Optional[_Iterable[int]] = ..., capabilities: _Optional[_Union[Capabilities, _Mapping]] = ...) -> None: ...

class Capabilities(_message.Message):
    __slots__ = ("constraint_kinds", "limits")
    CONSTRAINT_KINDS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    constraint_kinds: _containers.RepeatedScalarFieldContainer[str]
    limits: Limits
    def __init__(self, constraint_kinds: _Optional[_Iterable[str]] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("max_schema_bytes", "max_schema_depth", "max_regex_bytes", "max_choices", "compile_timeout_ms")
    MAX_SCHEMA_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_SCHEMA_DEPTH_FIELD_NUMBER: _ClassVar[int]
    MAX_REGEX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_CHOICES_FIELD_NUMBER: _ClassVar[int]
    COMPILE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    max_schema_bytes: int
    max_schema_depth: int
    max_regex_bytes: int
    max_choices: int
    compile_timeout_ms: int
    def __init__(self, max_schema_bytes: _Optional[int] = ..., max_schema_depth: _Optional[int] = ..., max_regex_bytes: _Optional[int] = ..., max_choices: _Optional[int] = ..., compile_timeout_ms: _Optional[int] = ...) -> None: ...
