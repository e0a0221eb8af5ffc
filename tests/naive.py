"""The slow obvious twin of the masks and token bounds, and small vocabularies that are nasty.

A mask is "for each token: do its bytes go through?", a bound is "try every text". Nothing here
walks a trie or reads a table.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

import grammar

Words = npt.NDArray[np.uint32]

# Tokens that span lexemes, split characters, escape, or spell what another token spells.
NASTY = (
    *(b'","', b'":"', b'"},{"', b'\\"', b'"}', b'"]', b'"],"', b'{"', b'["', b"[[", b"{}", b"[]"),
    *(
        b'":',
        b'": "',
        b'", "',
        b": ",
        b", ",
        b'":{"',
        b'":[',
        b'"a":1,"a":',
        b'"a":1,"b":',
        b'a":',
    ),
    *(b'"a"', b'","a":', b'"aa":0,"aa"', b"}}", b"]]", b"],[", b"]}", b"},", b"0}", b"1,2", b"-1"),
    *(b"  ", b"\n  ", b" \t\r\n", b"        ", b"\n\n\n\n\n\n\n\n\n\n", b'{ "', b'{\n  "', b" :"),
    *(
        b"true",
        b"false",
        b"null",
        b"tru",
        b"lse",
        b"00",
        b"10",
        b"e+",
        b"e-1",
        b".5",
        b"0.0",
        b"E",
    ),
    *(b"abc", b"aa", b"ab", b"name", b"id", b'name"', b"extra", b"tags", b"ext", b"a b", b"xyz"),
    *(
        b"\xc3",
        b"\xa9",
        b"\xc3\xa9",
        b"a\xc3",
        b'\xa9"',
        b"\xf0\x9f",
        b"\x98\x80",
        b"\xe2\x82\xac",
    ),
    *(
        b"\xff\xfe",
        b"\x80",
        b"\xed\xa0\x80",
        b"\\u",
        b"\\u00",
        b"\\n",
        b"\\\\",
        b"\\u0000",
        b"d83d",
    ),
    *(
        b"2024-",
        b"-12-",
        b"0000-",
        b"ABC",
        b"123",
        b"\x00",
        b"\x1f",
        b'"\n',
        b"a\n",
        b'\\"%',
        b"///",
    ),
)


def _vocabulary(texts: Sequence[bytes], padding: int) -> grammar.Vocabulary:
    """EOS first and last, then ``padding`` ids without a token, as models have them."""
    tokens: list[bytes | None] = [None, *texts, None, b"<special>"]
    last = len(tokens) - 2
    return grammar.Vocabulary(
        tokens, (0, last), (0, last, last + 1), logit_size=len(tokens) + padding
    )


@cache
def byte_vocabulary() -> grammar.Vocabulary:
    """The 256 bytes and two EOS."""
    return _vocabulary([bytes([b]) for b in range(256)], 0)


@cache
def nasty_vocabulary(seed: int = 0) -> grammar.Vocabulary:
    """Bytes, ``NASTY``, random pieces and duplicates in random order, padded logits."""
    rng = random.Random(seed)
    texts = [bytes([b]) for b in range(256)] + list(NASTY)
    pieces = b'{}[]",:\\ \nabcen0123456789.-tf\xc3\xa9'
    for _ in range(80):
        texts.append(bytes(rng.choices(pieces, k=rng.randint(2, 5))))
    texts += rng.sample(texts, 24)
    rng.shuffle(texts)
    return _vocabulary(texts, 13)


@cache
def lacking_vocabulary() -> grammar.Vocabulary:
    """No token for some bytes alone; some of them appear inside longer tokens only."""
    missing = set(b"\x04\x06\x13\x7fqzQZ~\t") | set(range(0xC0, 0xC2)) | set(range(0xF1, 0x100))
    texts = [bytes([b]) for b in range(256) if b not in missing] + list(NASTY)
    return _vocabulary([*texts, b"quiz", b"\xf1\x80\x80\x80"], 3)


def allowed(row: Words) -> list[int]:
    """The token ids whose bits are set."""
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()


def mask(matcher: grammar.Matcher, budget: int | None = None) -> list[int]:
    """The token ids that ``fill_mask`` allows."""
    row = np.full(matcher.grammar.vocabulary.words, 0xDEADBEEF, dtype=np.uint32)
    matcher.fill_mask(row, budget)
    return allowed(row)


def naive_mask(matcher: grammar.Matcher) -> list[int]:
    """Every id of the logits, tried by its bytes; EOS where the text may stop."""
    vocabulary = matcher.grammar.vocabulary
    after: dict[bytes, grammar.Matcher | None] = {b"": matcher}

    def read(text: bytes) -> grammar.Matcher | None:
        """A fork that has read ``text`` byte by byte; None when it may not."""
        if text not in after:
            before = read(text[:-1])
            fork = before.fork() if before else None
            after[text] = fork if fork and fork.advance_bytes(text[-1:]) else None
        return after[text]

    found = []
    for token in range(vocabulary.logit_size):
        if token in vocabulary.eos_ids:
            ok = matcher.is_complete
        else:
            text = vocabulary.token_bytes(token)
            ok = bool(text) and read(text) is not None
        if ok:
            found.append(token)
    return found


def language(matcher: grammar.Matcher, limit: int = 20_000) -> list[bytes]:
    """Every text of a finite language from here on, by trying every byte after every prefix."""
    texts, stack, tried = [], [(b"", matcher)], 0
    while stack:
        said, here = stack.pop()
        if here.is_complete:
            texts.append(said)
        for byte in range(256):
            after = here.fork()
            if after.advance_bytes(bytes([byte])):
                stack.append((said + bytes([byte]), after))
        tried += 1
        assert tried <= limit, "the language is too large to list"
    return texts


def fewest_tokens(text: bytes, vocabulary: grammar.Vocabulary) -> int:
    """The fewest tokens that spell ``text``: shortest path over its positions."""
    tokens = {vocabulary.token_bytes(t) for t in range(vocabulary.size)} - {b""}
    longest = max(map(len, tokens))
    best = [0] + [len(text) + 1] * len(text)
    for end in range(1, len(text) + 1):
        for start in range(max(0, end - longest), end):
            if text[start:end] in tokens:
                best[end] = min(best[end], best[start] + 1)
    return best[-1]


def rest_tokens(texts: Sequence[bytes], said: bytes, vocabulary: grammar.Vocabulary) -> int | None:
    """The fewest tokens from ``said`` to one of ``texts``; None when no text goes on from it."""
    rests = [text[len(said) :] for text in texts if text.startswith(said)]
    return min((fewest_tokens(rest, vocabulary) for rest in rests), default=None)


def random_walk(
    compiled: grammar.Grammar, rng: random.Random, steps: int
) -> Iterator[grammar.Matcher]:
    """The matcher after each of at most ``steps`` tokens, each uniform over the mask."""
    matcher = compiled.matcher()
    yield matcher
    for _ in range(steps):
        tokens = [t for t in mask(matcher) if t not in compiled.vocabulary.eos_ids]
        if not tokens:
            return
        assert matcher.advance(rng.choice(tokens))
        yield matcher
