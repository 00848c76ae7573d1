"""Checks the outbox's file before it is used; a damaged one is replaced by a new file with what can be read of it.

    problem? ──no──▶ used
       └──yes──▶ salvage ──▶ from the beginning

    damaged file ─rows─▶ new file ─totals kept beside it─▶ queues ─checksums─▶ gaps ─count─▶ messages missing entirely

What cannot be read is counted and recorded.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from fairlead_edge.io.file_access import PLAIN, FileAccess
from fairlead_edge.io.outbox import store_clock
from fairlead_edge.io.outbox.repair import audit, damage
from fairlead_edge.io.outbox.tables import schema, store_state
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.bodies import row_checksum, text
from fairlead_edge.io.sqlite import salvage
from fairlead_edge.io.sqlite import statements as sqlite
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.age import Stamp
from fairlead_edge.outbox.gaps import QueueGap
from fairlead_edge.outbox.queues import DEFAULT_PRIORITY, NOTHING_DONE, QueueId
from fairlead_edge.outbox.totals import COUNT_MAX, OutboxTotals, QueueTotals
from fairlead_edge.routes.endpoints import UPSTREAM
from fairlead_wire.io import logs
from fairlead_wire.validation.route_manifest import PRIORITY_MAX

REASON: Final = "the store on disk was damaged"
PROGRESS_STEPS: Final = 10_000
_FIND_ROWS: Final = 1_000
_ASKED_FOR_NAME: Final = 20
_OWN_WAY: Final = ("queues", "references_", "runs", "usage", "sqlite_sequence")


class SalvageReport:
    """The result of a salvage."""

    def __init__(self) -> None:
        self.waiting = 0
        """Messages that were saved."""
        self.lost: list[tuple[QueueId, QueueGap]] = []


def salvage_outbox(
    path: Path, *, kept: OutboxTotals | None, epoch: int, at: str, new_id: Callable[[], str], access: FileAccess = PLAIN
) -> SalvageReport:
    """Copy what can be read to a new file.  Raises ``OSError`` or ``apsw.Error`` if there is no space for it."""
    report = SalvageReport()
    fill = partial(_fill, report=report, kept=kept, epoch=epoch, at=at, new_id=new_id)
    salvage.salvage(path, fill=fill, access=access)
    return report


def _fill(
    source: apsw.Connection,
    target: apsw.Connection,
    *,
    report: SalvageReport,
    kept: OutboxTotals | None,
    epoch: int,
    at: str,
    new_id: Callable[[], str],
) -> None:
    schema.create(target)
    for (table,) in rows(target, sqlite.TABLES):
        if table not in _OWN_WAY:
            salvage.copy(source, target, table)
    salvage.copy(source, target, "queues", "id", replace=True)  # a lost number becomes the column's default
    if kept is not None and _commits(source) > kept.commits:
        kept = None  # after a power cut the file may be newer
    numbers = {queue.id for queue in kept.queues} if kept else _numbers(source)
    for number in sorted(numbers | {number for (number, *_) in rows(target, sql.NUMBERED_QUEUES)}):
        salvage.copy(source, target, "runs", "segment", fixed=("queue", number))
        salvage.copy(source, target, "references_", "offset", fixed=("queue", number))
    target.execute(sqlite.BEGIN)
    ends = dict(rows(target, sql.ENDS_OF_QUEUES))
    _restore_queues(target, kept)
    if kept is not None and kept.node:
        target.execute(sql.SET_OWNER, (kept.node,))
    for statement in sql.DELETE_WITHOUT_QUEUE:
        target.execute(statement)
    target.execute(sql.SET_COMMITS, (1 + (kept.commits if kept else _commits(source)),))
    record = {"epoch": epoch, "now": _clock(target, kept), "at": at, "new_id": new_id}
    for number, endpoint, priority in rows(target, sql.NUMBERED_QUEUES):
        queue = QueueId(endpoint, priority)
        of_queue = kept.of(number) if kept else None
        for gap in _settle_queue(target, number, queue, of_queue, ends.get(number), record):
            report.lost.append((queue, gap))
    damage.recount(target)
    _balance(target)
    [(report.waiting,)] = rows(target, sql.WAITING)
    target.execute(sqlite.COMMIT)


def _clock(target: apsw.Connection, kept: OutboxTotals | None) -> float:
    """Continue the store's clock from the stamp that was kept, or else from the youngest message."""
    reading = store_clock.read()
    stamp = kept.clock if kept else None
    if stamp is None:
        with contextlib.suppress(*salvage.READ_ERRORS):
            stamp = audit.read_clock(target)
    if stamp is None:
        found = rows(target, sql.LATEST_ENQUEUED)
        stamp = Stamp(
            boot_id=reading.boot_id,
            boot_seconds=reading.boot_seconds,
            wall_seconds=reading.wall_seconds,
            age_seconds=found[0][0] or 0.0,
        )
    target.execute(sql.DELETE_CLOCK)
    store_state.save_stamp(target, stamp)
    return store_clock.open_clock(stamp).now(reading.boot_seconds)


