"""What an answer means for a delivery, and when it is tried again."""

from __future__ import annotations

import pytest

from fairlead_messaging.api.errors import Refused
from fairlead_messaging.server.log.topic import NAME_CHARS_MAX
from fairlead_messaging.server.producers.producer import PRODUCER_ID_BYTES_MAX
from fairlead_messaging.server.subscriptions import subscription
from fairlead_messaging.server.subscriptions.subscription import Subscription
from fairlead_wire.delivery import DeliveryPolicy


@pytest.mark.parametrize(
    ("status", "delivered", "final"),
    [(200, True, False), (204, True, False), (301, False, True), (400, False, True), (404, False, True),
     (408, False, False), (425, False, False), (429, False, False), (500, False, False), (503, False, False)],
)  # fmt: skip
def test_answers(status: int, delivered: bool, final: bool) -> None:
    """2xx is delivered; what would be answered the same again is final."""
    assert subscription.is_delivered(status) is delivered
    assert (not delivered and subscription.is_final(status)) is final


def test_attempts_follow_the_policy_and_begin_anew() -> None:
    """Until none is left; Retry-After only lengthens."""
    policy = DeliveryPolicy(
        retries_with_no_delay=1, minimum_delay_retries=1, minimum_delay=5, maximum_delay=20, maximum_delay_retries=0,
        backoff_retries=0,
    )  # fmt: skip
    record = Subscription(url="http://x", delivery=policy)
    first = subscription.failed(record, "no", 1000, uniform=lambda: 0.5, retry_after_seconds=None)
    assert first is not None and (first.attempts, first.next_attempt_ms) == (1, 1000)
    second = subscription.failed(first, "no", 1000, uniform=lambda: 0.5, retry_after_seconds=None)
    assert second is not None and (second.attempts, second.next_attempt_ms, second.waited_seconds) == (2, 6000, 5.0)
    later = subscription.failed(first, "no", 1000, uniform=lambda: 0.5, retry_after_seconds=9)
    assert later is not None and later.next_attempt_ms == 10_000
    assert subscription.failed(second, "no", 1000, uniform=lambda: 0.5, retry_after_seconds=None) is None
    moved = subscription.moved(second, "00", delivered=1)
    assert (moved.attempts, moved.waited_seconds, moved.position, moved.delivered) == (0, 0.0, "00", 1)


def test_a_record_comes_back() -> None:
    """With its policy."""
    record = Subscription(url="http://x", delivery=DeliveryPolicy(jitter="full"), position="00", attempts=3)
    assert subscription.decode(subscription.encode(record)) == record


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "0.0.0.0", "224.0.0.1", "[fe80::1%25eth0]"]
)
def test_nobody_is_pushed_to_at_a_link_local_address(host: str) -> None:
    """The cloud's metadata service gives credentials away to whoever asks from inside."""
    with pytest.raises(Refused, match="link-local"):
        subscription.parse({"url": f"http://{host}/"})


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.7", "[::1]", "hooks.shop.svc", "192.168.1.1"])
def test_private_networks_are_where_endpoints_are(host: str) -> None:
    """Names, private addresses and loopback are taken."""
    assert subscription.parse({"url": f"http://{host}/"}).url == f"http://{host}/"


@pytest.mark.parametrize(
    ("text", "seconds"), [("", None), ("7", 7.0), ("9" * 12, 3600.0), ("9" * 400, None), ("1e9", None), ("-1", None)]
)
def test_what_an_endpoint_may_ask_for(text: str, seconds: float | None) -> None:
    """Whole seconds, within reason."""
    assert subscription.asked_seconds(text) == seconds


def test_a_dead_letter_has_a_producer_whatever_the_names_length() -> None:
    """Names may have 200 characters each; a refused producer would hold the subscription up for ever."""
    longest = ("n" * NAME_CHARS_MAX, "t" * NAME_CHARS_MAX, "s" * NAME_CHARS_MAX)
    ids = {
        subscription.letter_producer((*longest[:2], last), p) for last in ("s" * 200, "r" * 200) for p in ("00", "01")
    }
    assert len(ids) == 4 and max(map(len, ids)) <= PRODUCER_ID_BYTES_MAX
    assert subscription.letter_producer(("default", "t", "s"), "00") == "subscription/default/t/s/00"
