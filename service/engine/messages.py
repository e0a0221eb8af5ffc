"""What crosses the border between the front and the engine process: typed messages in frames.

    front -> engine    Start (first), then Submit, Cancel
    engine -> front    Progress*, then Ready or Failed; then one Chunks a step

A frame is a little-endian uint32 length and that many bytes of MessagePack.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

import grammar
from service.engine.types import Chunk, EngineSettings, GenerationRequest, Load, ModelInfo

_LENGTH = struct.Struct("<I")


class Lexeme(msgspec.Struct, frozen=True, array_like=True):
    """A ``grammar.Dfa`` in bytes: int32[n, 256] and int32[n], little-endian, and the start."""

    table: bytes
    accept: bytes
    start: int


class Start(msgspec.Struct, frozen=True, tag=True):
    """What the process is to serve."""

    settings: EngineSettings


class Submit(msgspec.Struct, frozen=True, tag=True):
    """A request, with the automata that its constraint needs, built by the front."""

    request: GenerationRequest
    lexemes: dict[str, Lexeme]


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """The request is of no more interest."""

    request_id: str


class Progress(msgspec.Struct, frozen=True, tag=True):
    """What loading does now."""

    message: str


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Loaded; requests may come."""

    info: ModelInfo


class Failed(msgspec.Struct, frozen=True, tag=True):
    """Loading failed; the process ends."""

    message: str


class Chunks(msgspec.Struct, frozen=True, tag=True):
    """What one step produced, and how full it left the engine."""

    chunks: list[Chunk]
    load: Load


ToEngine = Start | Submit | Cancel
ToFront = Progress | Ready | Failed | Chunks

_encode = msgspec.msgpack.Encoder().encode
decode_to_engine = msgspec.msgpack.Decoder(ToEngine).decode
decode_to_front = msgspec.msgpack.Decoder(ToFront).decode


def frame(message: ToEngine | ToFront) -> bytes:
    """The message as one frame."""
    body = _encode(message)
    return _LENGTH.pack(len(body)) + body


class FrameBuffer:
    """Bytes in as they arrive, bodies of whole frames out."""

    def __init__(self) -> None:
        self._data = bytearray()

    def push(self, data: bytes) -> Iterator[bytes]:
        """The frames that ``data`` completes."""
        self._data += data
        start = 0
        while len(self._data) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._data, start)
            end = start + _LENGTH.size + length
            if end > len(self._data):
                break
            yield bytes(self._data[start + _LENGTH.size : end])
            start = end
        del self._data[:start]


def pack_lexemes(lexemes: Mapping[str, grammar.Dfa] | None) -> dict[str, Lexeme]:
    """Automata as they travel."""
    return {
        key: Lexeme(dfa.table.tobytes(), dfa.accept.tobytes(), dfa.start)
        for key, dfa in (lexemes or {}).items()
    }


def unpack_lexemes(lexemes: Mapping[str, Lexeme]) -> dict[str, grammar.Dfa]:
    """Automata as they arrived; their arrays share the message's memory."""
    return {
        key: grammar.Dfa(
            np.frombuffer(each.table, dtype=np.int32).reshape(-1, 256),
            np.frombuffer(each.accept, dtype=np.int32),
            each.start,
        )
        for key, each in lexemes.items()
    }
