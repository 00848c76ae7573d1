"""How often and after what delays a delivery is retried: one policy type for everything that is sent.

    DeliveryPolicy ─delay(n)→ the delay before retry n ─jittered→ spread out ─next_delay→ bounded by time, Retry-After
                   └schedule→ all delays at once, for people and for tests

The hub's delivery to nodes, the edge's endpoints and the topics' subscriptions use it.  Retries come in four phases:
`immediate` (no delay), `pre_backoff` (the minimum), `backoff` (a curve from the minimum to the maximum, both reached
exactly) and `post_backoff` (the maximum).  All times are in seconds.

Names and curves come from the seed, "support more backoff functions".  Where it contradicts itself: the linear interval
is (maximum - minimum) / (retries - 1), otherwise the last delay would not be the maximum; its geometric and
exponential curves are algebraically equal, so both names give one curve; a single retry waits the minimum.
`compatibility="zaqar"` computes and refuses what Zaqar does (whole seconds, retries derived from the delays); `"sns"`
enforces the limits of Amazon SNS.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random  # only ever seeded or handed in: same arguments, same schedule
from typing import Any, Literal

import msgspec

from fairlead_wire.backoff import equal_jitter
from fairlead_wire.validation import mistakes
from fairlead_wire.validation.mistakes import wrong
from fairlead_wire.validation.reader import STRUCTS

ZAQAR_STEP_SECONDS = 5
"""Zaqar derives the number of backoff retries from the delays with this constant, which cannot be configured."""

Curve = Literal["linear", "arithmetic", "geometric", "exponential"]


RETRIES_LIMIT = 200_000
"""Most retries one policy may ask for (the longest policy SNS publishes has 100,015)."""
DELAY_SECONDS_LIMIT = 1_000_000_000
"""Longest single delay, about 31 years."""
ZAQAR_SPAN_SECONDS_MIN = 2 * ZAQAR_STEP_SECONDS
SNS_DELAY_SECONDS_MIN = 1
SNS_DELAY_SECONDS_MAX = 3600
SNS_RETRIES_MAX = 100
SNS_TOTAL_SECONDS_MAX = 3600
CURVE_LEFT_OUT = 2
"""With fewer retries than this, the summary does not name the curve."""

Phase = Literal["immediate", "pre_backoff", "backoff", "post_backoff"]
Uniform = Callable[[], float]
"""Draws from [0, 1), as `Random(seed).random` does."""


class Delay(msgspec.Struct, frozen=True):
    """Wait `seconds`, then try again; `phase` says why this long."""

    phase: Phase
    seconds: float


class DeliveryPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do when a delivery fails.

    The first send is not a retry: a policy with five retries sends at most six times.  Bad values raise
    `mistakes.Wrong`, a `ValueError` whose text begins with the key; when msgspec decodes the policy, it is the cause of
    msgspec's `ValidationError`.
    """

    retries_with_no_delay: int = 3
    """Number of immediate retries."""
    minimum_delay_retries: int = 3
    """Number of retries with `minimum_delay` after those."""
    minimum_delay: int | float = 5
    """Shortest delay in seconds; above 0 for the curves that multiply it."""
    maximum_delay: int | float = 30
    """Longest delay in seconds."""
    maximum_delay_retries: int = 3
    """Number of retries with `maximum_delay` at the end."""
    retry_backoff_function: Curve = "linear"
    """How the delay grows from the shortest to the longest."""
    ignore_subscription_override: bool = False
    """For topics: ignore a subscription's own policy; has no effect elsewhere."""
    backoff_retries: int | None = None
    """Number of retries in the backoff phase; absent: derived from the delays as Zaqar does, one for each five
    seconds."""
    retries_max: int | None = None
    """Maximum number of retries, whatever the phases specify."""
    jitter: Literal["none", "full", "equal", "decorrelated"] = "none"
    """How delays are randomized, so that many senders do not retry at the same time."""
    seed: int | None = None
    """Makes the jitter reproducible; absent: the caller's generator is used."""
    total_seconds_max: int | float | None = None
    """No retry starts if the sum of all delays before it exceeds this."""
    compatibility: Literal["zaqar", "sns"] | None = None
    """Compute and validate like Zaqar, or keep to the limits of Amazon SNS."""

    def __post_init__(self) -> None:
        _check_delays(self)
        _check_counts(self)
        if self.compatibility == "zaqar":
            _check_zaqar(self)
        elif self.compatibility == "sns":
            _check_sns(self)


# ── validation ──────────────────────────────────────────────────────────────────────────────────────────────────────


