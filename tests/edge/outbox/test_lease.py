"""Leases of brokered messages: taken, acknowledged, abandoned, run out."""

from __future__ import annotations

import msgspec

from fairlead_edge.outbox import envelope, lease
from fairlead_edge.outbox.lease import Leases
from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.queue_id import QueueId

QUEUE = QueueId("edge-1/m/in", 2)


def item(offset: int) -> Item:
    message = envelope.Stored(
        id=f"id-{offset}",
        source="/messages",
        enqueued_at="t",
        properties={},
        system_properties={},
        body=msgspec.Raw(b"1"),
    )
    return Item(offset, 1, "", 0, None, envelope.stored(message))


def test_taken_message_is_held_until_its_time() -> None:
    """Then others may have it."""
    leases = Leases()
    [taken] = leases.take(QUEUE, [item(4)], now=0)
    assert (taken.id, taken.priority, taken.attempt) == ("id-4", 2, 1)
    assert leases.held(QUEUE, now=lease.LEASE_SECONDS - 0.1) == {4}
    assert leases.held(QUEUE, now=lease.LEASE_SECONDS) == set()
    assert leases.held(QueueId("edge-1/m/in"), now=0) == set()
    assert leases.next_end(now=0) == lease.LEASE_SECONDS
    assert leases.next_end(now=lease.LEASE_SECONDS) is None


def test_acknowledged_message_is_done_even_late() -> None:
    """The work was done; a stranger's id is returned."""
    leases = Leases()
    leases.take(QUEUE, [item(4), item(5)], now=0)
    done, unknown = leases.ack(["id-5", "who"])
    assert (done, unknown) == ({QUEUE: [5]}, ["who"])
    assert leases.ack(["id-5"]) == ({}, ["id-5"])
    assert leases.ack(["id-4"])[0] == {QUEUE: [4]}


def test_abandoned_message_is_there_again_at_once() -> None:
    """And counts its attempts."""
    leases = Leases()
    leases.take(QUEUE, [item(4)], now=0)
    assert leases.abandon(["id-4", "who"], now=1) == ({QUEUE: [4]}, ["who"])
    assert leases.held(QUEUE, now=1) == set()
    [again] = leases.take(QUEUE, [item(4)], now=1)
    assert again.attempt == 2


def test_module_that_never_acknowledges_gets_no_more() -> None:
    """So many leases at once, and no memory beyond."""
    leases = Leases()
    leases.take(QUEUE, [item(offset) for offset in range(lease.LEASED_MAX)], now=0)
    assert leases.room(now=1) == 0
    assert leases.room(now=lease.LEASE_SECONDS) == lease.LEASED_MAX
    leases.forget_ended(now=2 * lease.LEASE_SECONDS)
    assert leases.ack(["id-1"]) == ({}, ["id-1"])
