"""The events of a commit with their numbers, and the log lines of a long batch."""

from __future__ import annotations

from typing import Any

from fairlead_ingest.pipeline import events
from fairlead_ingest.pipeline.events import ProgressLog
from fairlead_ingest.source.gaps import GapRow
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table.commit_info import BatchCounts, CommitInfo, Committed

REACHED = Offsets(service="s", topics={"default/telemetry": TopicOffset(generation=2, position="00ff")})
GAP = GapRow(
    topic="default/telemetry",
    reason="expired",
    from_generation=2,
    from_position="",
    to_generation=2,
    to_position="00aa",
    rows=7,
)


def committed(batch: int = 3, **counts: Any) -> Committed:
    info = CommitInfo(reached=REACHED, batch=batch, counts=BatchCounts(**{"rows": 10, "bytes": 99, **counts}))
    return Committed(version=9, timestamp_ms=1_800_000_000_123, info=info)


def test_a_commit_is_published_with_what_it_brought():
    """Rows, where each topic stands, and the table's version, so that a reader can open exactly that."""
    [found] = events.of_commit(committed(dead_letters=1, expired_unread=2), pipeline="ingest", table="/t")
    assert (found.number, found.event.type, found.event.time) == (6, "table.committed", "2027-01-15T08:00:00.123Z")
    assert found.event.subject == "/t" and found.event.data == {
        "pipeline": "ingest",
        "table": "/t",
        "batch": 3,
        "version": 9,
        "rows": 10,
        "bytes": 99,
        "deadLetters": 1,
        "expiredUnread": 2,
        "positions": {"default/telemetry": {"generation": 2, "position": "00ff"}},
    }


def test_what_was_never_read_is_an_event_of_its_own():
    _, found = events.of_commit(committed(gaps=[GAP] * 40), pipeline="ingest", table="/t")
    assert (found.number, found.event.type, found.event.data["gapsTotal"]) == (7, "table.gap", 40)
    assert len(found.event.data["gaps"]) == events.GAPS_MAX
    assert found.event.data["gaps"][0] == {
        "topic": "default/telemetry",
        "reason": "expired",
        "fromGeneration": 2,
        "fromPosition": "",
        "toGeneration": 2,
        "toPosition": "00aa",
        "rows": 7,
    }


def test_numbers_of_batches_never_meet():
    numbers = [
        found.number
        for batch in range(5)
        for found in events.of_commit(committed(batch, gaps=[GAP]), pipeline="i", table="/t")
    ]
    assert numbers == list(range(10))


def test_a_stop_says_its_code_and_reason():
    found = events.of_stop("FAIRLEAD_TABLE_TAKEN", "x" * 9999, ["ingest"], now=1_800_000_000.0)
    assert (found.type, found.subject, found.time) == ("job.stopped", "ingest", "2027-01-15T08:00:00.000Z")
    assert found.data["reason"] == "FAIRLEAD_TABLE_TAKEN" and len(found.data["message"]) == 1024


def test_a_long_batch_is_logged_each_ten_seconds():
    progress = ProgressLog()
    assert [progress.due(now, batch=3, is_running=True) for now in (100.0, 105.0, 110.0, 111.0, 125.0)] == [
        None, None, 10.0, None, 25.0,
    ]  # fmt: skip


def test_the_next_batch_begins_anew():
    progress = ProgressLog()
    progress.due(0.0, batch=1, is_running=True)
    assert progress.due(9.0, batch=2, is_running=True) is None
    assert progress.due(18.0, batch=2, is_running=True) is None
    assert progress.due(19.0, batch=2, is_running=True) == 10.0
    assert progress.due(20.0, batch=2, is_running=False) is None
    assert progress.due(40.0, batch=2, is_running=True) is None
