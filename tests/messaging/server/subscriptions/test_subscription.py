"""What a subscription may ask for, and its record."""

from __future__ import annotations

import pytest

from fairlead_messaging.api.errors import Refused
from fairlead_messaging.server.subscriptions import subscription
from fairlead_messaging.server.subscriptions.subscription import SubscriptionRecord


def test_a_record_comes_back() -> None:
    """With its policy."""
    record = SubscriptionRecord(url="http://x", delivery={"jitter": "full"}, position="00", attempts=3)
    assert subscription.decode(subscription.encode(record)) == record


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "0.0.0.0", "224.0.0.1", "[fe80::1%25eth0]"]
)
def test_nothing_is_pushed_to_a_link_local_address(host: str) -> None:
    """The cloud's metadata service gives credentials to every program that asks from inside."""
    with pytest.raises(Refused, match="link-local"):
        subscription.parse({"url": f"http://{host}/"})


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.7", "[::1]", "hooks.shop.svc", "192.168.1.1"])
def test_private_networks_are_where_endpoints_are(host: str) -> None:
    """Names, private addresses and loopback are taken."""
    assert subscription.parse({"url": f"http://{host}/"}).url == f"http://{host}/"
