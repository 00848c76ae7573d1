"""Quotas as people write them."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.topics.messaging import serving

from fairlead_messaging.server import quotas
from fairlead_messaging.server.quotas import (
    BURST_SECONDS,
    MESSAGE_BYTES,
    NAMESPACES_MAX,
    UNLIMITED,
    ByteRate,
    Quota,
    QuotaModel,
    Quotas,
    StoredBytes,
)


def test_the_first_entry_that_matches_counts_and_system_has_none() -> None:
    quotas = Quotas([QuotaModel(namespace="shop-7", topics=5), QuotaModel(namespace="*", topics=1)])
    assert (quotas.of("shop-7"), quotas.of("x")) == (Quota(topics=5), Quota(topics=1))
    assert quotas.of("system") is UNLIMITED
    assert Quotas([]).of("x") is UNLIMITED


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"namespace": "a"}, "limits nothing"),
        ({"namespace": "system", "topics": 1}, "belongs to Fairlead"),
        ({"namespace": "a/b", "topics": 1}, "namespace's name"),
        ({"namespace": "a", "bytes_per_second": 0}, "bytes_per_second"),
    ],
)
def test_what_cannot_be_meant_is_refused(said: dict[str, Any], reason: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=reason):
        QuotaModel.model_validate(said)


# --- Bytes a second.


def test_a_seconds_worth_comes_at_once_and_the_rest_is_waited_for() -> None:
    rate = ByteRate()
    assert rate.wait("a", 0.0) == 0.0
    rate.take("a", 1000, 100, 0.0)
    assert rate.wait("a", 0.0) == pytest.approx(9.0)
    assert rate.wait("b", 0.0) == 0.0
    assert rate.wait("a", 9.0) == pytest.approx(0.0)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=200))
def test_who_waits_as_told_takes_no_more_than_its_rate(sizes: list[int]) -> None:
    """Whatever the sizes are: in any time no more than the rate, a second's worth and one request."""
    rate, now, taken = ByteRate(), 0.0, 0
    for size in sizes:
        now += rate.wait("a", now)
        rate.take("a", size, 100, now)
        taken += size
        assert taken <= 100 * (now + BURST_SECONDS) + max(sizes) + 0.01


def test_namespaces_without_end_are_not_remembered() -> None:
    rate = ByteRate()
    for number in range(NAMESPACES_MAX + 1):
        rate.take(str(number), 1000, 1, 0.0)
    assert rate.wait("0", 0.0) == 0.0 and rate.wait("1", 0.0) > 0


# --- How much a namespace holds.


def test_what_is_on_its_way_counts_and_what_failed_does_not() -> None:
    held = StoredBytes()
    held.coming("a", 10)
    held.coming("a", 5)
    assert held.of("a") == 15
    held.ended("a", 10, stored=True)
    held.ended("a", 5, stored=False)
    assert (held.of("a"), held.of("b")) == (10, 0)


def test_what_is_stored_while_it_is_measured_counts_until_the_next_time() -> None:
    held = StoredBytes()
    held.coming("a", 1)
    held.ended("a", 1, stored=True)
    held.begin()
    held.coming("a", 10)
    held.ended("a", 10, stored=True)
    assert held.of("a") == 11
    held.measured({"a": 100})
    assert held.of("a") == 110
    held.begin()
    held.measured({"a": 111})
    assert held.of("a") == 111


def test_a_look_that_failed_forgets_nothing() -> None:
    held = StoredBytes()
    for size in (1, 2):
        held.coming("a", size)
        held.ended("a", size, stored=True)
        held.begin()
    assert held.of("a") == 3


async def test_what_lives_counts_and_what_waits_in_transactions() -> None:
    async with serving() as topics:
        await topics.create("t", ttl=10)
        await topics.publish("t", "12345", "1")

        async def held() -> dict[str, int]:
            now_ms = topics.clock.now_ms
            return await topics.broker.read(lambda kv: quotas.measure(kv, now_ms, lambda each: each == "default"))

        assert await held() == {"default": 6 + 2 * MESSAGE_BYTES}
        pointer, _ = await topics.start()
        await topics.store("t", "123", tx=pointer)
        assert await held() == {"default": 9 + 3 * MESSAGE_BYTES}
        await topics.finish(pointer, "abort")
        topics.clock.forward(20_000)
        await topics.publish("t", "1")
        assert await held() == {"default": 1 + MESSAGE_BYTES}
        await topics.ok("DELETE", "topics/t")
        assert await held() == {}
