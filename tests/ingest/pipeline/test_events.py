"""What is told of a commit, and under which number."""

from __future__ import annotations

from typing import Any

from fairlead_ingest.pipeline import events

REACHED = {"svc": "s", "topics": {"default/telemetry": {"g": 2, "p": "00ff"}}, "v": 1}
GAP = {
    "topic": "default/telemetry", "reason": "expired", "from_generation": 2, "from_position": "", "to_generation": 2,
    "to_position": "00aa", "rows": 7,
}  # fmt: skip


def entry(**more: Any) -> dict[str, Any]:
    base = {"batch": 3, "timestamp": 1_800_000_000_123, "version": 9, "reached": REACHED, "rows": 10, "bytes": 99}
    return {**base, **more}


def test_a_commit_is_told_with_what_it_brought() -> None:
    """Rows, where each topic stands, and the table's version, so that a reader can open exactly that."""
    [told] = events.of_commit(entry(dead_letters=1, expired_unread=2), pipeline="ingest", table="/t")
    assert (told.number, told.event.type, told.event.time) == (6, "table.committed", "2027-01-15T08:00:00.123Z")
    assert told.event.subject == "/t" and told.event.data == {
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


def test_what_was_never_read_is_an_event_of_its_own() -> None:
    """An alarm filters by type."""
    _, told = events.of_commit(entry(gaps=[GAP] * 40), pipeline="ingest", table="/t")
    assert (told.number, told.event.type, told.event.data["gapsTotal"]) == (7, "table.gap", 40)
    assert len(told.event.data["gaps"]) == events.GAPS_MAX
    assert told.event.data["gaps"][0] == {
        "topic": "default/telemetry",
        "reason": "expired",
        "fromGeneration": 2,
        "fromPosition": "",
        "toGeneration": 2,
        "toPosition": "00aa",
        "rows": 7,
    }


def test_numbers_of_batches_never_meet() -> None:
    """Each batch has its own, so a repeat is known as one."""
    numbers = [
        told.number
        for batch in range(5)
        for told in events.of_commit(entry(batch=batch, gaps=[GAP]), pipeline="i", table="/t")
    ]
    assert numbers == list(range(10))


def test_a_stop_says_its_code_and_reason() -> None:
    """Cut, because it may quote what Spark said."""
    told = events.of_stop("FAIRLEAD_TABLE_TAKEN", "x" * 9999, ["ingest"], now=1_800_000_000.0)
    assert (told.type, told.subject, told.time) == ("job.stopped", "ingest", "2027-01-15T08:00:00.000Z")
    assert told.data["reason"] == "FAIRLEAD_TABLE_TAKEN" and len(told.data["message"]) == 1024
