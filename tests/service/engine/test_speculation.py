"""Drafts change how many steps an answer takes, and nothing else (decision 13)."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import grammar
from service.engine.cpu_llama import CpuLlama
from service.engine.decoder import Decoder
from service.engine.drafting import MAX_DRAFT, Drafter
from service.engine.lookup import Lookup
from service.engine.types import Constraint, Sampling, Usage
from service.engine.worth import Chances, StepCost, is_worth
from tests import fakes
from tests.service.engine import tiny
from tests.service.engine.decoding import answer, make_decoder, make_request, run
from tests.service.engine.test_truth import compiled

PEOPLE = (
    '{"type": "array", "minItems": 2, "maxItems": 6, "items": {"type": "object", "properties":'
    '{"name": {"enum": ["Ada Lovelace", "Alan Turing"]}, "age": {"enum": [1, 12, 123]}},'
    '"required": ["name", "age"]}}'
)
CONSTRAINTS = [
    None,
    Constraint(kind="regex", text="[ab.]+"),
    Constraint(kind="regex", text="(ab|ba|a\\.){4,}"),
    Constraint(kind="unit", text="sentence"),
    Constraint(kind="unit", text="brackets"),
    Constraint(kind="json_schema", text=PEOPLE),
]


def drafter(**options):
    return Drafter(fakes.token_bytes, list, always=True, **options)


def forgetful(seed, alphabet, memory=2):
    """A model that sees only the last tokens, and so repeats itself."""
    liked = [*alphabet.encode(), fakes.EOS, fakes.SPECIAL]

    def script(history):
        logits = fakes.noise([seed, *history[-memory:]])
        logits[liked] += 6
        return logits

    return script


def generate(script, request, drafts):
    model = fakes.FakeModel(script)
    decoder = make_decoder(model, fill_masks=grammar.fill_masks, drafter=drafts)
    constraint = request.constraint
    decoder.submit(request, compiled(constraint) if constraint else None)
    return answer(run(decoder)[request.request_id]), len(model.fed)


def without_counts(chunk):
    """All of an answer that a caller sees, but the work it took."""
    finish = chunk.finish
    return chunk.text, chunk.tokens, finish.reason, finish.complete, finish.detail, finish.error


requests = st.builds(
    lambda constraint, sampling, **fields: make_request(
        "a",
        'abab. [a] "Ada Lovelace","age":12>',
        constraint=constraint,
        sampling=sampling,
        **fields,
    ),
    st.sampled_from(CONSTRAINTS),
    st.builds(
        Sampling,
        temperature=st.sampled_from([0.0, 0.7, 2.0]),
        top_p=st.sampled_from([1.0, 0.9]),
        top_k=st.sampled_from([0, 5]),
        seed=st.integers(0, 1000),
        frequency_penalty=st.sampled_from([0.0, 0.5]),
        repetition_penalty=st.sampled_from([1.0, 1.2]),
        penalty_scope=st.sampled_from(["all", "free_text"]),
        penalize_prompt=st.booleans(),
        logit_bias=st.sampled_from([(), ((97, 3.0),)]),
    ),
    max_tokens=st.integers(1, 90),
    min_tokens=st.integers(0, 8),
    stop=st.sampled_from([(), ("aba",), (". ", "]]")]),
    stop_regex=st.sampled_from([(), ("b{2}a",)]),
    stop_token_ids=st.sampled_from([(), (97,), (fakes.EOS,)]),
    ignore_eos=st.booleans(),
    guaranteed=st.booleans(),
)


@given(requests, st.integers(0, 99), st.sampled_from(["ab", "ab. ", "[]ab"]))
def test_the_answer_is_the_one_without_drafts(request_, seed, alphabet):
    script = forgetful(seed, alphabet)
    plain, steps = generate(script, request_, None)
    drafted, fewer = generate(script, request_, drafter())
    assert without_counts(drafted) == without_counts(plain)
    assert fewer <= steps
    before, after = plain.finish.usage, drafted.finish.usage
    assert after.accepted_draft_tokens <= after.drafted_tokens
    assert before == Usage(**{f: getattr(after, f) for f in Usage.__struct_fields__} | NO_DRAFTS)


NO_DRAFTS = {"drafted_tokens": 0, "accepted_draft_tokens": 0}


def test_a_copied_text_takes_a_fraction_of_the_steps():
    said = "the quick brown fox jumps over the lazy dog"
    model = fakes.replies({f"repeat: {said}>": f"{said}. {said}"})
    request = make_request("a", f"repeat: {said}>")
    plain, steps = generate(model, request, None)
    drafted, fewer = generate(model, request, drafter())
    assert plain.text == drafted.text == f"{said}. {said}"
    assert steps == len(plain.text) + 1
    # Two copies, each after the bytes that must agree, so many tokens a step.
    assert fewer <= 4 + 2 * (4 + -(-len(said) // (MAX_DRAFT + 1)))
    usage = drafted.finish.usage
    assert usage.accepted_draft_tokens >= len(plain.text) - fewer
    assert usage.completion_tokens == len(plain.text)


def test_forced_tokens_are_part_of_a_draft():
    """A list of alike objects: after a guessed choice comes what it forces, in the same step."""
    text = "[" + ",".join(['{"name":"Ada Lovelace","age":12}'] * 6) + "]"
    constraint = Constraint(kind="json_schema", text=PEOPLE)
    request = make_request("a", constraint=constraint)
    plain, steps = generate(fakes.replies({"a>": text}), request, None)
    drafted, fewer = generate(fakes.replies({"a>": text}), request, drafter())
    assert plain.text == drafted.text == text
    assert drafted.finish.usage.forced_tokens == plain.finish.usage.forced_tokens > 0
    assert fewer < steps / 2


def test_no_draft_holds_a_token_that_the_constraint_forbids():
    """The prompt goes on with a digit where only letters may stand."""
    model = fakes.FakeModel(fakes.noise)
    decoder = make_decoder(model, fill_masks=grammar.fill_masks, drafter=drafter())
    constraint = Constraint(kind="regex", text="abcd(e|f)[a-z]{10}")
    request = make_request("a", "abcd1 abcd1 abcde1>", constraint=constraint)
    decoder.submit(request, compiled(constraint))
    run(decoder)
    fed = b"".join(bytes(row.token_ids) for step in model.fed[1:] for row in step)
    assert b"1" not in fed


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_on_real_arithmetic_with_packed_weights(temperature):
    """Four rows that come and go, over shared prefixes; the same tokens, in fewer steps."""
    model = CpuLlama(tiny.build(tiny.CONFIGS["llama"]), threads=2)
    prompts = [[5, 6, 7] * 6, [9] * 17, list(range(2, 40)) * 2, [3]]
    two_letters = ((2, 60.0), (3, 60.0))  # of two letters a text soon repeats itself
    requests = [
        make_request(
            str(n),
            sampling=Sampling(temperature=temperature, seed=n, logit_bias=two_letters),
            max_tokens=40,
            min_tokens=40,
            ignore_eos=True,
        )
        for n, _ in enumerate(prompts)
    ]
    requests = [
        type(r)(**{f: getattr(r, f) for f in r.__struct_fields__} | {"prompt_ids": tuple(ids)})
        for r, ids in zip(requests, prompts, strict=True)
    ]

    def answers(drafts):
        decoder = Decoder(
            model,
            tiny.make_cache(model, num_blocks=64),
            token_bytes=lambda token: bytes([token]),
            eos_ids=(1,),
            vocab_size=tiny.VOCAB,
            fill_masks=fakes.fill_masks,
            reproducible=True,
            drafter=drafts,
        )
        early = []
        for request in requests:
            decoder.submit(request)
            early += decoder.step()
        late = run(decoder)
        chunks = [*early, *itertools.chain.from_iterable(late.values())]
        return {
            r.request_id: [t for c in chunks if c.request_id == r.request_id for t in c.tokens]
            for r in requests
        }, sum(c.finish.usage.accepted_draft_tokens for c in chunks if c.finish)

    plain, _ = answers(None)
    drafted, accepted = answers(Drafter(lambda token: bytes([token]), list, always=True))
    assert drafted == plain
    assert accepted > 10


def test_drafted_tokens_have_the_masked_distribution():
    """Chi-square of what many seeds sample against the masked softmax."""
    constraint = Constraint(kind="regex", text="wxyz[abc]{3}")
    weights = np.array([0.2, 0.5, 0.3])

    def script(history):
        logits = np.zeros(fakes.VOCAB)
        logits[list(b"abc")] = np.log(weights)
        logits[ord("z")] = 3.0  # what the mask forbids
        return logits

    found: Counter[str] = Counter()
    accepted = 0
    for seed in range(1500):
        sampling = Sampling(temperature=1.0, seed=seed)
        request = make_request(
            "a", "wxyzabb wxyzcbb wxyzbbb>", constraint=constraint, sampling=sampling
        )
        got, _ = generate(script, request, drafter())
        found[got.text[4:]] += 1
        accepted += got.finish.usage.accepted_draft_tokens
    assert accepted > 800
    expected = {
        a + b + c: 1500 * float(weights[["abc".index(x) for x in (a, b, c)]].prod())
        for a, b, c in itertools.product("abc", repeat=3)
    }
    assert found.keys() <= expected.keys()
    chi_square = sum((found[key] - e) ** 2 / e for key, e in expected.items())
    assert chi_square < 54.05  # 26 degrees of freedom: one in a thousand is above


def test_wrong_guesses_are_not_remembered_as_prefixes():
    """Both begin alike; the first row's rejected drafts must not be found by the second."""
    said = "abcdefgh" * 3
    prompt = f"{said}>"
    script = forgetful(3, "abcdefgh", memory=3)
    decoders = []
    for drafts in (None, drafter()):
        decoder = make_decoder(
            fakes.FakeModel(script), drafter=drafts, share_prefixes=True, num_blocks=64
        )
        texts = []
        for name in "ab":
            decoder.submit(make_request(name, prompt, max_tokens=60, ignore_eos=True))
            texts.append(answer(run(decoder)[name]).text)
        decoders.append(texts)
    assert decoders[0] == decoders[1]


