"""Messages read from the tables, each checked."""

from __future__ import annotations

import pytest
from tests.support.edges.outbox_tables import append, tables

from fairlead_edge.io.outbox.tables import log
from fairlead_edge.io.outbox.tables.bodies import run_checksum, text
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queue_id import QueueId

REST = QueueId("iothub")


@pytest.mark.parametrize(
    ("damage", "topic", "reason"),
    [
        ("UPDATE runs SET topic = 'default/other'", "", "its envelope on disk is damaged"),
        ("DELETE FROM runs", "", "its envelope on disk is damaged"),
        ("DELETE FROM segments", "default/t", "its body is missing on disk"),
        ("UPDATE segments SET encoding = 'none'", "default/t", "its body on disk is damaged"),
        ("UPDATE references_ SET start = 1", "default/t", "its body on disk is damaged"),
    ],
)
def test_what_the_disk_changed_is_named(damage: str, topic: str, reason: str) -> None:
    """By what is wrong, and with its topic where that can be believed."""
    connection = tables()
    append(connection, Entry("", b'{"a":1}', (Reference(REST, None, "default/t"),)))
    rows(connection, damage)
    [found] = log.fetch(connection, REST, after=-1, now=0, messages_max=9, bytes_max=99).damaged
    assert (found.offset, found.topic) == (0, topic) and found.reason.startswith(reason)


def test_columns_of_other_types_have_no_checksum() -> None:
    """And text that was none is shown as it can be."""
    assert run_checksum(REST, 0, 0, 1, "yesterday", None, "t") is None
    assert run_checksum(REST, 0, 0, 1, 0.0, None, "t") is not None
    assert text(b"\xff") == "\\xff" and text(7) == ""