def parse(value: object) -> DeliveryPolicy:
    """Read a policy from decoded JSON or TOML.  Raises ``mistakes.Wrong`` with every mistake."""
    if isinstance(value, dict) and value.get("compatibility") == "zaqar":
        value = _as_zaqar_reads(value)
    try:
        return msgspec.convert(value, DeliveryPolicy, strict=True)
    except msgspec.ValidationError as error:
        found = STRUCTS.find(value, DeliveryPolicy) or mistakes.of(error)
        raise mistakes.Wrong(*(each if each.key else each.below("policy") for each in found)) from None


def choose(
    owner: DeliveryPolicy | None,
    subscription: DeliveryPolicy | None,
    default: DeliveryPolicy | None = None,
) -> DeliveryPolicy:
    """The policy that applies when a topic (`owner`) and one of its subscriptions may each have one.

    Policies are never merged: the subscription's applies, else the owner's, else the default.  If either sets
    `ignore_subscription_override`, the subscription's is ignored.
    """
    fallback = default or DeliveryPolicy()
    if any(policy is not None and policy.ignore_subscription_override for policy in (owner, subscription)):
        return owner or fallback
    return subscription or owner or fallback


def _as_zaqar_reads(value: dict[str, Any]) -> dict[str, Any]:
    """Zaqar ignores unknown keys, takes true for 1, and treats null like an absent key."""
    known = {name: item for name, item in value.items() if name in DeliveryPolicy.__struct_fields__}
    delays = ("minimum_delay", "maximum_delay")
    present = {name: item for name, item in known.items() if item is not None or name in delays}
    return {
        name: int(item) if isinstance(item, bool) and name != "ignore_subscription_override" else item
        for name, item in present.items()
    }


def _check_delays(policy: DeliveryPolicy) -> None:
    for name in ("minimum_delay", "maximum_delay", "total_seconds_max"):
        seconds = getattr(policy, name)
        if seconds is None:
            continue
        if not 0 <= seconds <= DELAY_SECONDS_LIMIT:  # a NaN fails every comparison, so it ends here too
            raise wrong(name, f"must be from 0 to {DELAY_SECONDS_LIMIT} seconds")
    low, high = policy.minimum_delay, policy.maximum_delay
    if high < low:
        raise wrong("maximum_delay", f"must not be below minimum_delay, is {high:g} < {low:g}")
    if low <= 0 and policy.retry_backoff_function in ("geometric", "exponential"):
        raise wrong(
            "minimum_delay", f"must be above 0 for the {policy.retry_backoff_function} curve, which multiplies it"
        )


def _check_counts(policy: DeliveryPolicy) -> None:
    counts = ("retries_with_no_delay", "minimum_delay_retries", "maximum_delay_retries")
    for name in (*counts, "backoff_retries", "retries_max"):
        count = getattr(policy, name)
        negative_is_none = policy.compatibility == "zaqar" and name in counts
        if count is not None and count < 0 and not negative_is_none:
            raise wrong(name, f"must not be negative, is {count}")
    if retries(policy) > RETRIES_LIMIT:
        raise wrong("retries_max", f"the policy asks for {retries(policy)} retries, the limit is {RETRIES_LIMIT}")


def _check_zaqar(policy: DeliveryPolicy) -> None:
    for name in ("minimum_delay", "maximum_delay"):
        if not isinstance(getattr(policy, name), int):
            raise wrong(name, f"Zaqar takes whole seconds, is {getattr(policy, name)}")
    span = policy.maximum_delay - policy.minimum_delay
    if span < ZAQAR_SPAN_SECONDS_MIN:
        raise wrong(
            "maximum_delay", f"Zaqar wants it at least {ZAQAR_SPAN_SECONDS_MIN} seconds above minimum_delay, is {span}"
        )
    if policy.backoff_retries not in (None, _derived_retries(policy)):
        raise wrong(
            "backoff_retries",
            f"Zaqar derives it from the delays (here {_derived_retries(policy)}); "
            "leave it out, or leave out compatibility",
        )


def _check_sns(policy: DeliveryPolicy) -> None:
    for name in ("minimum_delay", "maximum_delay"):
        seconds = getattr(policy, name)
        if seconds != int(seconds) or not SNS_DELAY_SECONDS_MIN <= seconds <= SNS_DELAY_SECONDS_MAX:
            raise wrong(
                name, f"SNS takes whole seconds from {SNS_DELAY_SECONDS_MIN} to {SNS_DELAY_SECONDS_MAX}, is {seconds}"
            )
    if retries(policy) > SNS_RETRIES_MAX:
        raise wrong("backoff_retries", f"SNS allows {SNS_RETRIES_MAX} retries in all phases, is {retries(policy)}")
    total = total_seconds(_within_time(policy, [_nominal(policy, n) for n in range(retries(policy))]))
    if total > SNS_TOTAL_SECONDS_MAX:
        raise wrong(
            "maximum_delay", f"SNS allows {SNS_TOTAL_SECONDS_MAX} seconds of waiting in all, this adds up to {total:g}"
        )


