"""What goes out about topics, and how an answer is read."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.topics.answers import answer, asked, refusal

from fairlead_messaging.api.requests import Producer
from fairlead_messaging.client import errors, requests
from fairlead_messaging.client.request import ClientRequest
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.errors import RemoteError


def test_names_are_quoted_into_paths() -> None:
    """No name can become another request."""
    assert requests.topic("a/b", "../c?d#e").path == "/v1/namespaces/a%2Fb/topics/..%2Fc%3Fd%23e"
    assert requests.inspect("n", "t", after="a&limit=1").path.endswith("/inspect?after=a%26limit%3D1")


def test_a_topic_that_exists_is_no_error() -> None:
    """A program that creates it wants it to be there."""
    assert requests.create_topic("n", "t").read(answer()) is True
    assert requests.create_topic("n", "t").read(refusal(409, "topic_exists")) is False
    with pytest.raises(errors.Denied):
        requests.create_topic("n", "t").read(refusal(400, "bad_name"))


def test_a_deletion_is_done_when_nothing_is_there_after_doubt() -> None:
    """An earlier sending may have deleted it."""
    requests.delete_topic("n", "t").read(refusal(404, "topic_not_found"), in_doubt=True)
    with pytest.raises(errors.TopicMissing):
        requests.delete_topic("n", "t").read(refusal(404, "topic_not_found"))


# --- What goes out with messages, and how a page is read.


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


# --- What batch readers ask, and how an answer is read.


def test_a_long_poll_takes_its_wait_longer() -> None:
    """Milliseconds in the request, seconds for the one that waits."""
    assert requests.poll("n", "t", wait_ms=1500).wait_seconds == 1.5
    assert requests.plan("n", "t", after="", wait_ms=250).wait_seconds == 0.25


# --- What goes out about transactions, and how an answer is read.


@pytest.mark.parametrize(("how", "state"), [("commit", "committed"), ("abort", "aborted"), ("invalidate", "invalid")])
def test_a_finished_transaction_is_as_good_only_after_doubt(how: Any, state: str) -> None:
    """Another program may have finished it; after a lost answer it was surely we."""
    over = refusal(409, "transaction_not_in_progress", state=state)
    with pytest.raises(errors.TransactionOver):
        requests.finish_transaction(1, how).read(over)
    requests.finish_transaction(1, how).read(over, in_doubt=True)
    requests.finish_transaction(1, how, may_be_done=True).read(over)
    other = refusal(409, "transaction_not_in_progress", state="unknown")
    with pytest.raises(errors.TransactionOver):
        requests.finish_transaction(1, how).read(other, in_doubt=True)


# --- What goes out about subscriptions, and how an answer is read.


def test_a_deleted_subscription_is_gone_after_doubt() -> None:
    """A missing topic does not mean that the subscription went."""
    requests.delete_subscription("n", "t", "s").read(refusal(404, "subscription_not_found"), in_doubt=True)
    with pytest.raises(errors.TopicMissing):
        requests.delete_subscription("n", "t", "s").read(refusal(404, "topic_not_found"), in_doubt=True)


# --- A delivery policy as it is sent.


def test_only_what_a_person_would_write_is_sent() -> None:
    """Defaults stay the service's, so that they can change there."""
    assert requests._given(DeliveryPolicy()) == {}
    assert requests._given(DeliveryPolicy(minimum_delay=3, jitter="equal")) == {"minimum_delay": 3, "jitter": "equal"}
