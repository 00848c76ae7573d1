"""What becomes known of joins, and of those that were refused."""

from typing import Any

import pytest
from tests.support.hubs.hub_core import Core


@pytest.fixture
def core():
    return Core("edge-1", messaging_url="http://127.0.0.1:9")


def _refuse(core: Core, node: str = "edge-1", **changes: Any) -> None:
    facts: dict[str, Any] = {"code": "token_used", "reason": "it was used", "token": "abc", "peer": "192.0.2.1:1"}
    core.hub.certificates.join_refused(node, **{**facts, **changes}, now=core.now)


def test_a_join_is_an_event_of_each_kind(core):
    """On the EdgeNode for people, on the system topic for programs."""
    facts = {"serial": "4d", "expires": "2030-01-01T00:00:00Z", "token": "abc", "peer": "192.0.2.1:1"}
    core.hub.certificates.joined("edge-1", **facts, replaced=False, now=core.now)
    [shown], [published] = core.take_kube_events(), core.take_cloud_events()
    assert (shown.reason, shown.type, shown.regarding.name) == ("IdentityJoined", "Normal", "edge-1")
    assert "token abc" in shown.message and "4d" in shown.message
    assert (published.type, published.node) == ("identity.joined", "edge-1")
    assert published.data == {**facts, "replaced": False}


def test_a_refusal_names_the_node_only_when_the_token_was_right(core):
    """Before that the name is a stranger's word."""
    _refuse(core)
    [shown], [published] = core.take_kube_events(), core.take_cloud_events()
    assert (shown.reason, shown.type) == ("IdentityRefused", "Warning") and "token_used" in shown.message
    assert (published.type, published.node, published.data["reason"]) == ("identity.refused", "edge-1", "token_used")
    _refuse(core, "", code="token_unknown")
    assert core.take_kube_events() == []
    [published] = core.take_cloud_events()
    assert (published.node, published.subject) == ("", "")


def test_guesses_by_the_thousand_are_counted_and_not_published_each(core):
    """One event at once, one a minute later with how many came."""
    for _ in range(1000):
        _refuse(core, "", code="token_unknown")
    [published] = core.take_cloud_events()
    assert published.data["count"] == 1
    core.now += 61
    core.hub.cloud_events.flush(core.now)
    [published] = core.take_cloud_events()
    assert published.data["count"] == 999
