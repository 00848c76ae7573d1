"""What left before a kill: in doubt still after it."""

from __future__ import annotations

from pathlib import Path

from fairlead_edge.io.outbox.side_files import HandedOutFile, TotalsFile
from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queues import NOTHING_DONE, QueueId
from fairlead_edge.outbox.totals import SLOT_BYTES, OutboxTotals

ALARMS, REST = QueueId("iothub", 0), QueueId("iothub")


def test_the_highest_of_each_queue_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "handed-out"
    file = HandedOutFile(path)
    assert file.read() == {}
    file.note(ALARMS, [3, 4])
    file.note(REST, range(10))
    file.note(ALARMS, [3])
    file.note(ALARMS, [])
    assert file.read() == {ALARMS: 4, REST: 9}
    file.close()
    content = bytearray(path.read_bytes())
    content[12] ^= 1
    path.write_bytes(content)
    again = HandedOutFile(path)
    assert again.read() == {}
    again.close()


async def test_what_a_kill_found_in_flight_and_then_expires_is_counted_in_doubt(tmp_path: Path) -> None:
    """Only messages that were sent and got no answer are in doubt."""
    box = SqliteOutbox(tmp_path / "outbox.db", epoch=1, max_bytes=1 << 20)
    await box.append([Entry("", b"x", (Reference(ALARMS, 60.0),)) for _ in range(6)], now=0)
    left = await box.fetch(ALARMS, after=NOTHING_DONE, now=0, messages_max=4, bytes_max=999, leaving=True)
    assert [item.offset for item in left] == [0, 1, 2, 3]
    await box.settle(ALARMS, sent=[0], checkpoint=0, at="t")
    await box.close()  # with nothing noted at the end: as a kill leaves it
    again = SqliteOutbox(tmp_path / "outbox.db", epoch=2, max_bytes=1 << 20)
    [queue] = (await again.status(now=0)).queues
    assert (queue.length, queue.in_doubt) == (5, 0)
    await again.sweep(now=61, entire=True)
    [queue] = (await again.status(now=61)).queues
    assert (queue.expired, queue.in_doubt) == (5, 3)
    await again.close()


async def test_a_store_that_is_new_is_in_no_doubt(tmp_path: Path) -> None:
    """The file beside it belongs to a store that was removed, whose offsets mean other messages."""
    file = HandedOutFile(tmp_path / "outbox.db.handed-out")
    file.note(ALARMS, [40])
    file.close()
    box = SqliteOutbox(tmp_path / "outbox.db", epoch=1, max_bytes=1 << 20)
    await box.append([Entry("", b"x", (Reference(ALARMS, 1.0),)) for _ in range(3)], now=0)
    await box.close()
    again = SqliteOutbox(tmp_path / "outbox.db", epoch=2, max_bytes=1 << 20)
    await again.sweep(now=2, entire=True)
    [queue] = (await again.status(now=2)).queues
    assert (queue.expired, queue.in_doubt) == (3, 0)
    await again.close()


def test_the_last_whole_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db.totals"
    file = TotalsFile(path)
    assert file.read() is None
    for commits in range(1, 6):
        file.write(OutboxTotals(commits, ()))
        assert file.read() == OutboxTotals(commits, ())
    file.close()
    content = bytearray(path.read_bytes())
    content[SLOT_BYTES] ^= 1  # where the fifth is
    path.write_bytes(content)
    again = TotalsFile(path)
    assert again.read() == OutboxTotals(4, ())
    again.close()
