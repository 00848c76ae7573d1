"""The delivery policy: curves, phases, limits, jitter, and the two compatibility modes."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead_edge.outbox.delivery import UPSTREAM_POLICY
from fairlead_wire import delivery_policy
from fairlead_wire.delivery_policy import Curve, Delay, DeliveryPolicy, policy_summary

GEOMETRIC = [5, 7.755986, 12.031065, 18.662556, 28.949306, 44.906085, 69.658198, 108.053608, 167.612464, 260]
CURVES: tuple[Curve, ...] = ("linear", "arithmetic", "geometric", "exponential")
EXPONENTIAL = DeliveryPolicy(
    retries_with_no_delay=0,
    minimum_delay_retries=0,
    minimum_delay=1,
    maximum_delay=30,
    maximum_delay_retries=0,
    retry_backoff_function="exponential",
    backoff_retries=5,
)


def only_backoff(**keys: Any) -> DeliveryPolicy:
    """A policy with nothing but its backoff phase."""
    return DeliveryPolicy(retries_with_no_delay=0, minimum_delay_retries=0, maximum_delay_retries=0, **keys)


def seconds(policy: DeliveryPolicy) -> list[float]:
    return [item.seconds for item in delivery_policy.schedule(policy)]


# ── curves ──


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        ("linear", [5, 33.333333, 61.666667, 90, 118.333333, 146.666667, 175, 203.333333, 231.666667, 260]),
        ("arithmetic", [5, 10.666667, 22, 39, 61.666667, 90, 124, 163.666667, 209, 260]),
        ("geometric", GEOMETRIC),
        ("exponential", GEOMETRIC),
    ],
)
def test_curves_of_the_seeds_picture(curve: str, expected: list[float]) -> None:
    """Minimum 5, maximum 260, ten retries: the picture the seed refers to."""
    policy = only_backoff(minimum_delay=5, maximum_delay=260, backoff_retries=10, retry_backoff_function=curve)
    assert seconds(policy) == pytest.approx(expected, abs=1e-6)


@given(
    curve=st.sampled_from(CURVES),
    low=st.floats(min_value=1e-6, max_value=1e6),
    span=st.floats(min_value=0, max_value=1e6),
    count=st.integers(min_value=2, max_value=50),
)
def test_every_curve_runs_from_minimum_to_maximum_exactly(curve: str, low: float, span: float, count: int) -> None:
    """First delay = minimum, last = maximum, never a step back, whatever the rounding."""
    policy = only_backoff(
        minimum_delay=low, maximum_delay=low + span, backoff_retries=count, retry_backoff_function=curve
    )
    delays = seconds(policy)
    assert (delays[0], delays[-1]) == (low, low + span)
    assert delays == sorted(delays)


@pytest.mark.parametrize("curve", CURVES)
def test_one_retry_waits_the_minimum(curve: str) -> None:
    """The seed's formulas divide by zero here; the contract says the minimum."""
    assert seconds(only_backoff(backoff_retries=1, retry_backoff_function=curve)) == [5.0]


@pytest.mark.parametrize("curve", CURVES)
def test_no_retries_is_an_empty_schedule(curve: str) -> None:
    assert delivery_policy.schedule(only_backoff(backoff_retries=0, retry_backoff_function=curve)) == []


@pytest.mark.parametrize("curve", CURVES)
def test_equal_ends_make_a_constant_curve(curve: str) -> None:
    policy = only_backoff(minimum_delay=7, maximum_delay=7, backoff_retries=4, retry_backoff_function=curve)
    assert seconds(policy) == [7.0] * 4


def test_a_tiny_minimum_does_not_overflow() -> None:
    policy = only_backoff(
        minimum_delay=5e-324, maximum_delay=1e9, backoff_retries=3, retry_backoff_function="geometric"
    )
    assert all(math.isfinite(wait) for wait in seconds(policy))


# ── phases and limits ──


def test_phases_come_in_order() -> None:
    policy = DeliveryPolicy(
        retries_with_no_delay=1, minimum_delay_retries=1, backoff_retries=2, maximum_delay_retries=1
    )
    assert delivery_policy.schedule(policy) == [
        Delay("immediate", 0.0),
        Delay("pre_backoff", 5.0),
        Delay("backoff", 5.0),
        Delay("backoff", 30.0),
        Delay("post_backoff", 30.0),
    ]


@pytest.mark.parametrize(("curve", "count"), [("linear", 4), ("arithmetic", 3), ("geometric", 3), ("exponential", 3)])
def test_backoff_retries_are_derived_as_in_zaqar(curve: str, count: int) -> None:
    """One for each five seconds of span; only linear counts a started step (here 16 seconds)."""
    assert len(seconds(only_backoff(minimum_delay=5, maximum_delay=21, retry_backoff_function=curve))) == count


