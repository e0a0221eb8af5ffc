"""Vocabularies of every kind of tokenizer, built here: bytes, masks, refusals."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

import grammar
from tests.naive import mask, naive_mask
from tests.validator import valid

CORPUS = ['{"name": "Zoë", "n": [1, 2, 30]}', "the name of the naïve thing, 日本語 and 😀"] * 9
TEXTS = ["", "a", " a", "the name", '{"name": "Zoë"}', "日本語 😀", "\n\n\t x", "naïve", "é", "▁"]
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "n": {"type": "array", "items": {"type": "integer"}, "maxItems": 4},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def byte_level() -> tokenizers.Tokenizer:
    """As GPT-2, Llama 3, Qwen and SmolLM2."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        special_tokens=["<|end|>"],
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


PIECES = ["▁", "a", "e", "n", "m", "t", "h", "é", "▁a", "na", "me", "name", "▁name", "th", "the",
          "▁the", '"', '":', "{", "}", "▁▁"]  # fmt: skip
MERGES = [("▁", "a"), ("n", "a"), ("m", "e"), ("na", "me"), ("▁", "name"), ("t", "h"), ("th", "e"),
          ("▁", "the"), ('"', ":"), ("▁", "▁")]  # fmt: skip


def _as_sentencepiece(model: Any) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "<|end|>"])
    return tokenizer


def byte_fallback() -> tokenizers.Tokenizer:
    """As Llama 2 and Mistral 7B: SentencePiece's BPE with byte fallback."""
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    texts = ["<unk>", "<s>", "<|end|>", *bytes_, *PIECES, ":"]
    vocabulary = {text: i for i, text in enumerate(texts)}
    return _as_sentencepiece(
        models.BPE(vocabulary, MERGES, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )


def unigram() -> tokenizers.Tokenizer:
    """SentencePiece's other model, with byte fallback."""
    bytes_ = [(f"<0x{byte:02X}>", -20.0) for byte in range(256)]
    pieces = [(text, -2.0 - 0.1 * i) for i, text in enumerate(PIECES)]
    texts = [("<unk>", 0.0), ("<s>", 0.0), ("<|end|>", 0.0), *bytes_, *pieces]
    return _as_sentencepiece(models.Unigram(texts, unk_id=0, byte_fallback=True))


KINDS = {"byte-level": byte_level, "byte fallback": byte_fallback, "unigram": unigram}


def wrapped(backend: tokenizers.Tokenizer) -> Any:
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>")


@pytest.fixture(params=KINDS, scope="module")
def tokenizer(request) -> Any:
    return wrapped(KINDS[request.param]())


@pytest.fixture(scope="module")
def vocabulary(tokenizer) -> grammar.Vocabulary:
    return grammar.Vocabulary.from_tokenizer(tokenizer, len(tokenizer) + 37)


def spelled(vocabulary: grammar.Vocabulary, tokens: list[int]) -> bytes:
    return b"".join(map(vocabulary.token_bytes, tokens))


def test_every_byte_has_a_token_and_every_text_is_spelled(tokenizer, vocabulary):
    assert not vocabulary.dead_bytes.any()
    for text in TEXTS:
        tokens = tokenizer.encode(text, add_special_tokens=False)
        prefix = spelled(vocabulary, tokenizer.encode("a", add_special_tokens=False))[:-1]
        expected = (prefix if text else b"") + text.replace("▁", " ").encode()
        assert spelled(vocabulary, tokens) in (expected, prefix + text.encode())


def test_the_tokenizer_s_own_segmentation_has_no_space_of_its_own(tokenizer, vocabulary):
    for text in TEXTS:
        tokens = vocabulary.encode(text)
        if text != "▁":  # which SentencePiece cannot tell from a space
            assert spelled(vocabulary, tokens) == text.encode()
    assert len(vocabulary.encode("name the")) <= 4


def test_masks_are_those_of_the_bytes(vocabulary):
    compiled = grammar.compile_json_schema(json.dumps(SCHEMA), vocabulary)
    rng, matcher = random.Random(3), compiled.matcher()
    for _ in range(40):
        tokens = mask(matcher)
        assert tokens == naive_mask(matcher)
        if matcher.is_finished:
            break
        assert matcher.advance(rng.choice([t for t in tokens if t not in vocabulary.eos_ids]))


def test_walks_end_valid_and_decode_to_what_was_written(tokenizer, vocabulary):
    compiled = grammar.compile_json_schema(json.dumps(SCHEMA), vocabulary)
    for seed in range(12):
        rng, matcher, tokens = random.Random(seed), compiled.matcher(), []
        budget = compiled.min_tokens + seed
        for left in range(budget, 0, -1):
            row = mask(matcher, left)
            choices = [t for t in row if t not in vocabulary.eos_ids]
            if not choices:
                break
            tokens.append(rng.choice(choices))
            assert matcher.advance(tokens[-1])
        text = spelled(vocabulary, tokens)
        assert valid(SCHEMA, text), text
        assert tokenizer.decode(tokens) == text.decode()


def test_special_tokens_are_no_text_and_added_ones_are():
    backend = byte_fallback()
    backend.add_special_tokens(["[CALL]"])
    backend.add_tokens(["<tag>", "▁plain"])
    tokenizer = wrapped(backend)
    ids = {text: tokenizer.convert_tokens_to_ids(text) for text in ("[CALL]", "<tag>", "▁plain")}
    vocabulary = grammar.Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.token_bytes(ids["[CALL]"]) == b""
    assert vocabulary.token_bytes(ids["<tag>"]) == b"<tag>"
    assert vocabulary.token_bytes(ids["▁plain"]) == "▁plain".encode()  # not a piece: as written
    assert {ids["[CALL]"], 0, 1, 2} <= vocabulary.special_ids
    matcher = grammar.compile_choice(["[CALL]", "<tag>"], vocabulary).matcher()
    assert ids["<tag>"] in mask(matcher)
    assert ids["[CALL]"] not in mask(matcher)


def test_several_ends_of_an_answer(tokenizer):
    """Those that the model names, instead of the tokenizer's one."""
    size = len(tokenizer)
    end = tokenizer.eos_token_id
    vocabulary = grammar.Vocabulary.from_tokenizer(tokenizer, size + 9, (end, size + 3))
    assert vocabulary.eos_ids == (end, size + 3)
    compiled = grammar.compile_choice(["a"], vocabulary)
    for eos in vocabulary.eos_ids:
        matcher = compiled.matcher()
        assert matcher.advance_bytes(b"a") == 1
        assert mask(matcher) == sorted(vocabulary.eos_ids)
        assert matcher.advance(eos)
        assert matcher.is_finished


def test_logits_may_be_more_or_fewer_than_tokens(tokenizer):
    size = len(tokenizer)
    padded = grammar.Vocabulary.from_tokenizer(tokenizer, size + 100)
    compiled = grammar.compile_regex("(?s:.)*", padded)
    assert max(mask(compiled.matcher())) < size
    assert not compiled.matcher().advance(size + 50)
    cut = grammar.Vocabulary.from_tokenizer(tokenizer, size - 4)
    assert (cut.size, cut.logit_size) == (size - 4, size - 4)


def word_piece() -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer(models.WordPiece({"[UNK]": 0, "the": 1, "##me": 2}))


def word_level() -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer(models.WordLevel({"[UNK]": 0, "the": 1}, unk_token="[UNK]"))


def plain_bpe() -> tokenizers.Tokenizer:
    """Over characters, without byte fallback."""
    return tokenizers.Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))


