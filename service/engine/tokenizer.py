"""The model's tokenizer and chat template, without torch and transformers: the front loads it.

Reads the files of a model folder: ``tokenizer.json`` (the tokenizers library's format),
``tokenizer_config.json``, ``chat_template.jinja``, ``config.json``, ``generation_config.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Never

import jinja2
import jinja2.ext
import jinja2.sandbox
import tokenizers

import grammar


class TokenizerError(ValueError):
    """The folder has no tokenizer that can be used; the message names the file."""


def eos_token_ids(folder: Path) -> tuple[int, ...]:
    """Tokens that end an answer: generation_config.json's, else config.json's."""
    for name in ("generation_config.json", "config.json"):
        ids = _read_json(folder / name).get("eos_token_id")
        if ids is not None:
            return (ids,) if isinstance(ids, int) else tuple(ids)
    raise TokenizerError(f"{folder}: neither generation_config.json nor config.json names an EOS")


class Tokenizer:
    """Text to token ids and back. Immutable; any thread may use it."""

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        eos_ids: Sequence[int],
        logit_size: int,
        chat_template: str | None = None,
        special_texts: Mapping[str, str] | None = None,
    ) -> None:
        self._backend = backend
        self._special_texts = dict(special_texts or {})
        self._template = _compile_template(chat_template) if chat_template else None
        self.backend_tokenizer = _Described(backend)  # the name grammar.Vocabulary looks for
        self.eos_token_id = list(eos_ids)
        self.logit_size = logit_size
        self.added_tokens_decoder = backend.get_added_tokens_decoder()
        self.all_special_ids = sorted(
            {*eos_ids, *(i for i, t in self.added_tokens_decoder.items() if t.special)}
        )
        self._vocabulary: grammar.Vocabulary | None = None

    @classmethod
    def load(cls, folder: Path | str) -> Tokenizer:
        """From a model folder. Raises TokenizerError."""
        folder = Path(folder)
        path = folder / "tokenizer.json"
        if not path.exists():
            raise TokenizerError(f"{path}: not there; only fast tokenizers are supported")
        settings = _read_json(folder / "tokenizer_config.json")
        logit_size = _read_json(folder / "config.json").get("vocab_size")
        if not isinstance(logit_size, int):
            raise TokenizerError(f"{folder / 'config.json'}: has no vocab_size")
        return cls(
            _backend(path),
            eos_ids=eos_token_ids(folder),
            logit_size=logit_size,
            chat_template=_chat_template(folder, settings),
            special_texts=_special_texts(settings),
        )

    @property
    def vocab_size(self) -> int:
        """Token ids that mean something: 0 .. vocab_size - 1."""
        return self.vocabulary().size

    def get_vocab(self) -> dict[str, int]:
        """Token text, as the tokenizer spells it, to id."""
        return self._backend.get_vocab(with_added_tokens=True)

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text."""
        return list(self._backend.encode(text, add_special_tokens=add_special_tokens).ids)

    def apply_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Token ids of a conversation, up to where the answer begins.

        Raises ValueError where there is no template, or it refuses the conversation.
        """
        if self._template is None:
            raise ValueError("the model has no chat template")
        try:
            text = self._template.render(
                messages=[dict(m) for m in messages],
                add_generation_prompt=True,
                **self._special_texts,
            )
        except jinja2.TemplateError as error:
            raise ValueError(str(error)) from None
        return self.encode(text, add_special_tokens=False)  # the template writes them itself

    def token_bytes(self, token_id: int) -> bytes:
        """The text of a token; b"" for special ones."""
        return self.vocabulary().token_bytes(token_id)

    def special_text(self, token_id: int) -> str:
        """The name of a special token, as it is written in a text; "" for others."""
        token = self.added_tokens_decoder.get(token_id)
        return str(token.content) if token is not None else ""

    def vocabulary(self) -> grammar.Vocabulary:
        """The vocabulary for the grammar engine; built once."""
        if self._vocabulary is None:
            self._vocabulary = grammar.Vocabulary.from_tokenizer(self, self.logit_size)
        return self._vocabulary


class _Described:
    """What ``backend_tokenizer`` of transformers offers and the grammar engine reads."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self.to_str = backend.to_str


def _read_json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        value = json.loads(_read_text(path))
    except json.JSONDecodeError as error:
        raise TokenizerError(f"{path}: is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise TokenizerError(f"{path}: is no JSON object")
    return value


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerError(f"{path}: cannot be read: {error}") from None


def _backend(path: Path) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001 - the library raises nothing more exact
        raise TokenizerError(f"{path}: is no tokenizer: {error}") from None


def _chat_template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    path = folder / "chat_template.jinja"
    if path.exists():
        return _read_text(path)
    template = settings.get("chat_template")
    if isinstance(template, list):  # several, by name
        template = next((t["template"] for t in template if t["name"] == "default"), None)
    return template


def _special_texts(settings: Mapping[str, Any]) -> dict[str, str]:
    """bos_token, eos_token …: the names that templates use."""
    texts = {}
    for name, value in settings.items():
        content = value.get("content") if isinstance(value, Mapping) else value
        if name.endswith("_token") and isinstance(content, str):
            texts[name] = content
    return texts


def _compile_template(source: str) -> jinja2.Template:
    """As transformers compiles chat templates, in jinja's sandbox: a template is foreign code."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().astimezone().strftime(form)
    try:
        return environment.from_string(source)
    except jinja2.TemplateSyntaxError as error:
        raise TokenizerError(f"chat template, line {error.lineno}: {error.message}") from None


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise_exception(message: str) -> Never:
    raise jinja2.TemplateError(message)