def test_retries_max_truncates_any_schedule() -> None:
    policy = DeliveryPolicy(maximum_delay=1_000_000_000, retries_max=4)
    assert [item.phase for item in delivery_policy.schedule(policy)] == ["immediate"] * 3 + ["pre_backoff"]
    assert delivery_policy.delay(policy, 3) == Delay("pre_backoff", 5.0)
    assert delivery_policy.delay(policy, 4) is None


def test_total_time_limit_stops_before_it_is_passed() -> None:
    assert seconds(only_backoff(backoff_retries=3, maximum_delay=15, total_seconds_max=15)) == [5.0, 10.0]


def test_total_seconds_has_no_rounding_noise() -> None:
    assert delivery_policy.total_seconds([Delay("backoff", 0.1)] * 10) == 1.0


# ── one retry at a time ──


def test_retry_after_is_never_undercut() -> None:
    """What the receiver asks for wins over a shorter wait of ours, and loses against a longer one."""
    uniform = delivery_policy.generator_of(EXPONENTIAL)
    asked = delivery_policy.next_delay(EXPONENTIAL, 0, uniform=uniform, retry_after_seconds=12)
    ours = delivery_policy.next_delay(EXPONENTIAL, 4, uniform=uniform, retry_after_seconds=12)
    assert (asked, ours) == (Delay("backoff", 12), Delay("backoff", 30.0))


def test_giving_up() -> None:
    """None when the retries are used up, or when waiting would take longer than allowed."""
    limited = DeliveryPolicy(total_seconds_max=10)
    uniform = delivery_policy.generator_of(limited)
    assert delivery_policy.next_delay(EXPONENTIAL, 5, uniform=uniform) is None
    assert delivery_policy.next_delay(limited, 3, uniform=uniform, waited_seconds=5) == Delay("pre_backoff", 5.0)
    assert delivery_policy.next_delay(limited, 4, uniform=uniform, waited_seconds=6) is None


@given(seed=st.integers(0, 2**32), jitter=st.sampled_from(["none", "full", "equal", "decorrelated"]))
def test_one_at_a_time_is_the_same_as_the_schedule(seed: int, jitter: str) -> None:
    """A sender that keeps count walks exactly the schedule people were shown."""
    policy = DeliveryPolicy(jitter=jitter, seed=seed)  # type: ignore[arg-type]
    uniform = delivery_policy.generator_of(policy)
    walked: list[Delay] = []
    while (
        step := delivery_policy.next_delay(
            policy, len(walked), uniform=uniform, previous_seconds=walked[-1].seconds if walked else 0.0
        )
    ) is not None:
        walked.append(step)
    assert walked == delivery_policy.schedule(policy)


# ── jitter ──


@given(seed=st.integers(0, 2**32), curve=st.sampled_from(CURVES))
def test_jitter_stays_in_its_bounds(seed: int, curve: str) -> None:
    """full: 0..wait; equal: wait/2..wait; decorrelated: minimum..three times the last, and never above the maximum."""
    keys: dict[str, Any] = {"retry_backoff_function": curve, "seed": seed}
    plain = delivery_policy.schedule(DeliveryPolicy(**keys))
    full = delivery_policy.schedule(DeliveryPolicy(jitter="full", **keys))
    equal = delivery_policy.schedule(DeliveryPolicy(jitter="equal", **keys))
    decorrelated = delivery_policy.schedule(DeliveryPolicy(jitter="decorrelated", **keys))
    assert all(0 <= got.seconds <= wait.seconds for got, wait in zip(full, plain, strict=True))
    assert all(wait.seconds / 2 <= got.seconds <= wait.seconds for got, wait in zip(equal, plain, strict=True))
    previous = 5.0
    for got, wait in zip(decorrelated, plain, strict=True):
        if wait.phase == "immediate":
            assert got.seconds == 0
        else:
            assert 5 <= got.seconds <= min(30.0, 3 * previous)
            previous = got.seconds


def test_the_seed_decides_the_jitter() -> None:
    """Same seed, same waits, whatever generator is offered; without a seed the generator decides."""
    seeded = DeliveryPolicy(jitter="full", seed=7)
    assert delivery_policy.schedule(seeded, Random(1)) == delivery_policy.schedule(seeded, Random(2))
    open_policy = DeliveryPolicy(jitter="full")
    assert delivery_policy.schedule(open_policy, Random(1)) == delivery_policy.schedule(open_policy, Random(1))
    assert delivery_policy.schedule(open_policy, Random(1)) != delivery_policy.schedule(open_policy, Random(2))


