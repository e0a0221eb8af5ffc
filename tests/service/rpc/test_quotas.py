"""Quotas: who is refused, for how long, and that nothing is counted twice or for ever."""

from __future__ import annotations

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import Busy
from service.rpc.api_keys import ApiKeys, ApiKeysError, Key, read_keys
from service.rpc.pb.v1 import constraint_pb2 as c
from service.rpc.pb.v1 import generation_pb2 as g
from service.rpc.pb.v1 import generation_pb2_grpc
from service.rpc.quotas import Account, Quota
from tests.service.rpc.calls import details, refused, until
from tests.service.rpc.fakes import serving

SHOP = b"first-key-of-the-shop", b"second-key-of-the-shop"
OTHER = b"the-key-of-another"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_as_many_at_a_time_as_it_says():
    account = Account(Quota(concurrent=2))
    first, _ = account.enter(), account.enter()
    with pytest.raises(Busy) as caught:
        account.enter()
    assert (caught.value.reason, caught.value.retry_after_s) == ("QUOTA", 1)
    first.leave()
    first.leave()  # once is enough
    account.enter()
    with pytest.raises(Busy):
        account.enter()


def test_who_is_in_debt_waits_until_it_is_paid_off():
    clock = Clock()
    account = Account(Quota(tokens_per_minute=60), clock)
    ticket = account.enter()
    ticket.spend(59)
    account.enter().spend(61)  # one is left, so it is accepted, and not cut
    with pytest.raises(Busy) as caught:
        account.enter()
    assert caught.value.retry_after_s == pytest.approx(61)
    assert "60 tokens a minute" in caught.value.message
    clock.now += 60.9
    with pytest.raises(Busy):
        account.enter()
    clock.now += 0.2
    account.enter()


def test_credit_is_for_a_minute_and_no_longer():
    clock = Clock()
    account = Account(Quota(tokens_per_minute=60), clock)
    clock.now += 86_400
    account.enter().spend(60)
    with pytest.raises(Busy):
        account.enter()


@given(
    st.integers(1, 10_000),
    st.lists(st.tuples(st.floats(0, 100), st.integers(0, 5_000)), min_size=1, max_size=40),
)
def test_who_waits_as_told_is_accepted_and_never_gets_more_than_the_rate(rate, calls):
    """Over any time: a minute's worth at first, what was earned, and one request's overdraft."""
    clock = Clock()
    account = Account(Quota(tokens_per_minute=rate), clock)
    spent = 0
    for pause, tokens in calls:
        clock.now += pause
        try:
            ticket = account.enter()
        except Busy as busy:
            assert busy.retry_after_s > 0
            clock.now += busy.retry_after_s + 1e-6 * (1 + clock.now)
            ticket = account.enter()
        assert spent <= rate + clock.now * rate / 60 + 1e-6 * (1 + spent)
        ticket.spend(tokens)
        ticket.leave()
        spent += tokens


def test_a_file_may_say_tenants_and_limits(tmp_path):
    path = tmp_path / "keys"
    path.write_bytes(
        b"first-key-of-the-shop tenant=shop concurrent=2 tokens_per_minute=600\n"
        b"second-key-of-the-shop   tenant=shop\n"
        b"the-key-of-another concurrent=1\n"
    )
    assert read_keys(path) == [
        Key(SHOP[0], "shop", Quota(2, 600)),
        Key(SHOP[1], "shop"),
        Key(OTHER, "", Quota(1)),
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("concurrent=0", "concurrent= is not a number from 1"),
        ("concurrent=", "concurrent= is not a number"),
        ("tokens_per_minute=1e3", "tokens_per_minute= is not a number"),
        ("tokens_per_minute=99999999999", "to 1000000000"),
        ("tenant=", "tenant= has no name"),
        ("concurrent=1 concurrent=2", "once each"),
        ("color=red", "only tenant="),
        ("another-secret-by-mistake", "only tenant="),
    ],
)
def test_what_is_wrong_with_a_line_is_said_without_showing_it(tmp_path, more, said):
    path = tmp_path / "keys"
    path.write_text(f"{OTHER.decode()}\n{SHOP[0].decode()} {more}\n")
    with pytest.raises(ApiKeysError, match=said) as caught:
        read_keys(path)
    assert "line 2" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_one_tenant_has_one_pair_of_limits(tmp_path):
    path = tmp_path / "keys"
    lines = [f"{key.decode()} tenant=shop concurrent={n}" for n, key in enumerate(SHOP, 1)]
    path.write_text("\n".join(lines))
    with pytest.raises(ApiKeysError, match="line 2: the tenant has other limits above"):
        read_keys(path)


