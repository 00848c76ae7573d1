"""What goes out with messages, and how a page is read."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.topics.answers import answer, asked

from fairlead_messaging.api.requests import Producer
from fairlead_messaging.client import requests
from fairlead_messaging.client.request import ClientRequest
from fairlead_wire.errors import RemoteError


def test_a_publish_says_who_publishes() -> None:
    """Payloads as base64, a ttl for each, the producer's numbers."""
    call = requests.publish("n", "t", [b"\xff"], producer=Producer(id="p", epoch=1, sequences=(4,)), ttl_seconds=5)
    assert asked(call) == {
        "messages": [{"payload": "/w==", "ttl": 5}],
        "producer": {"id": "p", "epoch": 1, "sequences": [4]},
    }
    assert call.headers == {"Accept": "application/json", "Content-Type": "application/json"}


def test_what_is_safe_to_repeat() -> None:
    """Reads, changes that are the same twice, and what a producer numbers; nothing else that writes."""
    numbered = requests.publish("n", "t", [b""], producer=Producer(id="p", epoch=1, sequence=0))
    safe: list[ClientRequest[Any]]
    safe = [
        numbered,
        requests.poll("n", "t"),
        requests.create_topic("n", "t"),
        requests.finish_transaction(1, "commit"),
    ]
    unsafe: list[ClientRequest[Any]] = [
        requests.publish("n", "t", [b""]),
        requests.publish_in(1, "n", "t", [b""]),
        requests.store_in(1, "n", "t", []),
    ]
    stored = requests.publish_in(1, "n", "t", [])
    assert all(call.repeatable for call in [*safe, stored])
    assert not any(call.repeatable for call in unsafe)


def test_a_page_has_a_next_position_or_is_not_ours() -> None:
    """Without it a reader would begin again and again."""
    call = requests.poll("n", "t")
    page = call.read(answer(body=b'[{"id":"0a","payload":"YQ=="}]', fairlead_next_position="0a"))
    assert (page.messages[0].payload, page.next_position) == (b"a", "0a")
    with pytest.raises(RemoteError):
        call.read(answer(body=b"[]"))
    with pytest.raises(RemoteError):
        call.read(answer(body=b"[1]", fairlead_next_position="0a"))