class TestLookup:
    def lookup(self, text, *more):
        words = [text, *more]

        def spell(piece):
            return [words.index(piece)] if piece in words else []

        return Lookup(lambda token: words[token], spell)

    def test_the_longest_agreement_wins_then_the_latest(self):
        lookup = Lookup(fakes.token_bytes, list)
        lookup.extend(b"xabcd1 yabcd2 yabcd3 zabcd4 yabcd")
        match = lookup.find()
        assert (match.position, match.length) == (19, 6)
        assert bytes(itertools.islice(lookup.following(match.position), 3)) == b"3 z"

    def test_less_than_four_bytes_are_chance(self):
        lookup = Lookup(fakes.token_bytes, list)
        lookup.extend(b"1abc2 abc")
        assert lookup.find() is None

    def test_inside_a_token_its_rest_is_spelled(self):
        lookup = self.lookup(b" Maria", b" Jensen", b'"', b"Mari", b"a")
        lookup.extend([0, 1, 2, 3])
        assert list(lookup.following(lookup.find().position)) == [4, 1, 2, 3]

    def test_a_rest_that_nothing_spells_ends_the_guess(self):
        lookup = self.lookup(b" Maria", b" Jensen", b'"', b"Mari")
        lookup.extend([0, 1, 2, 3])
        assert list(lookup.following(lookup.find().position)) == []

    def test_truncated_it_is_what_it_was(self):
        lookup = Lookup(fakes.token_bytes, list)
        lookup.extend(b"abcdef abcd")
        before = lookup.find()
        lookup.extend(b"efgh")
        lookup.truncate(11)
        assert len(lookup) == 11
        assert lookup.find() == before

    @given(st.lists(st.sampled_from([b"a", b"b", b"ab", b""]), max_size=60))
    def test_what_is_found_agrees(self, words):
        lookup = Lookup(lambda token: words[token], lambda piece: [])
        lookup.extend(range(len(words)))
        text = b"".join(words)
        match = lookup.find()
        naive = [p for p in range(4, len(text)) if text[p - 4 : p] == text[-4:]]
        assert (match is None) == (not naive)
        if match:
            assert match.position in naive
            assert text[: match.position].endswith(text[-match.length :])