def keys(quota):
    return ApiKeys([Key(SHOP[0], "shop", quota), Key(SHOP[1], "shop"), Key(OTHER)])


def call(served, key, method="Generate", **fields):
    stub = generation_pb2_grpc.GenerationServiceStub(served.channel)
    request = g.GenerateRequest(**{"prompt": "x", **fields})
    return getattr(stub, method)(request, metadata=[("authorization", f"Bearer {key.decode()}")])


def holder(key):
    return [("authorization", f"Bearer {key.decode()}")]


def test_an_account_outlives_its_keys():
    """A key is replaced in two steps; neither frees what its tenant has."""
    keys = ApiKeys([Key(SHOP[0], "shop", Quota(concurrent=1)), Key(OTHER, "", Quota(1))])
    shop, other = keys.account_of(holder(SHOP[0])), keys.account_of(holder(OTHER))
    ticket = shop.enter()
    keys.replace([Key(SHOP[1], "shop", Quota(concurrent=2)), Key(OTHER)])
    assert keys.account_of(holder(SHOP[0])) is None
    assert keys.account_of(holder(SHOP[1])) is shop
    assert keys.account_of(holder(OTHER)) is other
    assert other.quota == Quota()
    shop.enter()
    with pytest.raises(Busy):
        shop.enter()
    ticket.leave()
    shop.enter()


def test_another_rate_begins_with_a_full_minute_and_the_same_one_goes_on():
    account = Account(Quota(tokens_per_minute=60), Clock())
    account.enter().spend(90)
    account.limit(Quota(5, tokens_per_minute=60))
    with pytest.raises(Busy):
        account.enter()
    account.limit(Quota(5, tokens_per_minute=600))
    account.enter()


async def test_keys_of_one_tenant_share_its_places_and_others_have_theirs():
    async with serving(capacity=9, api_keys=keys(Quota(concurrent=2))) as served:
        served.engine.gate.clear()
        stream = call(served, SHOP[0], "GenerateStream")
        assert await stream.read()
        second = call(served, SHOP[1])
        await until(lambda: len(served.engine.submitted) == 2)
        code, reason, _ = await refused(call(served, SHOP[0]))
        assert (code, reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA")
        found = await details(call(served, SHOP[1]))
        assert found["RetryInfo"].retry_delay.ToMilliseconds() == 1_000
        assert found["QuotaFailure"].violations[0].subject == "generations of a tenant at a time"
        other = call(served, OTHER)
        await until(lambda: len(served.engine.submitted) == 3)
        assert not any(key in str(found).encode() for key in SHOP)

        stream.cancel()  # whose place is free at once
        await until(lambda: served.front.num_requests == 2)
        served.engine.gate.set()
        for each in (second, other, call(served, SHOP[0])):
            assert (await each).outputs[0].text == "yes"


async def test_refused_calls_hold_no_place():
    async with serving(api_keys=keys(Quota(concurrent=1))) as served:
        for _ in range(3):
            assert (await refused(call(served, SHOP[0], model="gpt")))[1] == "UNKNOWN_MODEL"
            broken = call(served, SHOP[0], constraint=c.Constraint(regex="("))
            assert (await refused(broken))[1] == "CONSTRAINT_SYNTAX"
        await call(served, SHOP[0])


@pytest.mark.parametrize("method", ["Generate", "GenerateStream"])
async def test_tokens_of_prompt_and_answer_are_counted_in_both_ways_of_reading(
    monkeypatch, method
):
    spent = []
    monkeypatch.setattr(Account, "spend", lambda self, tokens: spent.append((self, tokens)))
    holders = keys(Quota(tokens_per_minute=1_000))
    async with serving(api_keys=holders) as served:
        answered = call(served, SHOP[0], method, prompt="four")
        if method == "Generate":
            assert (await answered).outputs[0].text == "yes"
        else:
            assert [event async for event in answered]
    shop = holders.account_of([("authorization", f"Bearer {SHOP[1].decode()}")])
    assert all(account is shop for account, _ in spent)
    assert [tokens for _, tokens in spent if tokens] == [4, 1, 1, 1]


async def test_whose_tokens_are_used_up_is_refused_and_others_are_not():
    holders = keys(Quota(tokens_per_minute=1_000))
    async with serving(api_keys=holders) as served:
        await call(served, SHOP[0])
        shop = holders.account_of([("authorization", f"Bearer {SHOP[1].decode()}")])
        shop.spend(2_000)
        for key in SHOP:
            code, reason, _ = await refused(call(served, key))
            assert (code, reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA")
        retry = (await details(call(served, SHOP[0])))["RetryInfo"].retry_delay
        assert 30 < retry.ToTimedelta().total_seconds() <= 61
        await call(served, OTHER)