def _commits(source: apsw.Connection) -> int:
    try:
        commits = int(rows(source, sql.COMMITS)[0][0])
        return commits if 0 <= commits < COUNT_MAX else 0
    except (*salvage.READ_ERRORS, IndexError, TypeError, ValueError):
        return 0


def _restore_queues(target: apsw.Connection, kept: OutboxTotals | None) -> None:
    """Restore the queues from the totals, which are at least as new as the file, or else from plausible rows."""
    if kept is not None:
        target.execute(sql.DELETE_QUEUES)
        for queue in kept.queues:
            counts = (queue.accepted, queue.sent, queue.expired, queue.evicted, queue.damaged)
            place = (queue.id, queue.endpoint, queue.priority, queue.next_offset, queue.checkpoint)
            target.execute(sql.INSERT_QUEUE_TOTALS, (*place, *counts))
        return
    target.execute(sql.DELETE_UNREADABLE_QUEUES)
    _name_queues(target)
    for statement in sql.RESET_IMPOSSIBLE_COUNTS:
        target.execute(statement)
    target.execute(sql.RESET_IMPOSSIBLE_CHECKPOINTS)


def _numbers(source: apsw.Connection) -> set[int]:
    """The numbers of all queues that envelopes name, even if the queues' own rows are lost."""
    found: set[int] = set()
    with contextlib.suppress(*salvage.READ_ERRORS):
        found.update(number for (number,) in rows(source, sql.QUEUES_OF_RUNS) if isinstance(number, int))
    return found


def _name_queues(target: apsw.Connection) -> None:
    """Find the lost names of upstream queues: the checksums of their envelopes cover the name."""
    candidates = [QueueId(UPSTREAM, priority) for priority in (*range(PRIORITY_MAX + 1), DEFAULT_PRIORITY)]
    for (number,) in rows(target, sql.NAMELESS_QUEUES):
        for first, last, epoch, enqueued, expires, topic, inherits, sealed in rows(
            target, sql.ENVELOPES_OF_QUEUE, (number, _ASKED_FOR_NAME)
        ):
            named_object = None if inherits is None else text(inherits)
            envelope = first, last, epoch, enqueued, expires, text(topic), named_object
            named = [each for each in candidates if row_checksum(each, *envelope) == sealed is not None]
            if named:
                target.execute(sql.NAME_QUEUE, (number, named[0].endpoint, named[0].priority))
                break


def _settle_queue(
    target: apsw.Connection,
    number: int,
    queue: QueueId,
    kept: QueueTotals | None,
    end: int | None,
    record: dict[str, Any],
) -> list[QueueGap]:
    """Set aside damaged messages, and count missing ones; ``end`` is the next offset according to the file."""
    if kept is not None:
        target.execute(sql.DELETE_SETTLED, (number, kept.checkpoint, record["now"]))
    target.execute(sql.DELETE_IMPOSSIBLE_OFFSETS, (number,))
    [(lowest,)] = rows(target, sql.LOWEST_OFFSET, (number,))
    [(highest,)] = rows(target, sql.END_OF_LOG, (number,))
    target.execute(sql.RAISE_NEXT_OFFSET, (highest, number))
    # A checkpoint known only from the damaged file must not hide messages; those it passed correctly have expired.
    passed = lowest if kept is None and lowest is not None else COUNT_MAX
    target.execute(sql.LOWER_CHECKPOINT, (passed, number))
    first, last, topic = _extent(target, number, kept)
    damaged = []
    after: int | None = NOTHING_DONE
    while after is not None:
        after, found = damage.find(target, queue, after=after, limit=_FIND_ROWS)
        damaged += found
    lost = damage.set_aside(target, queue, damaged, topic=topic, **record) if damaged else []
    missing = _missing(target, number)
    if kept is not None:
        missing = max(missing, kept.next_offset - max(highest if end is None else end, kept.checkpoint + 1))
    if missing > 0:
        gap = QueueGap(first, max(first, last), missing, topic, REASON)
        target.execute(sql.COUNT_DAMAGED, (missing, number))
        damage.record(target, queue, gap, **record)
        lost.append(gap)
    return lost