def plain_unigram() -> tokenizers.Tokenizer:
    """As T5's: what it has no piece for is unknown."""
    return tokenizers.Tokenizer(models.Unigram([("<unk>", 0.0), ("▁the", -1.0)], unk_id=0))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (word_piece, "WordPiece"),
        (word_level, "WordLevel"),
        (plain_bpe, "BPE"),
        (plain_unigram, "Unigram"),
    ],
)
def test_what_cannot_spell_every_byte_is_refused_by_name(make, name):
    backend = make()
    backend.add_special_tokens(["<|end|>"])
    with pytest.raises(ValueError, match=rf"^{name} vocabularies cannot spell every byte"):
        grammar.Vocabulary.from_tokenizer(wrapped(backend))


class Foreign:
    """A tokenizer without a backend to ask: only its tokens say what it is."""

    eos_token_id = 300

    def __init__(self, texts) -> None:
        self._vocabulary = {text: i for i, text in enumerate(texts)}

    def get_vocab(self) -> dict[str, int]:
        return self._vocabulary

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        return []


def test_tokenizers_without_a_backend():
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    found = grammar.Vocabulary.from_tokenizer(Foreign(alphabet), 301)
    assert not found.dead_bytes.any()
    fallback = Foreign(f"<0x{byte:02X}>" for byte in range(256))
    assert grammar.Vocabulary.from_tokenizer(fallback, 301).token_bytes(0x41) == b"A"
    with pytest.raises(ValueError, match=r"^Foreign vocabularies"):
        grammar.Vocabulary.from_tokenizer(Foreign("abc"), 301)


def test_a_tokenizer_without_an_end():
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=byte_level())
    with pytest.raises(ValueError, match="no end-of-sequence"):
        grammar.Vocabulary.from_tokenizer(tokenizer)
