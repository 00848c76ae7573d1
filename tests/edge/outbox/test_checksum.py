"""Checksums of messages: the same for the same, another for anything that differs."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.queues import QueueId

RUN: dict[str, Any] = {"first": 0, "last": 9, "epoch": 7, "enqueued": 5.0, "expires": 65.0, "topic": "default/t"}
QUEUE = QueueId("iothub", 3)


@pytest.mark.parametrize(
    "change", [{"first": 1}, {"last": 8}, {"epoch": 6}, {"enqueued": 5.1}, {"expires": None}, {"topic": "default/u"}]
)
def test_every_field_of_a_run_counts(change: dict[str, Any]) -> None:
    """Topic, time to live and epoch say where a message goes and until when."""
    assert envelope.run_checksum(QUEUE, **RUN) != envelope.run_checksum(QUEUE, **{**RUN, **change})


def test_so_does_the_queue() -> None:
    """A message must not change its priority or its endpoint."""
    assert envelope.run_checksum(QUEUE, **RUN) != envelope.run_checksum(QueueId("iothub", 4), **RUN)
    assert envelope.run_checksum(QUEUE, **RUN) != envelope.run_checksum(QueueId("iothuc", 3), **RUN)


def test_numbers_read_back_as_floats_are_the_same() -> None:
    """SQLite gives a whole number of seconds back as a float."""
    assert envelope.run_checksum(QUEUE, **RUN) == envelope.run_checksum(QUEUE, **{**RUN, "enqueued": 5, "expires": 65})


def test_every_single_flipped_bit_of_a_body_is_noticed() -> None:
    """And a body in another place."""
    body = b'{"id":"a","body":{"temperature":91}}'
    sound = envelope.reference_checksum(1, 17, body)
    flipped = (body[:at] + bytes([body[at] ^ 1 << bit]) + body[at + 1 :] for at in range(len(body)) for bit in range(8))
    assert all(envelope.reference_checksum(1, 17, each) != sound for each in flipped)
    assert sound not in {envelope.reference_checksum(1, 18, body), envelope.reference_checksum(2, 17, body)}