def _extent(target: apsw.Connection, number: int, kept: QueueTotals | None) -> tuple[int, int, str]:
    """The range of offsets in which messages may be missing, and their topic."""
    [(next_offset, checkpoint)] = rows(target, sql.EXTENT_OF_QUEUE, (number,))
    topic = kept.topic if kept else ""
    if not topic:
        found = rows(target, sql.LAST_TOPIC, (number,))
        topic = text(found[0][0]) if found else ""
    return checkpoint + 1, next_offset - 1, topic


def _missing(target: apsw.Connection, number: int) -> int:
    """How many messages were accepted, ended nowhere and do not exist; gap records count as accepted and existing."""
    [(missing,)] = rows(target, sql.MISSING, (number,))
    return int(missing)


def _balance(target: apsw.Connection) -> None:
    """If more rows exist than were counted, the lost commits were deletions, so the existing rows are sent again."""
    target.execute(sql.BALANCE)


def problem(
    path: Path, kept: OutboxTotals | None, *, seconds: float | None = None, access: FileAccess = PLAIN
) -> str | None:
    """What is wrong with the file at ``path``, or "" (also if it does not exist); called before the file is used.

    None: nothing was found, but ``seconds`` were not enough to check all of it.
    """
    gone = "it is gone" if kept is not None and kept.queues else ""
    look = partial(_check, path, kept=kept, seconds=seconds)
    return salvage.problem(path, look, model=schema.model, gone=gone, access=access)


def _check(path: Path, connection: apsw.Connection, *, kept: OutboxTotals | None, seconds: float | None) -> str:
    [(found,)] = rows(connection, sqlite.USER_VERSION)
    if wrong := salvage.version_problem(path, found, schema.VERSION):
        return wrong
    if found != schema.VERSION:
        if not rows(connection, sqlite.ANYTHING):
            return "it is empty" if kept is not None and kept.queues else ""
        [(found,)] = rows(connection, sqlite.INTEGRITY_CHECK)  # another version, or not created yet
        return "" if found == "ok" else str(found)
    model = schema.model(found, additions=False)  # missing additions are created when the file is opened
    assert model is not None
    wrong = salvage.lacks(connection, model)
    wrong = wrong or audit.audit_small_tables(connection)
    wrong = wrong or audit.compare(audit.read_totals(connection), kept)
    if not wrong and seconds is not None:
        until = time.monotonic() + seconds
        connection.set_progress_handler(lambda: time.monotonic() > until, PROGRESS_STEPS)
    return wrong or audit.audit(connection)


# ---- opening ---------------------------------------------------------------------------------------------------------

SECONDS_MAX: Final = 0.5
"""How long checking the file may delay a start: enough for about a hundred thousand messages."""
SALVAGES_MAX: Final = 2

_log = logs.get("edge.outbox")


class Sound(NamedTuple):
    """The file can be used, perhaps after a salvage."""

    salvaged: str
    """Why it was salvaged; "" if it was sound."""
    is_audited: bool
    """Whether there was enough time to check all of it."""


def make_sound(
    path: Path, kept: OutboxTotals | None, *, epoch: int, thorough: bool, access: FileAccess = PLAIN
) -> Sound:
    """Check the file, and salvage it if it is damaged.

    ``kept``: the totals beside the file.  ``thorough``: check all of it, however long that takes.
    Raises ``apsw.Error`` or ``OSError`` if it cannot be used, or there is no space to salvage it.
    """
    seconds = None if thorough else SECONDS_MAX
    salvaged = ""
    for _ in range(SALVAGES_MAX):
        found = problem(path, kept, seconds=seconds, access=access)
        if not found:
            return Sound(salvaged, found is not None)
        _log.error("store_damaged", path=str(path), reason=found)
        at = store_clock.timestamp()
        report = salvage_outbox(path, kept=kept, epoch=epoch, at=at, new_id=new_id, access=access)
        for queue, gap in report.lost:
            log_gap(queue, gap)
        _log.warning(
            "store_salvaged",
            path=str(path),
            waiting=report.waiting,
            damaged=sum(gap.count for _, gap in report.lost),
            remedy=f"check the disk's health; the damaged file is kept as {path.name}.damaged and may be removed",
        )
        salvaged = found
    return Sound(salvaged, is_audited=True)


def log_gap(queue: QueueId, gap: QueueGap) -> None:
    """Log which messages the disk lost."""
    _log.error(
        "messages_damaged",
        queue=str(queue),
        topic=gap.topic,
        from_sequence=gap.first,
        to_sequence=gap.last,
        count=gap.count,
        reason=gap.reason,
        remedy="the disk changed stored data; check its health. Undamaged messages are still sent",
    )


def new_id() -> str:
    """An id for a gap record, as long as a message's id."""
    return secrets.token_hex(16)
