"""The token trie: what it spells, what it leaves out, and how it reads tokenizers."""

from __future__ import annotations

import random

import numpy as np
import pytest

import grammar
from tests.naive import (
    byte_vocabulary,
    fewest_tokens,
    lacking_vocabulary,
    mask,
    nasty_vocabulary,
)


def test_sizes_and_ids():
    vocabulary = grammar.Vocabulary([b"a", None, b"b", b"", b"c"], (1,), (1, 3), logit_size=40)
    assert (vocabulary.size, vocabulary.logit_size, vocabulary.words) == (5, 40, 2)
    assert vocabulary.eos_ids == (1,)
    assert [vocabulary.token_bytes(i) for i in (0, 1, 2, 3, 4, 5, 39)] == [
        *(b"a", b"", b"b", b"", b"c", b"", b""),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([b"a"], (7,)), "7"),
        (([b"a"], (-1,)), "-1"),
        (([b"a"], (), (3,)), "3"),
        (([None, None], (0,)), "no token"),
        (([b"a", b"b"], (), (), 1), "logit_size"),
    ],
)
def test_what_is_no_vocabulary(arguments, message):
    with pytest.raises(ValueError, match=message):
        grammar.Vocabulary(*arguments)


def test_a_special_token_with_text_is_no_text():
    """Some tokenizers spell their end marker: it must not be writable inside a string."""
    vocabulary = grammar.Vocabulary([b"a", b'"', b"</s>"], (2,), (2,))
    assert vocabulary.token_bytes(2) == b""
    matcher = grammar.compile_regex(".*", vocabulary).matcher()
    assert mask(matcher) == [0, 1, 2]
    assert matcher.advance(0)
    assert matcher.advance(2)
    assert matcher.is_finished


@pytest.mark.parametrize("make", [byte_vocabulary, nasty_vocabulary, lacking_vocabulary])
def test_the_trie_finds_exactly_the_prefixes_of_tokens(make):
    vocabulary = make()
    texts = {vocabulary.token_bytes(t) for t in range(vocabulary.size)} - {b""}
    prefixes = {text[:n] for text in texts for n in range(1, len(text) + 1)}
    found = {prefix: vocabulary.find(prefix) for prefix in prefixes}
    assert all(node >= 0 for node in found.values())
    assert len(set(found.values())) == len(prefixes) == len(vocabulary.node)
    for text in texts:
        for more in (b"\x00", b"a", b'"', b"zz"):
            assert (vocabulary.find(text + more) >= 0) == (text + more in prefixes)


@pytest.mark.parametrize("make", [nasty_vocabulary, lacking_vocabulary])
def test_segmentations_are_the_fewest_tokens(make):
    vocabulary = make()
    rng = random.Random(2)
    spelled = [vocabulary.token_bytes(t) for t in range(vocabulary.size)]
    spelled = [text for text in spelled if text]
    for _ in range(200):
        text = b"".join(rng.choices(spelled, k=rng.randint(0, 5)))
        tokens = vocabulary.segment(text)
        assert b"".join(map(vocabulary.token_bytes, tokens)) == text
        assert len(tokens) == fewest_tokens(text, vocabulary) == vocabulary.count_tokens(text)


def test_dead_bytes_are_those_without_a_token_of_their_own():
    vocabulary = lacking_vocabulary()
    dead = {b for b in range(256) if vocabulary.dead_bytes[b]}
    assert dead == set(range(256)) - {
        t[0] for t in map(vocabulary.token_bytes, range(vocabulary.size)) if len(t) == 1
    }
    assert {0x04, 0xC0, 0xF1, ord("q")} <= dead
    assert not byte_vocabulary().dead_bytes.any()


def test_tokens_of_the_same_bytes_are_all_allowed():
    vocabulary = grammar.Vocabulary([b"a", b"b", b"a", b"a", None], (4,))
    assert mask(grammar.compile_choice(["a"], vocabulary).matcher()) == [0, 2, 3]


def test_very_long_tokens():
    """Up to 1,024 bytes count; a longer one is left out rather than read wrongly."""
    vocabulary = grammar.Vocabulary([b"a", b"a" * 1024, b"a" * 1025, b"a" * 3000, None], (4,))
    assert mask(grammar.compile_regex("a+", vocabulary).matcher()) == [0, 1]
    assert mask(grammar.compile_regex("a{0,1023}", vocabulary).matcher()) == [0, 4]


def test_the_digest_tells_vocabularies_apart():
    same = [grammar.Vocabulary([b"ab", b"c", None], (2,)) for _ in range(2)]
    assert same[0].digest == same[1].digest
    others = [
        grammar.Vocabulary([b"a", b"bc", None], (2,)),
        grammar.Vocabulary([b"c", b"ab", None], (2,)),
        grammar.Vocabulary([b"ab", b"c", None], (2,), logit_size=9),
        grammar.Vocabulary([b"ab", b"c", None, None], (3,)),
    ]
    assert len({same[0].digest, *(v.digest for v in others)}) == 5


def test_masks_have_no_bits_beyond_the_logits():
    for logit_size in (258, 287, 288, 289, 320):
        tokens = [bytes([b]) for b in range(256)] + [None]
        vocabulary = grammar.Vocabulary(tokens, (256,), logit_size=logit_size)
        row = np.full(vocabulary.words, 0xFFFFFFFF, np.uint32)
        grammar.compile_regex("(?s:.)*", vocabulary).matcher().fill_mask(row)
        bits = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        assert bits.max() == 256


def test_the_default_model_s_tokenizer(default_model, model_vocabulary):
    """The bytes of its tokens are what it decodes to, and it spells text as it does itself."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(default_model)
    vocabulary = model_vocabulary
    assert vocabulary.logit_size == len(tokenizer)
    assert tokenizer.eos_token_id in vocabulary.eos_ids
    for text in (
        "Hello, world!",
        '{"name": "Zoë", "n": [1, 2]}',
        "日本語 😀",
        "\n\n\t  x",
        "naïve",
    ):
        tokens = tokenizer.encode(text, add_special_tokens=False)
        assert b"".join(map(vocabulary.token_bytes, tokens)) == text.encode()
        assert vocabulary.encode(text) == tokens
    assert all(vocabulary.token_bytes(t) == b"" for t in tokenizer.all_special_ids)
    # decision 10: the bytes this model cannot spell
    dead = {b for b in range(256) if vocabulary.dead_bytes[b]}
    assert dead == {
        0x04,
        0x06,
        0x13,
        0x14,
        0x16,
        0x1D,
        0xC0,
        0xC1,
        0xF1,
        0xF2,
        *range(0xF5, 0x100),
    }
