"""The cache's bookkeeping, and the decoder's laws under any order of events."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from service.engine.drafting import Drafter
from service.engine.kv_cache import BLOCK, KVCache, LayerShape, block_bytes, blocks_for
from service.engine.types import FinishReason, Sampling
from tests import fakes
from tests.service.engine.decoding import make_decoder, make_request, run


def make_cache(**sizes):
    torch = pytest.importorskip("torch")
    defaults = {"num_blocks": 6, "max_rows": 3, "max_tokens": 64}
    return KVCache(
        [LayerShape(2, 4, 4)], **defaults | sizes, dtype=torch.float32, device=torch.device("cpu")
    )


def test_a_row_grows_by_blocks_and_gives_them_back():
    kv = make_cache()
    row = kv.open_row()
    assert kv.grow(row, 1)
    assert kv.grow(row, BLOCK)
    assert kv.num_free_blocks == 5
    assert kv.grow(row, BLOCK + 1)
    assert kv.num_free_blocks == 4
    kv.check_integrity()
    kv.close_row(row)
    assert (kv.num_free_blocks, kv.num_free_rows) == (6, 3)
    kv.check_integrity()


def test_a_row_that_cannot_grow_keeps_what_it_has():
    kv = make_cache(num_blocks=3)
    first, second = kv.open_row(), kv.open_row()
    assert kv.grow(first, 2 * BLOCK)
    assert not kv.grow(second, 2 * BLOCK)
    assert kv.num_free_blocks == 1
    kv.check_integrity()


def test_a_block_held_twice_is_noticed():
    kv = make_cache()
    first, second = kv.open_row(), kv.open_row()
    kv.grow(first, 1)
    kv.grow(second, 1)
    kv.tables[second, 0] = kv.tables[first, 0]
    with pytest.raises(AssertionError):
        kv.check_integrity()


def filled(kv, token_ids):
    """A row that has computed and remembered these tokens."""
    row = kv.open_row()
    computed = kv.reuse(row, token_ids)
    assert kv.grow(row, len(token_ids))
    kv.remember(row, token_ids, len(token_ids))
    kv.check_integrity()
    return row, computed


def blocks_of(kv, row, num_tokens):
    return kv.tables[row, : blocks_for(num_tokens)].tolist()


def test_rows_that_begin_alike_hold_the_same_full_blocks():
    kv = make_cache(share_prefixes=True)
    prefix = list(range(2 * BLOCK))
    first, _ = filled(kv, [*prefix, 7])
    second, computed = filled(kv, [*prefix, 8, 9])
    assert computed == 2 * BLOCK
    a, b = blocks_of(kv, first, 2 * BLOCK + 1), blocks_of(kv, second, 2 * BLOCK + 2)
    assert a[:2] == b[:2]
    assert a[2] != b[2]
    assert kv.num_free_blocks == 2
    kv.close_row(first)
    assert kv.num_free_blocks == 3
    kv.check_integrity()
    _, computed = filled(kv, [*prefix[:BLOCK], *prefix[:BLOCK], 1])
    assert computed == BLOCK  # the second block's tokens are known, but not after these


def test_a_token_is_left_to_compute():
    kv = make_cache(share_prefixes=True)
    prompt = list(range(2 * BLOCK))
    filled(kv, prompt)
    _, computed = filled(kv, prompt)
    assert computed == BLOCK


def test_a_closed_rows_blocks_are_found_again_until_there_is_no_other_room():
    kv = make_cache(share_prefixes=True, max_tokens=96)
    prompt = list(range(3 * BLOCK + 1))
    kv.close_row(filled(kv, prompt)[0])
    assert kv.num_free_blocks == 6
    row, computed = filled(kv, prompt)
    assert computed == 3 * BLOCK
    kv.close_row(row)
    row, computed = filled(kv, [99] * (5 * BLOCK))  # two of the three idle blocks are needed
    assert computed == 0
    kv.close_row(row)
    _, computed = filled(kv, prompt)
    assert computed == BLOCK  # the end of the prefix was forgotten first


def test_only_what_was_computed_is_remembered():
    kv = make_cache(share_prefixes=True)
    prompt = list(range(3 * BLOCK))
    row = kv.open_row()
    kv.grow(row, len(prompt))
    kv.remember(row, prompt, 2 * BLOCK - 1)
    _, computed = filled(kv, prompt)
    assert computed == BLOCK


def test_answers_are_the_same_with_shared_prefixes_and_less_is_computed():
    """The scripted model knows only what stands in the cache."""
    common = "p" * (2 * BLOCK + 5)
    answers, positions = [], []
    for shared in (False, True):
        model = fakes.FakeModel(fakes.noise)
        decoder = make_decoder(model, num_blocks=12, share_prefixes=shared)
        found = {}
        for name in ("a", "b", "c", "d", "e"):
            decoder.submit(make_request(name, prompt=common + name, max_tokens=20, min_tokens=20))
            if name == "a":
                found |= run(decoder)
        found |= run(decoder)
        tokens = {name: [t for c in chunks for t in c.tokens] for name, chunks in found.items()}
        answers.append(tokens)
        positions.append(sum(len(row.token_ids) for rows in model.fed for row in rows))
        cached = [chunks[-1].finish.usage.cached_tokens for chunks in found.values()]
        assert cached == ([0] + [2 * BLOCK] * 4 if shared else [0] * 5)
    assert answers[0] == answers[1]
    assert positions[1] <= positions[0] - 4 * 2 * BLOCK


def test_without_sharing_nothing_is_remembered():
    kv = make_cache()
    prompt = list(range(2 * BLOCK + 1))
    filled(kv, prompt)
    assert filled(kv, prompt)[1] == 0


def test_sizes():
    import torch

    assert [blocks_for(n) for n in (0, 1, 16, 17)] == [0, 1, 1, 2]
    assert block_bytes([LayerShape(2, 4, 6)] * 3, torch.bfloat16) == 3 * 2 * 10 * 16 * 2
    assert make_cache().max_row_tokens == 64
    assert make_cache(num_blocks=2).max_row_tokens == 32


class DecoderMachine(RuleBasedStateMachine):
    """Requests come, are cancelled, expire and finish, over a pool that is too small."""

    NUM_BLOCKS = 10
    SHARED = False
    DRAFTS = False

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.decoder = make_decoder(
            fakes.FakeModel(fakes.noise),
            num_blocks=self.NUM_BLOCKS,
            max_rows=3,
            step_tokens=24,
            share_prefixes=self.SHARED,
            drafter=Drafter(fakes.token_bytes, list, always=True) if self.DRAFTS else None,
            clock=lambda: self.now,
        )
        self.open: dict[str, set[int]] = {}  # outputs that have not finished
        self.texts: dict[tuple[str, int], str] = {}
        self.languages: dict[str, list[bytes] | None] = {}
        self.count = 0

    @rule(
        prompt=st.integers(1, 90),
        begins=st.sampled_from("pq"),
        max_tokens=st.one_of(st.none(), st.integers(1, 40)),
        language=st.sampled_from([None, [b"yes", b"no"], [b"a" * n for n in range(3, 50)]]),
        patience=st.one_of(st.none(), st.integers(1, 30)),
        temperature=st.sampled_from([0.0, 1.0]),
        n=st.sampled_from([1, 1, 1, 2, 5]),
    )
    def submit(self, prompt, begins, max_tokens, language, patience, temperature, n):
        name = f"r{self.count}"
        self.count += 1
        request = make_request(
            name,
            prompt=begins * prompt,
            max_tokens=max_tokens,
            sampling=Sampling(temperature=temperature, seed=self.count),
            deadline=None if patience is None else self.now + patience,
            n=n,
        )
        self.decoder.submit(request, fakes.FakeGrammar(language) if language else None)
        self.open[name], self.languages[name] = set(range(n)), language
        self.texts |= {(name, index): "" for index in range(n)}

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def cancel(self, data):
        self.decoder.cancel(data.draw(st.sampled_from(sorted(self.open))))

    @rule(times=st.integers(1, 12))
    def step(self, times):
        for _ in range(times):
            self.now += 1
            for chunk in self.decoder.step():
                self.take(chunk)

    def take(self, chunk):
        name, place = chunk.request_id, (chunk.request_id, chunk.index)
        assert chunk.index in self.open[name], "a chunk after the finish"
        self.texts[place] += chunk.text
        if chunk.finish:
            self.open[name].remove(chunk.index)
            error = chunk.finish.error
            if error and error.code == "INVALID_ARGUMENT":
                self.open[name].clear()  # who is refused is told so once
            if not self.open[name]:
                del self.open[name]
            language = self.languages[name]
            if language and chunk.finish.reason in {FinishReason.STOP, FinishReason.LENGTH}:
                assert chunk.finish.complete
                assert self.texts[place].encode() in language

    @invariant()
    def blocks_add_up(self):
        self.decoder._kv.check_integrity()

    def teardown(self):
        for _ in range(3000):
            if self.decoder.is_idle:
                break
            self.step(1)
        assert self.decoder.is_idle, "someone is never served"
        assert not self.open, "a request without a finish"
        assert self.decoder._kv.num_free_blocks == self.NUM_BLOCKS


class SharingDecoderMachine(DecoderMachine):
    """The same, with blocks held by several rows."""

    SHARED = True


class DraftingDecoderMachine(DecoderMachine):
    """The same, with rows that feed guesses, most of them wrong."""

    SHARED = True
    DRAFTS = True


TestDraftingDecoderMachine = DraftingDecoderMachine.TestCase
TestDraftingDecoderMachine.settings = settings(
    max_examples=40, stateful_step_count=20, deadline=None
)
TestSharingDecoderMachine = SharingDecoderMachine.TestCase
TestSharingDecoderMachine.settings = settings(
    max_examples=40, stateful_step_count=20, deadline=None
)
TestDecoderMachine = DecoderMachine.TestCase
TestDecoderMachine.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
