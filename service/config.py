"""The server's settings: flags and environment read once, validated once, frozen.

A field of ``Config`` is a flag (``--max-rows``) and an environment variable
(``SYNTAXD_MAX_ROWS``); the flag wins. Its help text stands beside it.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_type_hints

ENVIRONMENT_PREFIX = "SYNTAXD_"
MAX_PORT = 65_535
_METAVARS = {int: "N", float: "SECONDS", str: "TEXT"}
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}


class ConfigError(ValueError):
    """A setting is wrong; the message names the flag and the variable."""


def _setting(default: Any, text: str, *, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"help": text, "choices": choices})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Settings of ``syntaxd serve``. Raises ConfigError for a value outside its range."""

    host: str = _setting("127.0.0.1", "address to listen on; without TLS keep it local")
    api_keys: str = _setting(
        "", "file of keys, one a line, of which each call needs one; empty: anybody may call"
    )
    tls_certificate: str = _setting(
        "", "PEM file of the server's certificate and those above it; empty: no TLS"
    )
    tls_key: str = _setting("", "PEM file of its private key, unencrypted")
    tls_client_ca: str = _setting(
        "", "PEM file of authorities, by one of which each client must be certified (mutual TLS)"
    )
    reflection: Literal["on", "off"] = _setting(
        "on", "whether the server describes its services to who asks", choices=("on", "off")
    )
    admin: str = _setting(
        "off", "AdminService: off, on (the same port), or HOST:PORT for a port of its own"
    )
    metrics: str = _setting(
        "", "HOST:PORT where Prometheus finds /metrics; port 0 picks a free one; empty: nowhere"
    )
    port: int = _setting(50051, "port to listen on; 0 picks a free one and prints it")
    model: str = _setting("default", "'default', a folder, or organisation/name on the hub")
    model_name: str = _setting("", "name that requests use; empty: the folder's name")
    device: Literal["auto", "cpu", "cuda"] = _setting(
        "auto", "where the model runs; auto: CUDA if there is one", choices=("auto", "cpu", "cuda")
    )
    dtype: Literal["auto", "float32", "bfloat16"] = _setting(
        "auto",
        "numbers the model computes with; auto: bfloat16 on CUDA, float32 on a CPU",
        choices=("auto", "float32", "bfloat16"),
    )
    weights: Literal["auto", "full", "int4", "mixed"] = _setting(
        "auto",
        "how a CPU keeps a Llama's weights; int4: 4 bits each, several times as fast for few "
        "positions; full: as dtype says; mixed: both, each step with what is faster for it; auto: "
        "mixed where dtype is auto and the weights had 4 bits to begin with, then int4 if "
        "reproducible",
        choices=("auto", "full", "int4", "mixed"),
    )
    threads: int = _setting(0, "CPU threads of the model; 0: one a core")
    max_rows: int = _setting(8, "requests decoded together")
    max_queue: int = _setting(64, "requests waiting beyond those; more get QUEUE_FULL")
    max_context: int = _setting(0, "longest prompt plus output, in tokens; 0: the model's")
    kv_bytes: int = _setting(1 << 30, "memory for keys and values, in bytes")
    step_tokens: int = _setting(512, "positions computed in one step: how long others wait")
    reproducible: bool = _setting(
        False, "the same tokens whatever shares the batch, at some cost in speed"
    )
    engine_restarts: int = _setting(
        5,
        "times in a row the engine process is started again after it died, with growing pauses; "
        "then the server ends with status 1",
    )
    speculation: Literal["auto", "off"] = _setting(
        "auto",
        "check several guessed tokens a step; auto: where that measures faster; guesses change no "
        "answer that --reproducible or --weights int4 give",
        choices=("auto", "off"),
    )
    compile_timeout_ms: int = _setting(10_000, "longest time to compile one constraint")
    constraint_cache_bytes: int = _setting(
        256 << 20, "memory for compiled constraints that are not pinned, in bytes"
    )
    max_pins: int = _setting(1_000, "constraints that may be pinned")
    max_pinned_bytes: int = _setting(256 << 20, "memory for pinned constraints, in bytes")
    max_message_bytes: int = _setting(4 << 20, "largest request message")
    drain_seconds: float = _setting(30.0, "after SIGTERM, how long running requests may go on")
    log_format: Literal["text", "json"] = _setting(
        "text", "log lines for people, or a JSON object a line", choices=("text", "json")
    )
    log_calls: bool = _setting(False, "a log line for each call that ends; never its content")
    log_level: str = _setting(
        "info", "least severe log lines shown", choices=("debug", "info", "warning", "error")
    )

    def __post_init__(self) -> None:
        _within("port", self.port, 0, MAX_PORT)
        _within("threads", self.threads, 0, 1_024)
        _within("max_rows", self.max_rows, 1, 4_096)
        _within("max_queue", self.max_queue, 0, 1_000_000)
        _within("max_context", self.max_context, 0, 1 << 30)
        _within("kv_bytes", self.kv_bytes, 1 << 20, 1 << 44)
        _within("step_tokens", self.step_tokens, 1, 1 << 20)
        _within("engine_restarts", self.engine_restarts, 0, 1_000_000)
        _within("compile_timeout_ms", self.compile_timeout_ms, 1, 3_600_000)
        _within("constraint_cache_bytes", self.constraint_cache_bytes, 0, 1 << 44)
        _within("max_pins", self.max_pins, 0, 1_000_000)
        _within("max_pinned_bytes", self.max_pinned_bytes, 0, 1 << 44)
        _within("max_message_bytes", self.max_message_bytes, 1_024, 1 << 30)
        _within("drain_seconds", self.drain_seconds, 0, 86_400)
        _address("metrics", self.metrics)
        if self.admin not in ("off", "on"):
            _address("admin", self.admin or "nothing", "off, on or HOST:PORT")
        _together("tls_key", self.tls_key, "tls_certificate", self.tls_certificate)
        _together("tls_certificate", self.tls_certificate, "tls_key", self.tls_key)
        _together("tls_client_ca", self.tls_client_ca, "tls_certificate", self.tls_certificate)
        for setting in dataclasses.fields(self):
            _one_of(setting.name, getattr(self, setting.name), setting.metadata["choices"])
        if not self.host:
            raise ConfigError(f"{_names('host')}: may not be empty")
        if not self.model:
            raise ConfigError(f"{_names('model')}: may not be empty")


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``; an IPv6 host stands in brackets. Raises ValueError."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > MAX_PORT:
        raise ValueError(address)
    return host.removeprefix("[").removesuffix("]"), int(port)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """One flag for each field of Config; absent flags are absent from the namespace."""
    for setting in dataclasses.fields(Config):
        text = f"{setting.metadata['help']} (default: {_shown(setting.default)})"
        usual: dict[str, Any] = {"default": argparse.SUPPRESS, "help": text.replace("%", "%%")}
        if setting.default is False:
            usual |= {"action": "store_const", "const": "true"}
        else:
            choices = "|".join(setting.metadata["choices"])
            usual["metavar"] = choices or metavar(setting)
        parser.add_argument(flag(setting.name), **usual)


