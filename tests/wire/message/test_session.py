"""What an answer says of each message of a batch."""

from __future__ import annotations

from fairlead_wire.message import Ack, Deferred


def test_a_deferred_topic_is_deferred_from_its_message_on() -> None:
    """Other topics, and what stands in front of it, are not."""
    full = Deferred(index=2, code="over_quota", reason="full")
    answer = Ack(parent_id=1, deferred=[full])
    assert answer.deferred_by_index(["a", "b", "a", "b", "a"]) == {2: full, 4: full}


def test_an_index_beyond_the_batch_names_nothing() -> None:
    """A hub that counts wrong harms no message."""
    answer = Ack(parent_id=1, deferred=[Deferred(index=9, code="over_quota", reason="")])
    assert answer.deferred_by_index(["a"]) == {}