# ── the schedule ────────────────────────────────────────────────────────────────────────────────────────────────────


def retries(policy: DeliveryPolicy) -> int:
    """How many retries the policy allows, before any limit of time."""
    wanted = sum(count for _, count in phases(policy))
    return wanted if policy.retries_max is None else min(wanted, policy.retries_max)


def delay(policy: DeliveryPolicy, retry: int) -> Delay | None:
    """The delay before retry number `retry` (from 0), without jitter; None when no retry is left."""
    return _nominal(policy, retry) if retry < retries(policy) else None


def next_delay(
    policy: DeliveryPolicy,
    retry: int,
    *,
    uniform: Uniform,
    waited_seconds: float = 0.0,
    previous_seconds: float = 0.0,
    retry_after_seconds: float | None = None,
) -> Delay | None:
    """The delay before retry number `retry` (from 0), for a sender that counts its retries; None: give up.

    `uniform` is the sender's `generator_of(policy, ...)`, kept for all its retries; `waited_seconds` is the sum of the
    delays of this delivery so far, `previous_seconds` the latest of them (for decorrelated jitter), and
    `retry_after_seconds` the minimum that the receiver asked for.
    """
    nominal = delay(policy, retry)
    if nominal is None:
        return None
    seconds = jittered(policy, nominal.seconds, previous_seconds, uniform)
    if retry_after_seconds is not None:
        seconds = max(seconds, retry_after_seconds)
    if policy.total_seconds_max is not None and waited_seconds + seconds > policy.total_seconds_max:
        return None
    return Delay(nominal.phase, seconds)


def schedule(policy: DeliveryPolicy, generator: Random | None = None) -> list[Delay]:
    """All delays in order; `generator` is used when the policy asks for jitter without a seed."""
    uniform = generator_of(policy, generator)
    delays: list[Delay] = []
    previous = 0.0
    for number in range(retries(policy)):
        nominal = _nominal(policy, number)
        previous = jittered(policy, nominal.seconds, previous, uniform)
        delays.append(Delay(nominal.phase, previous))
    return _within_time(policy, delays)


def total_seconds(delays: list[Delay]) -> float:
    """The sum of all delays, without rounding errors."""
    return math.fsum(item.seconds for item in delays)


def jittered(policy: DeliveryPolicy, seconds: float, previous_seconds: float, uniform: Uniform) -> float:
    """Apply the policy's jitter to one delay.  The result is at most the maximum; a delay of 0 stays 0.

    `full` draws from 0 to the delay, `equal` from half of it to all of it, and `decorrelated`, which ignores the curve,
    from the minimum to three times the previous delay.
    """
    if policy.jitter == "none" or seconds <= 0:
        return seconds
    low, high = float(policy.minimum_delay), float(policy.maximum_delay)
    if policy.jitter == "full":
        drawn = uniform() * seconds
    elif policy.jitter == "equal":
        drawn = equal_jitter(seconds, uniform())
    else:
        drawn = low + uniform() * (3 * max(previous_seconds, low) - low)
    return min(drawn, high)


def generator_of(policy: DeliveryPolicy, otherwise: Random | None = None) -> Uniform:
    """The source of jitter: a generator from the policy's `seed`, else `otherwise`, else one with seed 0."""
    if policy.seed is not None:
        return Random(policy.seed).random
    return (otherwise or Random(0)).random


def _within_time(policy: DeliveryPolicy, delays: list[Delay]) -> list[Delay]:
    if policy.total_seconds_max is None:
        return delays
    waited = 0.0
    for index, item in enumerate(delays):
        waited += item.seconds
        if waited > policy.total_seconds_max:
            return delays[:index]
    return delays


def phases(policy: DeliveryPolicy) -> tuple[tuple[Phase, int], ...]:
    """The number of retries in each phase, before any limit."""
    backoff = policy.backoff_retries
    return (
        ("immediate", max(0, policy.retries_with_no_delay)),
        ("pre_backoff", max(0, policy.minimum_delay_retries)),
        ("backoff", _derived_retries(policy) if backoff is None else backoff),
        ("post_backoff", max(0, policy.maximum_delay_retries)),
    )