def load(flags: Mapping[str, str], environment: Mapping[str, str]) -> Config:
    """Config from flags, else environment, else defaults. Raises ConfigError."""
    kinds = get_type_hints(Config)
    values = {
        name: _parse(name, kind, text)
        for name, kind in kinds.items()
        if (text := flags.get(name, environment.get(variable(name)))) is not None
    }
    return Config(**values)


def _parse(name: str, kind: type, text: str) -> Any:
    if kind is bool:
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        raise ConfigError(f"{_names(name)}: {text!r} is not yes or no")
    try:
        return kind(text) if kind in (int, float) else text
    except ValueError:
        raise ConfigError(f"{_names(name)}: {text!r} is not a number") from None


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:  # also refuses NaN
        raise ConfigError(f"{_names(name)}: {value} is not in {low}..{high}")


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if choices and value not in choices:
        raise ConfigError(f"{_names(name)}: {value!r} is not one of {', '.join(choices)}")


def _address(name: str, value: str, what: str = "HOST:PORT") -> None:
    try:
        if value:
            split_address(value)
    except ValueError:
        raise ConfigError(f"{_names(name)}: {value!r} is not {what}") from None


def _together(name: str, value: str, other: str, needed: str) -> None:
    if value and not needed:
        raise ConfigError(f"{_names(name)}: needs {_names(other)}")


def metavar(setting: dataclasses.Field[Any]) -> str:
    """What stands for a value of the setting in texts about it."""
    return _METAVARS[type(setting.default)]


def flag(name: str) -> str:
    """``--max-rows``."""
    return "--" + name.replace("_", "-")


def variable(name: str) -> str:
    """``SYNTAXD_MAX_ROWS``."""
    return ENVIRONMENT_PREFIX + name.upper()


def _names(name: str) -> str:
    return f"{flag(name)} ({variable(name)})"


def _shown(default: Any) -> str:
    return "no" if default is False else "empty" if default == "" else str(default)