# ── what is refused ──


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "policy: must be keys and values, is []"),
        ({"retries_mx": 3}, "retries_mx: unknown key; did you mean retries_max?"),
        ({"retries": 3}, "retries: unknown key"),
        ({"minimum_delay": "5"}, "minimum_delay: must be a number, is '5'"),
        ({"minimum_delay": True}, "minimum_delay: must be a number, is True"),
        ({"minimum_delay": -1}, "minimum_delay: must be from 0"),
        ({"maximum_delay": float("nan")}, "maximum_delay: must be from 0"),
        ({"maximum_delay": 1e30}, "maximum_delay: must be from 0"),
        ({"minimum_delay": 40}, "maximum_delay: must not be below minimum_delay"),
        ({"minimum_delay": 0, "retry_backoff_function": "geometric"}, "minimum_delay: must be above 0"),
        ({"minimum_delay": 0, "retry_backoff_function": "exponential"}, "minimum_delay: must be above 0"),
        ({"retry_backoff_function": "cubic"}, "retry_backoff_function: must be one of linear, arithmetic, geometric"),
        ({"backoff_retries": -1}, "backoff_retries: must not be negative"),
        ({"retries_max": 2.5}, "retries_max: must be a whole number, is 2.5"),
        ({"maximum_delay_retries": 10**9}, "retries_max: the policy asks for 1000000011 retries"),
        ({"jitter": "some"}, "jitter: must be one of none, full, equal, decorrelated, is 'some'"),
        ({"compatibility": "aws"}, "compatibility: must be one of zaqar, sns, is 'aws'"),
    ],
)
def test_bad_policies_are_refused_by_key(value: object, reason: str) -> None:
    """Every refusal begins with the key and says what is wrong with it."""
    with pytest.raises(ValueError) as refused:
        delivery_policy.parse(value)
    assert str(refused.value).startswith(reason)


def test_a_minimum_of_zero_is_fine_where_it_is_added() -> None:
    assert seconds(only_backoff(minimum_delay=0, maximum_delay=10, backoff_retries=3)) == [0.0, 5.0, 10.0]


WORDS = [*CURVES, "none", "full", "equal", "decorrelated", "zaqar", "sns"]
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 400),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.none()),
    st.sampled_from(WORDS),
)
KEYS = [*DeliveryPolicy.__struct_fields__]


@example({"`": None})
@example({":": None})
@given(st.one_of(JUNK, st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=3)), JUNK, max_size=6)))
def test_no_policy_crashes(value: object) -> None:
    """Refused by key, or a schedule that ends, with waits no clock has trouble with."""
    try:
        policy = delivery_policy.parse(value)
    except ValueError as reason:
        given_keys = list(value) if isinstance(value, dict) else []
        assert str(reason).startswith(tuple(f"{key}: " for key in (*KEYS, "policy", *given_keys)))
        return
    delays = delivery_policy.schedule(policy)
    assert len(delays) <= delivery_policy.RETRIES_LIMIT
    assert all(0 <= item.seconds <= policy.maximum_delay for item in delays)
    assert policy.total_seconds_max is None or delivery_policy.total_seconds(delays) <= policy.total_seconds_max * (
        1 + 1e-9
    )


# ── compatibility: zaqar ──


@pytest.mark.parametrize(
    ("curve", "low", "high", "expected"),
    [
        ("exponential", 10, 60, [10, 12, 14, 18, 22, 27, 33, 40, 49, 60]),
        ("geometric", 20, 80, [20, 22, 25, 29, 33, 37, 42, 48, 54, 62, 70, 80]),
        ("arithmetic", 30, 100, [30, 30, 32, 34, 37, 41, 46, 51, 57, 64, 72, 80, 90, 100]),
        ("linear", 1, 24, [1, 6, 11, 16, 21]),
        ("geometric", 1, 11, [1, 10]),
        ("exponential", 1, 60, [1, 1, 2, 3, 5, 7, 11, 17, 26, 39, 59]),
    ],
)
def test_zaqars_own_numbers(curve: str, low: int, high: int, expected: list[int]) -> None:
    """Whole seconds, with Zaqar's float noise: some curves miss their maximum by one."""
    policy = only_backoff(minimum_delay=low, maximum_delay=high, retry_backoff_function=curve, compatibility="zaqar")
    assert seconds(policy) == expected


