from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class KeywordTreatment(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KEYWORD_TREATMENT_UNSPECIFIED: _ClassVar[KeywordTreatment]
    KEYWORD_TREATMENT_ENFORCED: _ClassVar[KeywordTreatment]
    KEYWORD_TREATMENT_ANNOTATION: _ClassVar[KeywordTreatment]

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    VERDICT_COMPLETE: _ClassVar[Verdict]
    VERDICT_INCOMPLETE: _ClassVar[Verdict]
    VERDICT_REJECTED: _ClassVar[Verdict]

class Whitespace(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WHITESPACE_UNSPECIFIED: _ClassVar[Whitespace]
    WHITESPACE_COMPACT: _ClassVar[Whitespace]
    WHITESPACE_SINGLE_SPACE: _ClassVar[Whitespace]
    WHITESPACE_FLEXIBLE: _ClassVar[Whitespace]

class PropertyOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROPERTY_ORDER_UNSPECIFIED: _ClassVar[PropertyOrder]
    PROPERTY_ORDER_SCHEMA: _ClassVar[PropertyOrder]
    PROPERTY_ORDER_ANY: _ClassVar[PropertyOrder]

class AdditionalPropertiesDefault(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ADDITIONAL_PROPERTIES_DEFAULT_UNSPECIFIED: _ClassVar[AdditionalPropertiesDefault]
    ADDITIONAL_PROPERTIES_DEFAULT_ALLOW: _ClassVar[AdditionalPropertiesDefault]
    ADDITIONAL_PROPERTIES_DEFAULT_FORBID: _ClassVar[AdditionalPropertiesDefault]

class Formats(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FORMATS_UNSPECIFIED: _ClassVar[Formats]
    FORMATS_ENFORCE: _ClassVar[Formats]
    FORMATS_ANNOTATE: _ClassVar[Formats]

class Severity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SEVERITY_UNSPECIFIED: _ClassVar[Severity]
    SEVERITY_WARNING: _ClassVar[Severity]
    SEVERITY_INFO: _ClassVar[Severity]
KEYWORD_TREATMENT_UNSPECIFIED: KeywordTreatment
KEYWORD_TREATMENT_ENFORCED: KeywordTreatment
KEYWORD_TREATMENT_ANNOTATION: KeywordTreatment
VERDICT_UNSPECIFIED: Verdict
VERDICT_COMPLETE: Verdict
VERDICT_INCOMPLETE: Verdict
VERDICT_REJECTED: Verdict
WHITESPACE_UNSPECIFIED: Whitespace
WHITESPACE_COMPACT: Whitespace
WHITESPACE_SINGLE_SPACE: Whitespace
WHITESPACE_FLEXIBLE: Whitespace
PROPERTY_ORDER_UNSPECIFIED: PropertyOrder
PROPERTY_ORDER_SCHEMA: PropertyOrder
PROPERTY_ORDER_ANY: PropertyOrder
ADDITIONAL_PROPERTIES_DEFAULT_UNSPECIFIED: AdditionalPropertiesDefault
ADDITIONAL_PROPERTIES_DEFAULT_ALLOW: AdditionalPropertiesDefault
ADDITIONAL_PROPERTIES_DEFAULT_FORBID: AdditionalPropertiesDefault
FORMATS_UNSPECIFIED: Formats
FORMATS_ENFORCE: Formats
FORMATS_ANNOTATE: Formats
SEVERITY_UNSPECIFIED: Severity
SEVERITY_WARNING: Severity
SEVERITY_INFO: Severity

class CompileConstraintRequest(_message.Message):
    __slots__ = ("model", "constraint", "pin")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    PIN_FIELD_NUMBER: _ClassVar[int]
    model: str
    constraint: Constraint
    pin: bool
    def __init__(self, model: _Optional[str] = ..., constraint: _Optional[_Union[Constraint, _Mapping]] = ..., pin: _Optional[bool] = ...) -> None: ...

class CompileConstraintResponse(_message.Message):
    __slots__ = ("constraint",)
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    constraint: CompiledConstraint
    def __init__(self, constraint: _Optional[_Union[CompiledConstraint, _Mapping]] = ...) -> None: ...

class CompiledConstraint(_message.Message):
    __slots__ = ("constraint_id", "diagnostics", "min_output_tokens", "max_output_tokens", "example", "compiled_bytes", "compile_time_us", "cached", "pinned", "keywords", "keywords_left_out", "diagnostics_left_out")
    CONSTRAINT_ID_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    MIN_OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_FIELD_NUMBER: _ClassVar[int]
    COMPILED_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMPILE_TIME_US_FIELD_NUMBER: _ClassVar[int]
    CACHED_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    KEYWORDS_FIELD_NUMBER: _ClassVar[int]
    KEYWORDS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    constraint_id: str
    diagnostics: _containers.RepeatedCompositeFieldContainer[Diagnostic]
    min_output_tokens: int
    max_output_tokens: int
    example: str
    compiled_bytes: int
    compile_time_us: int
    cached: bool
    pinned: bool
    keywords: _containers.RepeatedCompositeFieldContainer[KeywordReport]
    keywords_left_out: int
    diagnostics_left_out: int
    def __init__(self, constraint_id: _Optional[str] = ..., diagnostics: _Optional[_Iterable[_Union[Diagnostic, _Mapping]]] = ..., min_output_tokens: _Optional[int] = ..., max_output_tokens: _Optional[int] = ..., example: _Optional[str] = ..., compiled_bytes: _Optional[int] = ..., compile_time_us: _Optional[int] = ..., cached: _Optional[bool] = ..., pinned: _Optional[bool] = ..., keywords: _Optional[_Iterable[_Union[KeywordReport, _Mapping]]] = ..., keywords_left_out: _Optional[int] = ..., diagnostics_left_out: _Optional[int] = ...) -> None: ...

class KeywordReport(_message.Message):
    __slots__ = ("location", "keyword", "treatment", "reason")
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    KEYWORD_FIELD_NUMBER: _ClassVar[int]
    TREATMENT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    location: str
    keyword: str
    treatment: KeywordTreatment
    reason: str
    def __init__(self, location: _Optional[str] = ..., keyword: _Optional[str] = ..., treatment: _Optional[_Union[KeywordTreatment, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class CheckTextRequest(_message.Message):
    __slots__ = ("model", "constraint", "text")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    model: str
    constraint: Constraint
    text: str
    def __init__(self, model: _Optional[str] = ..., constraint: _Optional[_Union[Constraint, _Mapping]] = ..., text: _Optional[str] = ...) -> None: ...

class CheckTextResponse(_message.Message):
    __slots__ = ("verdict", "byte_offset", "expected", "shortest_completion", "spelling_only")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    BYTE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    SHORTEST_COMPLETION_FIELD_NUMBER: _ClassVar[int]
    SPELLING_ONLY_FIELD_NUMBER: _ClassVar[int]
    verdict: Verdict
    byte_offset: int
    expected: _containers.RepeatedScalarFieldContainer[str]
    shortest_completion: str
    spelling_only: bool
    def __init__(self, verdict: _Optional[_Union[Verdict, str]] = ..., byte_offset: _Optional[int] = ..., expected: _Optional[_Iterable[str]] = ..., shortest_completion: _Optional[str] = ..., spelling_only: _Optional[bool] = ...) -> None: ...

class GetConstraintRequest(_message.Message):
    __slots__ = ("constraint_id",)
    CONSTRAINT_ID_FIELD_NUMBER: _ClassVar[int]
    constraint_id: str
    def __init__(self, constraint_id: _Optional[str] = ...) -> None: ...

class GetConstraintResponse(_message.Message):
    __slots__ = ("constraint",)
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    constraint: CompiledConstraint
    def __init__(self, constraint: _Optional[_Union[CompiledConstraint, _Mapping]] = ...) -> None: ...

class DeleteConstraintRequest(_message.Message):
    __slots__ = ("constraint_id",)
    CONSTRAINT_ID_FIELD_NUMBER: _ClassVar[int]
    constraint_id: str
    def __init__(self, constraint_id: _Optional[str] = ...) -> None: ...

class DeleteConstraintResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Constraint(_message.Message):
    __slots__ = ("json_schema", "regex", "choice", "constraint_id", "json_format")
    JSON_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    REGEX_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_ID_FIELD_NUMBER: _ClassVar[int]
    JSON_FORMAT_FIELD_NUMBER: _ClassVar[int]
    json_schema: str
    regex: str
    choice: ChoiceConstraint
    constraint_id: str
    json_format: JsonFormat
    def __init__(self, json_schema: _Optional[str] = ..., regex: _Optional[str] = ..., choice: _Optional[_Union[ChoiceConstraint, _Mapping]] = ..., constraint_id: _Optional[str] = ..., json_format: _Optional[_Union[JsonFormat, _Mapping]] = ...) -> None: ...

class ChoiceConstraint(_message.Message):
    __slots__ = ("choices",)
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    choices: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, choices: _Optional[_Iterable[str]] = ...) -> None: ...

class JsonFormat(_message.Message):
    __slots__ = ("whitespace", "max_whitespace_run", "property_order", "additional_properties_default", "ascii_only", "formats")
    WHITESPACE_FIELD_NUMBER: _ClassVar[int]
    MAX_WHITESPACE_RUN_FIELD_NUMBER: _ClassVar[int]
    PROPERTY_ORDER_FIELD_NUMBER: _ClassVar[int]
    ADDITIONAL_PROPERTIES_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    ASCII_ONLY_FIELD_NUMBER: _ClassVar[int]
    FORMATS_FIELD_NUMBER: _ClassVar[int]
    whitespace: Whitespace
    max_whitespace_run: int
    property_order: PropertyOrder
    additional_properties_default: AdditionalPropertiesDefault
    ascii_only: bool
    formats: Formats
    def __init__(self, whitespace: _Optional[_Union[Whitespace, str]] = ..., max_whitespace_run: _Optional[int] = ..., property_order: _Optional[_Union[PropertyOrder, str]] = ..., additional_properties_default: _Optional[_Union[AdditionalPropertiesDefault, str]] = ..., ascii_only: _Optional[bool] = ..., formats: _Optional[_Union[Formats, str]] = ...) -> None: ...

class Diagnostic(_message.Message):
    __slots__ = ("severity", "code", "location", "message")
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    severity: Severity
    code: str
    location: str
    message: str
    def __init__(self, severity: _Optional[_Union[Severity, str]] = ..., code: _Optional[str] = ..., location: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...
