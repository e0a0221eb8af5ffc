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

class ListModelsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ("models", "next_page_token")
    MODELS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[Model]
    next_page_token: str
    def __init__(self, models: _Optional[_Iterable[_Union[Model, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class TokenizeRequest(_message.Message):
    __slots__ = ("model", "text", "add_special_tokens", "token_bytes")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ADD_SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_BYTES_FIELD_NUMBER: _ClassVar[int]
    model: str
    text: str
    add_special_tokens: bool
    token_bytes: bool
    def __init__(self, model: _Optional[str] = ..., text: _Optional[str] = ..., add_special_tokens: _Optional[bool] = ..., token_bytes: _Optional[bool] = ...) -> None: ...

class TokenizeResponse(_message.Message):
    __slots__ = ("token_ids", "token_bytes")
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_BYTES_FIELD_NUMBER: _ClassVar[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    token_bytes: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, token_ids: _Optional[_Iterable[int]] = ..., token_bytes: _Optional[_Iterable[bytes]] = ...) -> None: ...

class DetokenizeRequest(_message.Message):
    __slots__ = ("model", "token_ids", "skip_special_tokens")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    SKIP_SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    model: str
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    skip_special_tokens: bool
    def __init__(self, model: _Optional[str] = ..., token_ids: _Optional[_Iterable[int]] = ..., skip_special_tokens: _Optional[bool] = ...) -> None: ...

class DetokenizeResponse(_message.Message):
    __slots__ = ("text", "raw_bytes")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    RAW_BYTES_FIELD_NUMBER: _ClassVar[int]
    text: str
    raw_bytes: bytes
    def __init__(self, text: _Optional[str] = ..., raw_bytes: _Optional[bytes] = ...) -> None: ...

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
    __slots__ = ("constraint_kinds", "json_schema_keywords", "json_schema_drafts", "string_formats", "limits")
    CONSTRAINT_KINDS_FIELD_NUMBER: _ClassVar[int]
    JSON_SCHEMA_KEYWORDS_FIELD_NUMBER: _ClassVar[int]
    JSON_SCHEMA_DRAFTS_FIELD_NUMBER: _ClassVar[int]
    STRING_FORMATS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    constraint_kinds: _containers.RepeatedScalarFieldContainer[str]
    json_schema_keywords: _containers.RepeatedScalarFieldContainer[str]
    json_schema_drafts: _containers.RepeatedScalarFieldContainer[str]
    string_formats: _containers.RepeatedScalarFieldContainer[str]
    limits: Limits
    def __init__(self, constraint_kinds: _Optional[_Iterable[str]] = ..., json_schema_keywords: _Optional[_Iterable[str]] = ..., json_schema_drafts: _Optional[_Iterable[str]] = ..., string_formats: _Optional[_Iterable[str]] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ...) -> None: ...

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