def test_zaqars_default_policy() -> None:
    delays = delivery_policy.schedule(delivery_policy.parse({"compatibility": "zaqar"}))
    assert (len(delays), delivery_policy.total_seconds(delays)) == (14, 180)
    assert [item.seconds for item in delays if item.phase == "backoff"] == [5, 10, 15, 20, 25]


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        ({"minimum_delay": 5, "maximum_delay": 15}, True),
        ({"minimum_delay": 5, "maximum_delay": 14}, False),
        ({"minimum_delay": 25}, False),
        ({"maximum_delay": 14}, False),
        ({"minimum_delay": 30, "maximum_delay": 20}, False),
        ({"minimum_delay": None}, False),
        ({"minimum_delay": 5.5}, False),
        ({"minimum_delay": 0, "retry_backoff_function": "geometric"}, False),
        ({"retries_with_no_delay": -2, "minimum_delay_retries": True, "unheard_of": 1}, True),
        ({"backoff_retries": 5}, True),
        ({"backoff_retries": 6}, False),
    ],
)
def test_zaqars_validation(value: dict[str, Any], valid: bool) -> None:
    """It wants ten seconds between the delays, and lets through unknown keys, negative counts and true for 1."""
    policy = {**value, "compatibility": "zaqar"}
    if valid:
        assert delivery_policy.schedule(delivery_policy.parse(policy))
    else:
        with pytest.raises(ValueError):
            delivery_policy.parse(policy)


@pytest.mark.parametrize(
    ("owner", "subscription", "used"),
    [
        ({"maximum_delay_retries": 1}, {"maximum_delay_retries": 9}, "subscription"),
        ({"maximum_delay_retries": 1, "ignore_subscription_override": True}, {"maximum_delay_retries": 9}, "owner"),
        ({"maximum_delay_retries": 1}, {"maximum_delay_retries": 9, "ignore_subscription_override": True}, "owner"),
        ({}, {"maximum_delay_retries": 9, "ignore_subscription_override": True}, "default"),
        ({"maximum_delay_retries": 1}, {}, "owner"),
        ({}, {}, "default"),
    ],
)
def test_whose_policy_counts(owner: dict[str, Any], subscription: dict[str, Any], used: str) -> None:
    """Whole policies, never merged; the flag on either side takes the subscription's out."""
    policies = {
        "owner": delivery_policy.parse(owner) if owner else None,
        "subscription": delivery_policy.parse(subscription) if subscription else None,
        "default": DeliveryPolicy(),
    }
    assert delivery_policy.choose(policies["owner"], policies["subscription"]) == policies[used]


# ── compatibility: sns ──


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"minimum_delay": 0}, "minimum_delay: SNS takes whole seconds from 1 to 3600"),
        ({"minimum_delay": 1.5}, "minimum_delay: SNS takes whole seconds"),
        ({"maximum_delay": 3601, "backoff_retries": 0}, "maximum_delay: SNS takes whole seconds"),
        ({"backoff_retries": 92}, "backoff_retries: SNS allows 100 retries in all phases, is 101"),
        ({"minimum_delay": 600, "maximum_delay": 600, "minimum_delay_retries": 7}, "maximum_delay: SNS allows 3600"),
    ],
)
def test_sns_limits(value: dict[str, Any], reason: str) -> None:
    """Delays 1 to 3600 whole seconds, 100 retries in all, an hour of waiting in all."""
    with pytest.raises(ValueError) as refused:
        delivery_policy.parse({**value, "compatibility": "sns"})
    assert str(refused.value).startswith(reason)


def test_a_policy_within_sns_limits() -> None:
    policy = only_backoff(minimum_delay=20, maximum_delay=20, backoff_retries=3, compatibility="sns")
    assert seconds(policy) == [20.0, 20.0, 20.0]


def test_the_longest_published_policy_fits() -> None:
    policy = DeliveryPolicy(
        retries_with_no_delay=3,
        minimum_delay_retries=2,
        minimum_delay=1,
        maximum_delay=20,
        backoff_retries=10,
        maximum_delay_retries=100_000,
        retry_backoff_function="exponential",
    )
    assert delivery_policy.retries(policy) == 100_015
    assert delivery_policy.delay(policy, 100_014) == Delay("post_backoff", 20.0)


# ---- a delivery policy in one line ----


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (only_backoff(backoff_retries=0), "no retries"),
        (DeliveryPolicy(), "3 retries at once, then 3 every 5 s, then 5 from 5 to 30 s (linear), then 3 every 30 s"),
        (only_backoff(backoff_retries=1), "1 retry after 5 s"),
        (
            only_backoff(backoff_retries=2, retries_max=1, total_seconds_max=0.5, jitter="full"),
            "2 retries from 5 to 30 s (linear); at most 1 retry; at most 0.5 s of waiting; jitter full",
        ),
        (UPSTREAM_POLICY, "7 retries from 1 to 60 s (exponential), then 190000 every 60 s; jitter equal"),
    ],
)
def test_it_says_what_happens_when_nothing_answers_otherwise(policy: DeliveryPolicy, text: str) -> None:
    assert policy_summary(policy) == text
