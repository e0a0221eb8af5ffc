"""Files of a model folder that cannot be used: which one, and why."""

from __future__ import annotations

import json

import pytest

from service.engine.tokenizer import Tokenizer, TokenizerError
from tests.service.engine import tiny


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return tiny.save_folder(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def folder(saved, tmp_path):
    for name in ("tokenizer.json", "config.json", "generation_config.json"):
        (tmp_path / name).write_bytes((saved / name).read_bytes())
    assert Tokenizer.load(tmp_path).vocab_size
    return tmp_path


def without_size(folder):
    found = json.loads((folder / "config.json").read_text())
    del found["vocab_size"]
    return json.dumps(found)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("tokenizer.json", "{}", "tokenizer.json: is no tokenizer: "),
        ("tokenizer.json", None, "tokenizer.json: not there"),
        ("config.json", "{", "config.json: is no JSON: "),
        ("config.json", "[]", "config.json: is no JSON object"),
        ("config.json", b"\xff", "config.json: cannot be read: "),
        ("config.json", without_size, "config.json: has no vocab_size"),
        ("generation_config.json", "nul", "generation_config.json: is no JSON: "),
        ("tokenizer_config.json", "", "tokenizer_config.json: is no JSON: "),
        ("chat_template.jinja", "{% if %}", "chat template, line 1: "),
        ("chat_template.jinja", b"\xff", "chat_template.jinja: cannot be read: "),
    ],
)
def test_the_file_is_named_with_what_is_wrong(folder, name, text, said):
    path = folder / name
    if text is None:
        path.unlink()
    elif isinstance(text, bytes):
        path.write_bytes(text)
    else:
        path.write_text(text(folder) if callable(text) else text)
    with pytest.raises(TokenizerError, match=said):
        Tokenizer.load(folder)
