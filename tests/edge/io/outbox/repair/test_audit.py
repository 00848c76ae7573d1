"""What an audit of the outbox's file finds, and what it does not mind."""

from __future__ import annotations

import apsw
import msgspec
import pytest

from fairlead_edge.io.outbox.repair import audit
from fairlead_edge.io.outbox.tables import settlement, store_state
from fairlead_edge.io.outbox.tables.append import append_once
from fairlead_edge.io.outbox.tables.schema import prepare
from fairlead_edge.outbox.age import Stamp
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queues import QueueId

REST = QueueId("iothub")


@pytest.fixture
def connection() -> apsw.Connection:
    opened = apsw.Connection(":memory:")
    prepare(opened)
    entries = [Entry("", b"{}", (Reference(REST, 60.0),))] * 5
    append_once(opened, entries, epoch=1, now=0, max_bytes=10**9, idempotency=None)
    settlement.settle(opened, REST, sent=[0], refused=[], checkpoint=0, at="t")
    store_state.save_stamp(opened, Stamp(boot_id="b", boot_seconds=1.0, wall_seconds=2.0, age_seconds=3.0))
    return opened


def test_a_sound_file_is_sound(connection: apsw.Connection) -> None:
    assert audit.audit(connection) == ""
    new = apsw.Connection(":memory:")
    prepare(new)
    assert audit.audit(new) == ""


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE queues SET next_offset = 2",
        "UPDATE queues SET accepted = 77",
        "UPDATE queues SET sent = -1",
        "UPDATE queues SET stored = 3",
        "UPDATE queues SET checkpoint = next_offset",
        "UPDATE queues SET priority = -1",
        "INSERT INTO usage VALUES(1, 2, 3)",
        "UPDATE usage SET bytes = 1 << 40",
        "UPDATE clock SET age_seconds = 9e999",
        "INSERT INTO owner VALUES(2, 'edge-1')",
        "UPDATE queues SET priority = 'x'",
        "UPDATE queues SET id = 9",
        "DELETE FROM references_ WHERE offset = 3",
        "DELETE FROM queues",
        "UPDATE runs SET count = 9",
        "DELETE FROM usage",
        "UPDATE usage SET bytes = 'x'",
        "UPDATE clock SET age_seconds = 'x'",
    ],
)
def test_what_cannot_be_is_found(connection: apsw.Connection, spoil: str) -> None:
    connection.execute("DROP TABLE usage")
    connection.execute("CREATE TABLE usage(id INTEGER, bytes INTEGER, commits INTEGER)")  # of other rules, as a disk is
    connection.execute("INSERT INTO usage VALUES(1, 50, 3)")
    connection.execute("PRAGMA ignore_check_constraints=ON")
    assert not audit.audit(connection)
    connection.execute(spoil)
    assert audit.audit(connection)


def test_totals_beside_the_file_tell_of_lost_and_changed_commits(connection: apsw.Connection) -> None:
    """Older ones prove nothing, because they are not flushed."""
    found = audit.read_totals(connection)
    [queue] = found.queues
    assert audit.compare(found, None) == ""
    assert audit.compare(found, found) == ""
    assert "last 2 commits" in audit.compare(found, msgspec.structs.replace(found, commits=found.commits + 2))
    changed = msgspec.structs.replace(found, queues=(msgspec.structs.replace(queue, sent=0),))
    assert audit.compare(found, changed) == "its totals were changed"
    assert audit.compare(found, msgspec.structs.replace(changed, commits=-1)) == ""
    assert audit.compare(found, msgspec.structs.replace(found, clock=None)) == "its clock was changed"
