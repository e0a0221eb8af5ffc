"""Log-probabilities against the definition: the script's logits at each place of the answer."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import grammar
from service.engine.cpu_llama import CpuLlama
from service.engine.decoder import Decoder
from service.engine.drafting import Drafter
from service.engine.kv_cache import BLOCK
from service.engine.scoring import log_probabilities, score
from service.engine.types import Constraint, FinishReason, Logprobs, Sampling
from tests import fakes
from tests.service.engine import tiny
from tests.service.engine.decoding import answer, make_decoder, make_request, run
from tests.service.engine.test_truth import compiled

PROMPT = "a prompt that is longer than two blocks>"
CONSTRAINTS = [
    None,
    Constraint(kind="regex", text="forced and (one|two) and forced"),
    Constraint(kind="regex", text="all of it is forced"),
    Constraint(kind="regex", text="[ab]{3}-----------------------[ab]{2}"),
    Constraint(kind="unit", text="sentence"),
]


def logs_of(history):
    return log_probabilities(torch.tensor(fakes.noise(history), dtype=torch.float32))


def scored(constraint=None, *, top=0, masked=False, n=1, **fields):
    request = make_request("a", PROMPT, constraint=constraint, **fields)
    return msgspec.structs.replace(request, n=n, logprobs=Logprobs(top=top, masked=masked))


def outputs(request, **options):
    decoder = make_decoder(
        fakes.FakeModel(fakes.noise), fill_masks=grammar.fill_masks, **{"max_rows": 4} | options
    )
    constraint = request.constraint
    decoder.submit(request, compiled(constraint) if constraint else None)
    chunks = run(decoder)["a"]
    return [answer([c for c in chunks if c.index == i]) for i in range(request.n)]


@given(
    constraint=st.sampled_from(CONSTRAINTS),
    temperature=st.sampled_from([0.0, 1.0]),
    top=st.integers(0, 4),
    n=st.integers(1, 3),
    max_tokens=st.integers(33, 60),
    step_tokens=st.sampled_from([7, 64]),
    sizes=st.sampled_from([{}, {"num_blocks": 8, "max_rows": 3}, {"max_rows": 1}]),
    share_prefixes=st.booleans(),
    reproducible=st.booleans(),
    drafts=st.booleans(),
)
def test_raw_is_the_models_own_at_every_place(
    constraint, temperature, top, n, max_tokens, step_tokens, sizes, share_prefixes,
    reproducible, drafts,
):  # fmt: skip
    sampling = Sampling(
        temperature=temperature, seed=3, frequency_penalty=0.5, logit_bias=((98, 2.0),)
    )
    request = scored(constraint, top=top, n=n, max_tokens=max_tokens, sampling=sampling)
    options = {
        "step_tokens": step_tokens,
        "share_prefixes": share_prefixes,
        "reproducible": reproducible,
        "drafter": Drafter(fakes.token_bytes, list, always=True) if drafts else None,
        **sizes,
    }
    got = outputs(request, **options)
    plain = outputs(msgspec.structs.replace(request, logprobs=None), **options)
    for output, without in zip(got, plain, strict=True):
        assert output.text == without.text
        assert output.finish.reason == without.finish.reason
        assert output.finish.detail == without.finish.detail
        assert [(t.token_id, t.forced) for t in output.tokens] == [
            (t.token_id, t.forced) for t in without.tokens
        ]
        history = list(fakes.encode(PROMPT))
        for token in output.tokens:
            logs = logs_of(history)
            assert token.score.logprob == pytest.approx(float(logs[token.token_id]), abs=1e-5)
            assert token.score.rank == 1 + int((logs > logs[token.token_id]).sum())
            best = logs.argsort(descending=True)[:top].tolist()
            assert [c.token_id for c in token.score.candidates] == best
            history.append(token.token_id)


@pytest.mark.parametrize("constraint", CONSTRAINTS[1:])
def test_masked_is_over_what_may_come(constraint):
    (got,) = outputs(scored(constraint, top=3, masked=True, max_tokens=60))
    history = list(fakes.encode(PROMPT))
    matcher = compiled(constraint).matcher()
    for token in got.tokens:
        mask = np.zeros((fakes.VOCAB + 31) // 32, dtype=np.uint32)
        matcher.fill_mask(mask, 60 - (len(history) - len(PROMPT)))
        allowed = np.unpackbits(mask.view(np.uint8), bitorder="little")[: fakes.VOCAB] > 0
        logs = torch.tensor(fakes.noise(history), dtype=torch.float32)
        logs[~torch.from_numpy(allowed)] = -torch.inf
        expected = float(logs.log_softmax(0)[token.token_id])
        if token.forced:
            assert token.score.logprob == expected == 0
            assert [c.token_id for c in token.score.candidates] == [token.token_id]
        assert token.score.logprob == pytest.approx(expected, abs=1e-5)
        assert all(allowed[c.token_id] for c in token.score.candidates)
        matcher.advance(token.token_id)
        history.append(token.token_id)


@given(
    constraint=st.sampled_from(CONSTRAINTS),
    logprobs=st.sampled_from([None, Logprobs(top=1), Logprobs(top=1, masked=True)]),
    top=st.integers(0, 3),
    n=st.integers(1, 3),
    step_tokens=st.sampled_from([7, 64]),
    sizes=st.sampled_from([{}, {"num_blocks": 8, "max_rows": 3}, {"max_rows": 1}]),
    reproducible=st.booleans(),
)
def test_the_prompt_is_scored_in_the_same_pass(
    constraint, logprobs, top, n, step_tokens, sizes, reproducible
):
    request = scored(constraint, n=n, max_tokens=40, sampling=Sampling(seed=3))
    request = msgspec.structs.replace(request, logprobs=logprobs, prompt_logprobs=top)
    options = {"step_tokens": step_tokens, "reproducible": reproducible, **sizes}
    got = outputs(request, share_prefixes=True, **options)
    plain = outputs(msgspec.structs.replace(request, prompt_logprobs=None), **options)
    assert [(o.text, o.tokens, o.finish.reason) for o in got] == [
        (o.text, o.tokens, o.finish.reason) for o in plain
    ]
    assert all(output.finish.prompt_scores == () for output in (*got[1:], *plain))
    prompt = fakes.encode(PROMPT)
    assert len(got[0].finish.prompt_scores) == len(prompt) - 1
    for place, found in enumerate(got[0].finish.prompt_scores, 1):
        assert found == score(logs_of(prompt[:place]), prompt[place], top)


def test_a_prompt_in_the_cache_is_computed_again_for_its_scores():
    decoder = make_decoder(fakes.FakeModel(fakes.noise), share_prefixes=True)
    for asked in (None, 0):
        request = make_request("a", PROMPT, max_tokens=1)
        decoder.submit(msgspec.structs.replace(request, prompt_logprobs=asked))
        finish = answer(run(decoder)["a"]).finish
    assert finish.usage.cached_tokens == 0
    assert len(finish.prompt_scores) == len(PROMPT) - 1


def test_nothing_is_reported_or_computed_where_nobody_asks():
    request = msgspec.structs.replace(scored(CONSTRAINTS[1]), logprobs=None)
    (got,) = outputs(request)
    assert all(token.score is None for token in got.tokens)


def test_an_answer_that_is_forced_needs_the_model_for_its_scores_only():
    model = fakes.FakeModel(fakes.noise)
    for logprobs, steps in [(None, 0), (Logprobs(masked=True), 0), (Logprobs(), 1)]:
        decoder = make_decoder(model, fill_masks=grammar.fill_masks)
        model.fed.clear()
        request = msgspec.structs.replace(scored(CONSTRAINTS[2]), logprobs=logprobs)
        decoder.submit(request, compiled(CONSTRAINTS[2]))
        got = answer(run(decoder)["a"])
        assert (got.text, got.finish.reason) == ("all of it is forced", FinishReason.STOP)
        assert len(got.tokens) == len(got.text)
        assert len(model.fed) == steps


def test_cancelled_while_scores_are_missing_it_ends():
    decoder = make_decoder(fakes.FakeModel(fakes.noise), fill_masks=grammar.fill_masks)
    decoder.submit(scored(CONSTRAINTS[2], n=2), compiled(CONSTRAINTS[2]))
    decoder._scheduler.admit()
    for sequence in decoder._scheduler.running:
        decoder._begin(sequence)
    decoder.cancel("a")
    assert {c.finish.reason for c in decoder.step()} == {FinishReason.CANCELLED}
    assert decoder.is_idle
    assert not decoder._scheduler.held


def test_what_the_prefix_cache_holds_is_scored_all_the_same():
    """The second request finds prompt and forced tokens in the cache, but not their logits."""
    constraint = Constraint(kind="regex", text=f"{'x' * (3 * BLOCK)}[ab]")
    decoder = make_decoder(
        fakes.FakeModel(fakes.noise), fill_masks=grammar.fill_masks, share_prefixes=True
    )
    answers = []
    for _ in range(2):
        decoder.submit(scored(constraint), compiled(constraint))
        answers.append(answer(run(decoder)["a"]))
    assert answers[0].tokens == answers[1].tokens
    assert answers[1].finish.usage.cached_tokens == len(PROMPT) // BLOCK * BLOCK


def test_on_real_arithmetic_as_one_pass_over_the_whole_text():
    model = CpuLlama(tiny.build(tiny.CONFIGS["llama"]), threads=2)
    decoder = Decoder(
        model,
        tiny.make_cache(model),
        token_bytes=lambda token: bytes([token]),
        eos_ids=(1,),
        vocab_size=tiny.VOCAB,
        fill_masks=fakes.fill_masks,
    )
    decoder.submit(scored(max_tokens=20, ignore_eos=True, sampling=Sampling(seed=1)))
    got = answer(run(decoder)["a"])
    said = [token.token_id for token in got.tokens]
    whole = [*fakes.encode(PROMPT), *said]
    (logits,) = tiny.feed(model, tiny.make_cache(model), [whole], [[len(whole)]])
    for place, token in enumerate(got.tokens):
        logs = log_probabilities(logits[len(PROMPT) - 1 + place])
        assert token.score == score(logs, token.token_id, 0)  # bit for bit


def test_candidates_are_possible_tokens():
    logs = log_probabilities(torch.tensor([1.0, 2.0, 3.0]), np.array([0b101], dtype=np.uint32))
    found = score(logs, 0, 3)
    assert [candidate.token_id for candidate in found.candidates] == [2, 0]
    assert found.rank == 2
    assert sum(np.exp(candidate.logprob) for candidate in found.candidates) == pytest.approx(1)
