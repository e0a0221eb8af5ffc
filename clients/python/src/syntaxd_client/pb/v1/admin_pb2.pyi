from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ServerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SERVER_STATE_UNSPECIFIED: _ClassVar[ServerState]
    SERVER_STATE_SERVING: _ClassVar[ServerState]
    SERVER_STATE_LOADING: _ClassVar[ServerState]
    SERVER_STATE_DRAINING: _ClassVar[ServerState]
SERVER_STATE_UNSPECIFIED: ServerState
SERVER_STATE_SERVING: ServerState
SERVER_STATE_LOADING: ServerState
SERVER_STATE_DRAINING: ServerState

class GetServerInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetServerInfoResponse(_message.Message):
    __slots__ = ("version", "instance_id", "model", "device", "start_time_unix_ms", "state")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    version: str
    instance_id: str
    model: str
    device: str
    start_time_unix_ms: int
    state: ServerState
    def __init__(self, version: _Optional[str] = ..., instance_id: _Optional[str] = ..., model: _Optional[str] = ..., device: _Optional[str] = ..., start_time_unix_ms: _Optional[int] = ..., state: _Optional[_Union[ServerState, str]] = ...) -> None: ...

class GetLoadRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetLoadResponse(_message.Message):
    __slots__ = ("running_requests", "queued_requests", "max_requests", "compiling_constraints", "used_kv_blocks", "total_kv_blocks", "constraint_cache_bytes")
    RUNNING_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    MAX_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    COMPILING_CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    USED_KV_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_KV_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_CACHE_BYTES_FIELD_NUMBER: _ClassVar[int]
    running_requests: int
    queued_requests: int
    max_requests: int
    compiling_constraints: int
    used_kv_blocks: int
    total_kv_blocks: int
    constraint_cache_bytes: int
    def __init__(self, running_requests: _Optional[int] = ..., queued_requests: _Optional[int] = ..., max_requests: _Optional[int] = ..., compiling_constraints: _Optional[int] = ..., used_kv_blocks: _Optional[int] = ..., total_kv_blocks: _Optional[int] = ..., constraint_cache_bytes: _Optional[int] = ...) -> None: ...

class CancelRequestRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class CancelRequestResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ("running_calls",)
    RUNNING_CALLS_FIELD_NUMBER: _ClassVar[int]
    running_calls: int
    def __init__(self, running_calls: _Optional[int] = ...) -> None: ...