class TestWorth:
    def test_a_constant_and_a_slope_are_found(self):
        cost = StepCost()
        for positions in [1, 1, 1, 5, 1, 2, 9] * 20:
            cost.add(positions, 10.0 + 3.0 * positions)
        assert cost.slope == pytest.approx(0.3, rel=0.01)

    def test_drafts_end_where_they_are_never_right_and_are_tried_again(self):
        chances = Chances()
        for _ in range(50):
            chances.learn(6, right=False)
        assert not is_worth(chances.of(6), 1, 0.3, rows=1)
        assert is_worth(chances.of(20), 1, 0.3, rows=1)  # another class
        for _ in range(1000):
            chances.forget(6)
        assert is_worth(chances.of(6), 1, 0.3, rows=1)

    def test_with_many_rows_only_the_nearly_certain_is_worth_it(self):
        assert is_worth(0.6, 1, 0.3, rows=1)
        assert not is_worth(0.6, 1, 0.3, rows=8)
        assert is_worth(0.99, 1, 0.3, rows=8)

    def test_a_request_is_judged_by_its_own_guesses_then(self):
        everyone = Chances()
        one, other = Chances(everyone), Chances(everyone)
        for _ in range(30):
            one.learn(10, right=True)
            other.learn(10, right=False)
        assert one.of(10) > 0.8 > 0.2 > other.of(10)


def test_a_decoder_stops_guessing_what_is_never_right():
    """A model that says every text but the one before: guesses die out, and come back rarely."""
    rng = np.random.default_rng(0)
    text = "".join(f"abcd{a}" for a in rng.permutation(list("efghijklmnopqrstuvwxyz"))) * 2
    request = make_request("a", "abcd1 abcd2>", max_tokens=len(text))
    drafts = Drafter(fakes.token_bytes, list)
    got, _ = generate(fakes.replies({"abcd1 abcd2>": text}), request, drafts)
    always, _ = generate(fakes.replies({"abcd1 abcd2>": text}), request, drafter())
    assert got.text == always.text == text
    assert got.finish.usage.drafted_tokens < always.finish.usage.drafted_tokens / 3
