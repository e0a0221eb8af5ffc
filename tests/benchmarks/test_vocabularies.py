"""Lists of ranked tokens become tokenizers that every engine reads, and that split alike."""

from __future__ import annotations

import pytest
from transformers import AutoTokenizer

import grammar
from benchmarks import vocabularies
from benchmarks.mask_check import check_masks
from benchmarks.vocabularies import Ranked, merges
from service.engine.tokenizer import Tokenizer

PATTERN = r"\s*[\r\n]+| ?[^\s]+|\s+"
LONGER = [b"th", b"he", b"the", b" the", b"\xc3\xa9", b'":', b'{"', b"na", b"me", b"name", b"xyz"]
TEXTS = [bytes([byte]) for byte in reversed(range(256))] + LONGER
RANKED = Ranked(TEXTS, PATTERN, ["<a>", "<end>"], ["<stop>"], ["<stop>", "<end>"], 300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    into = tmp_path_factory.mktemp("ranked") / "folder"
    vocabularies.save(RANKED, into)
    return into


def by_rank(piece: bytes) -> list[int]:
    """The definition: of two neighbours, those whose union has the lowest rank are merged."""
    ranks = {text: rank for rank, text in enumerate(TEXTS)}
    if piece in ranks:
        return [ranks[piece]]
    parts = [bytes([byte]) for byte in piece]
    while True:
        unions = [parts[i] + parts[i + 1] for i in range(len(parts) - 1)]
        known = [(ranks[union], i) for i, union in enumerate(unions) if union in ranks]
        if not known:
            return [ranks[part] for part in parts]
        at = min(known)[1]
        parts[at : at + 2] = [unions[at]]


def test_merges_make_each_token_of_those_before_it():
    found = merges(TEXTS)
    assert found[0] == (b"t", b"h")
    assert (b"th", b"e") in found
    assert (b" ", b"the") in found
    assert [left + right for left, right in found] == LONGER[:-1]  # "xyz" is one as a whole only


def test_a_text_is_split_by_rank(folder):
    tokenizer = Tokenizer.load(folder)
    for text, pieces in {
        "the name": ["the", " name"],
        ' thethe{"name":é\n\nhe': [' thethe{"name":é', "\n\n", "he"],
        "name 日本": ["name", " 日本"],
        "mename": ["mename"],
        "xyz\nxyzn": ["xyz", "\n", "xyzn"],
    }.items():
        expected = [2 + rank for piece in pieces for rank in by_rank(piece.encode())]
        assert tokenizer.encode(text, add_special_tokens=False) == expected


def test_ids_ends_and_padding(folder):
    for tokenizer, size in ((Tokenizer.load(folder), None), (load(folder), 300)):
        vocabulary = grammar.Vocabulary.from_tokenizer(
            tokenizer, size or tokenizer.logit_size, (2 + len(TEXTS), 1)
        )
        assert vocabulary.logit_size == 300
        assert vocabulary.size == len(TEXTS) + 3
        assert vocabulary.special_ids == {0, 1, 2 + len(TEXTS)}
        assert [vocabulary.token_bytes(2 + i) for i in range(len(TEXTS))] == TEXTS
    assert Tokenizer.load(folder).vocabulary().eos_ids == (2 + len(TEXTS), 1)


def load(folder):
    return AutoTokenizer.from_pretrained(folder)


def test_masks_in_it_are_those_of_its_tokens(folder):
    assert check_masks(Tokenizer.load(folder).vocabulary(), steps=8) >= 20
