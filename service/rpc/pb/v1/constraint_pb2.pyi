from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

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

class Constraint(_message.Message):
    __slots__ = ("json_schema", "regex", "choice", "json_format")
    JSON_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    REGEX_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    JSON_FORMAT_FIELD_NUMBER: _ClassVar[int]
    json_schema: str
    regex: str
    choice: ChoiceConstraint
    json_format: JsonFormat
    def __init__(self, json_schema: _Optional[str] = ..., regex: _Optional[str] = ..., choice: _Optional[_Union[ChoiceConstraint, _Mapping]] = ..., json_format: _Optional[_Union[JsonFormat, _Mapping]] = ...) -> None: ...

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