def _derived_retries(policy: DeliveryPolicy) -> int:
    return zaqar_retries(policy.retry_backoff_function, policy.minimum_delay, policy.maximum_delay)


def _nominal(policy: DeliveryPolicy, number: int) -> Delay:
    """The delay before retry `number`, which must be below `retries(policy)`."""
    remaining = iter(phases(policy))
    phase, count = next(remaining)
    while number >= count:
        number -= count
        phase, count = next(remaining)
    match phase:
        case "immediate":
            seconds: float = 0.0
        case "pre_backoff":
            seconds = policy.minimum_delay
        case "backoff":
            name, low, high = policy.retry_backoff_function, policy.minimum_delay, policy.maximum_delay
            if policy.compatibility == "zaqar":
                seconds = zaqar_delay(name, int(low), int(high), number, count)
            else:
                seconds = curve_delay(name, low, high, number, count)
        case "post_backoff":
            seconds = policy.maximum_delay
    return Delay(phase, float(seconds))


# ── the curves ───────────────────────────────────────────────────────────────────────────────────────────────────────


def curve_delay(curve: Curve, low: float, high: float, index: int, count: int) -> float:
    """Delay ``index`` (from 0) of ``count``: the first is ``low``, the last ``high``, exactly."""
    low, high = float(low), float(high)
    if index == 0:
        return low
    if index == count - 1:
        return high
    match curve:
        case "linear":
            seconds = low + (high - low) * index / (count - 1)
        case "arithmetic":
            seconds = low + (high - low) * index * (index + 1) / (count * (count - 1))
        case "geometric" | "exponential":
            # With logarithms: high / low could overflow, a difference of logarithms cannot.
            seconds = math.exp(math.log(low) + (math.log(high) - math.log(low)) * index / (count - 1))
    return min(max(seconds, low), high)


def zaqar_retries(curve: Curve, low: float, high: float) -> int:
    """One retry for each five seconds between the delays; the linear curve rounds up, the others round down."""
    steps = (high - low) / ZAQAR_STEP_SECONDS
    return math.ceil(steps) if curve == "linear" else math.floor(steps)


def zaqar_delay(curve: Curve, low: int, high: int, index: int, count: int) -> float:
    """The delay that Zaqar computes: truncated to whole seconds, with its order of floating-point operations.

    ``count`` is at least 2, because Zaqar's validation requires a span of ten seconds.
    """
    number = index + 1
    match curve:
        case "linear":
            return low + index * ZAQAR_STEP_SECONDS
        case "arithmetic":
            step = 2.0 * (high - low) / (count * (count - 1))
            return int(low + index * number * step / 2)
        case "geometric":
            return int(low * math.pow(_zaqar_ratio(low, high, count), index))
        case "exponential":
            ratio = _zaqar_ratio(low, high, count)
            return int(low / ratio * math.pow(ratio, number))


def _zaqar_ratio(low: int, high: int, count: int) -> float:
    return math.pow(10, math.log10(high / low) / (count - 1))


# ── for people ───────────────────────────────────────────────────────────────────────────────────────────────────────


def policy_summary(policy: DeliveryPolicy) -> str:
    """The policy in one line: its retries, and what limits them.

    "7 retries from 1 to 60 s (exponential), then 190000 every 60 s; jitter equal"
    """
    low, high = f"{policy.minimum_delay:g}", f"{policy.maximum_delay:g}"
    steps: list[str] = []
    for phase, count in phases(policy):
        if not count:
            continue
        match phase:
            case "immediate":
                steps.append(f"{_counted(count, steps)} at once")
            case "pre_backoff":
                steps.append(f"{_counted(count, steps)} every {low} s")
            case "backoff" if count < CURVE_LEFT_OUT:
                steps.append(f"{_counted(count, steps)} after {low} s")
            case "backoff":
                steps.append(f"{_counted(count, steps)} from {low} to {high} s ({policy.retry_backoff_function})")
            case "post_backoff":
                steps.append(f"{_counted(count, steps)} every {high} s")
    limits = []
    if policy.retries_max is not None:
        limits.append(f"at most {_counted(policy.retries_max, [])}")
    if policy.total_seconds_max is not None:
        limits.append(f"at most {policy.total_seconds_max:g} s of waiting")
    if policy.jitter != "none":
        limits.append(f"jitter {policy.jitter}")
    return "; ".join([", then ".join(steps) or "no retries", *limits])


def _counted(count: int, before: list[str]) -> str:
    """The first item of a list names the unit; later ones are only numbers."""
    if before:
        return str(count)
    return "1 retry" if count == 1 else f"{count} retries"
