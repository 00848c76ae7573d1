"""A damaged outbox becomes a sound one: what can be read goes on, what cannot is counted and told.

damaged file ─rows─▶ new file ─totals kept beside it─▶ queues ─checksums─▶ gaps ─count─▶ what is missing altogether
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import apsw

from fairlead_edge.io.outbox import audit, damage, jobs, queries, schema, store_clock
from fairlead_edge.io.outbox.queries import WITH_RUNS, rows, text
from fairlead_edge.io.sqlite import salvage
from fairlead_edge.outbox import totals
from fairlead_edge.outbox.age import Stamp
from fairlead_edge.outbox.checkpoint import NOTHING_DONE
from fairlead_edge.outbox.gaps import Gap
from fairlead_edge.outbox.manifest import PRIORITY_MAX
from fairlead_edge.outbox.queue_id import DEFAULT_PRIORITY, QueueId
from fairlead_edge.outbox.totals import COUNT_MAX, QueueTotals, Totals
from fairlead_edge.routes.sink import UPSTREAM

REASON: Final = "the store on disk was damaged"
PROGRESS_STEPS: Final = 10_000
_FIND_ROWS: Final = 1_000
_ASKED_FOR_NAME: Final = 20
_OWN_WAY: Final = ("queues", "references_", "runs", "usage", "sqlite_sequence")


class Report:
    """What a salvage came to."""

    def __init__(self) -> None:
        self.waiting = 0
        """Messages that go on."""
        self.lost: list[tuple[QueueId, Gap]] = []


def run(path: Path, *, kept: Totals | None, epoch: int, at: str, mint: Callable[[], str]) -> Report:
    """Raises ``OSError`` or ``apsw.Error`` when there is no room for the new file."""
    report = Report()
    fill = partial(_fill, report=report, kept=kept, epoch=epoch, at=at, mint=mint)
    salvage.salvage(path, fill=fill)
    return report


def _fill(
    source: apsw.Connection,
    target: apsw.Connection,
    *,
    report: Report,
    kept: Totals | None,
    epoch: int,
    at: str,
    mint: Callable[[], str],
) -> None:
    version = _version(source)
    for migration in schema.MIGRATIONS[:version]:
        rows(target, migration)
    rows(target, f"PRAGMA user_version={version}")
    for (table,) in rows(target, "SELECT name FROM sqlite_schema WHERE type = 'table'"):
        if table not in _OWN_WAY:
            salvage.copy(source, target, table)
    salvage.copy(source, target, "queues", "id", verb="INSERT OR REPLACE")  # a number that is gone is the default one
    if kept is not None and _commits(source) > kept.commits:
        kept = None  # after a power cut the file may be newer
    numbers = {queue.id for queue in kept.queues} if kept else _numbers(source)
    for number in sorted(numbers | {number for (number,) in rows(target, "SELECT id FROM queues")}):
        salvage.copy(source, target, "runs", "segment", where="queue = ?", bound=(number,))
        salvage.copy(source, target, "references_", "offset", where="queue = ?", bound=(number,))
    if version < len(schema.MIGRATIONS):
        return  # rows as they were; brought to the present version first, they are looked at again
    target.execute("BEGIN")
    ends = dict(rows(target, "SELECT id, next_offset FROM queues WHERE typeof(next_offset) = 'integer'"))
    _restore_queues(target, kept)
    if kept is not None and kept.node:
        target.execute("INSERT OR REPLACE INTO owner VALUES(1, ?)", (kept.node,))
    for table in ("dead_letters", "references_", "runs"):  # of queues of which not even the name is left
        target.execute(f"DELETE FROM {table} WHERE queue NOT IN (SELECT id FROM queues)")
    target.execute("UPDATE usage SET commits = ?", (1 + (kept.commits if kept else _commits(source)),))
    tell = {"epoch": epoch, "now": _clock(target, kept), "at": at, "mint": mint}
    for number, endpoint, priority in rows(target, "SELECT id, endpoint, priority FROM queues"):
        queue = QueueId(endpoint, priority)
        of_queue = kept.of(number) if kept else None
        for gap in _settle_queue(target, number, queue, of_queue, ends.get(number), tell):
            report.lost.append((queue, gap))
    damage.recount(target)
    _balance(target)
    [(report.waiting,)] = rows(target, "SELECT coalesce(sum(stored), 0) FROM queues")
    target.execute("COMMIT")


def _version(source: apsw.Connection) -> int:
    """That of the source, if it can be believed: an older one than the present keeps its form for now."""
    present = len(schema.MIGRATIONS)
    try:
        found = rows(source, "PRAGMA user_version")[0][0]
        if 0 < found < present and not set(salvage.columns(source, "queues")) >= {"damaged"}:
            return int(found)
    except salvage.READ_ERRORS:
        pass
    return present


def _clock(target: apsw.Connection, kept: Totals | None) -> float:
    """The store's clock goes on from what is kept; where nothing is, from the youngest message."""
    reading = store_clock.read()
    stamp = kept.clock if kept else None
    if stamp is None:
        with contextlib.suppress(*salvage.READ_ERRORS):
            stamp = audit.read_clock(target)
    if stamp is None:
        found = rows(target, "SELECT max(enqueued) FROM runs WHERE typeof(enqueued) = 'real' AND enqueued < 1e12")
        stamp = Stamp(
            boot_id=reading.boot_id,
            boot_seconds=reading.boot_seconds,
            wall_seconds=reading.wall_seconds,
            age_seconds=found[0][0] or 0.0,
        )
    target.execute("DELETE FROM clock")
    jobs.save_stamp(target, stamp)
    return store_clock.open_clock(stamp).now(reading.boot_seconds)


def _commits(source: apsw.Connection) -> int:
    try:
        commits = int(rows(source, "SELECT commits FROM usage")[0][0])
        return commits if 0 <= commits < COUNT_MAX else 0
    except (*salvage.READ_ERRORS, IndexError, TypeError, ValueError):
        return 0


def _restore_queues(target: apsw.Connection, kept: Totals | None) -> None:
    """Queues as the totals tell them, which are as new as the file at least; without any, those rows that can be."""
    if kept is not None:
        target.execute("DELETE FROM queues")
        for queue in kept.queues:
            values = {name: getattr(queue, name) for name in QueueTotals.__struct_fields__ if name != "topic"}
            places = ", ".join("?" * len(values))
            target.execute(f"INSERT INTO queues({', '.join(values)}) VALUES({places})", tuple(values.values()))
        return
    target.execute(
        "DELETE FROM queues WHERE typeof(endpoint) != 'text' OR typeof(priority) != 'integer'"
        f" OR priority NOT BETWEEN 0 AND {totals.PLACE_MAX}"
    )
    _name_queues(target)
    for name in ("next_offset", "accepted", "sent", "expired", "evicted", "damaged"):
        target.execute(
            f"UPDATE queues SET {name} = 0 WHERE typeof({name}) != 'integer' OR {name} NOT BETWEEN 0 AND {COUNT_MAX}"
        )
    target.execute(
        "UPDATE queues SET checkpoint = ? WHERE typeof(checkpoint) != 'integer' OR checkpoint < ?",
        (NOTHING_DONE, NOTHING_DONE),
    )


def _numbers(source: apsw.Connection) -> set[int]:
    """Of the queues that envelopes name, also where the queues' own rows are gone."""
    found: set[int] = set()
    with contextlib.suppress(*salvage.READ_ERRORS):
        found.update(number for (number,) in rows(source, "SELECT DISTINCT queue FROM runs") if isinstance(number, int))
    return found


def _name_queues(target: apsw.Connection) -> None:
    """Queues whose name is lost: the checksums of their envelopes tell which of those upwards each was."""
    candidates = [QueueId(UPSTREAM, priority) for priority in (*range(PRIORITY_MAX + 1), DEFAULT_PRIORITY)]
    for (number,) in rows(target, "SELECT DISTINCT queue FROM runs WHERE queue NOT IN (SELECT id FROM queues)"):
        for first, last, epoch, enqueued, expires, topic, sealed in rows(
            target,
            "SELECT first, last, epoch, enqueued, expires, CAST(topic AS BLOB), checksum FROM runs WHERE queue = ?"
            " LIMIT ?",
            (number, _ASKED_FOR_NAME),
        ):
            envelope = first, last, epoch, enqueued, expires, text(topic)
            named = [each for each in candidates if queries.sealed(each, *envelope) == sealed is not None]
            if named:
                target.execute(
                    "INSERT OR IGNORE INTO queues(id, endpoint, priority) VALUES(?, ?, ?)",
                    (number, named[0].endpoint, named[0].priority),
                )
                break


def _settle_queue(
    target: apsw.Connection,
    number: int,
    queue: QueueId,
    kept: QueueTotals | None,
    end: int | None,
    tell: dict[str, Any],
) -> list[Gap]:
    """Set aside what is damaged, and count what is missing altogether; ``end``: the next offset as the file has it."""
    if kept is not None:
        # Settled in commits the file has lost, and so back in it; what had expired is counted when it is swept.
        target.execute(
            "DELETE FROM references_ WHERE queue = ?1 AND offset <= ?2 AND segment IN (SELECT segment FROM runs"
            " WHERE queue = ?1 AND (expires IS NULL OR expires > ?3))",
            (number, kept.checkpoint, tell["now"]),
        )
    target.execute(
        f"DELETE FROM references_ WHERE queue = ? AND (offset NOT BETWEEN 0 AND {COUNT_MAX - 1}"
        " OR typeof(offset) != 'integer')",
        (number,),
    )
    [(lowest,)] = rows(target, "SELECT min(offset) FROM references_ WHERE queue = ?", (number,))
    [(highest,)] = rows(target, "SELECT coalesce(max(offset) + 1, 0) FROM references_ WHERE queue = ?", (number,))
    target.execute("UPDATE queues SET next_offset = max(next_offset, ?) WHERE id = ?", (highest, number))
    # A checkpoint that is only said by the damaged file must hide nothing; what it had passed rightly has expired.
    passed = lowest if kept is None and lowest is not None else COUNT_MAX
    target.execute(
        "UPDATE queues SET checkpoint = min(checkpoint, next_offset - 1, ? - 1) WHERE id = ?", (passed, number)
    )
    first, last, topic = _extent(target, number, kept)
    damaged = []
    after: int | None = NOTHING_DONE
    while after is not None:
        after, found = damage.find(target, queue, after=after, limit=_FIND_ROWS)
        damaged += found
    lost = damage.set_aside(target, queue, damaged, topic=topic, **tell) if damaged else []
    missing = _missing(target, number)
    if kept is not None:
        missing = max(missing, kept.next_offset - max(highest if end is None else end, kept.checkpoint + 1))
    if missing > 0:
        gap = Gap(first, max(first, last), missing, topic, REASON)
        target.execute("UPDATE queues SET damaged = damaged + ? WHERE id = ?", (missing, number))
        damage.tell(target, queue, gap, **tell)
        lost.append(gap)
    return lost


def _extent(target: apsw.Connection, number: int, kept: QueueTotals | None) -> tuple[int, int, str]:
    """Between which offsets something may be missing, and for which topic it was."""
    [(next_offset, checkpoint)] = rows(target, "SELECT next_offset, checkpoint FROM queues WHERE id = ?", (number,))
    topic = kept.topic if kept else ""
    if not topic:
        found = rows(
            target,
            f"SELECT CAST(u.topic AS BLOB) FROM {WITH_RUNS} WHERE r.queue = ? ORDER BY r.offset DESC LIMIT 1",
            (number,),
        )
        topic = text(found[0][0]) if found else ""
    return checkpoint + 1, next_offset - 1, topic


def _missing(target: apsw.Connection, number: int) -> int:
    """Accepted, ended nowhere, and not there; gap records told meanwhile are there and were accepted."""
    [(missing,)] = rows(
        target,
        "SELECT accepted - sent - expired - evicted - damaged"
        " - (SELECT count(*) FROM references_ WHERE queue = q.id)"
        " - (SELECT count(*) FROM dead_letters WHERE queue = q.id) FROM queues q WHERE id = ?",
        (number,),
    )
    return int(missing)


def _balance(target: apsw.Connection) -> None:
    """More there than was counted: commits were lost that only took away; what is there goes once more."""
    target.execute(
        "UPDATE queues SET accepted = sent + expired + evicted + damaged + stored"
        " + (SELECT count(*) FROM dead_letters WHERE queue = queues.id)"
    )


def problem(path: Path, kept: Totals | None, *, seconds: float | None = None) -> str | None:
    """What is wrong with the file at ``path``, before it is used; "" when nothing is, or there is none.

    None: nothing so far, but there was more to look through than ``seconds`` allow.
    """
    if salvage.is_unfinished(path):
        return "an earlier salvage did not come to its end"
    if not path.exists():
        return "it is gone" if kept is not None and kept.queues else ""
    if salvage.lost_its_end(path):
        return "its end is missing"
    if wrong := salvage.head_problem(path):
        return wrong
    try:
        connection = apsw.Connection(str(path))
        try:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.set_busy_timeout(5_000)
            present, found = len(schema.MIGRATIONS), rows(connection, "PRAGMA user_version")[0][0]
            if wrong := salvage.version_problem(path, found, present):
                return wrong
            if found != present:
                if not rows(connection, "SELECT 1 FROM sqlite_schema LIMIT 1"):
                    return "it is empty" if kept is not None and kept.queues else ""
                [(found,)] = rows(connection, "PRAGMA integrity_check(1)")  # older, newer, or not made yet
                return "" if found == "ok" else str(found)
            model = apsw.Connection(":memory:")
            schema.migrate(model)
            wrong = salvage.lacks(connection, model)
            wrong = wrong or audit.glance(connection)
            wrong = wrong or audit.compare(audit.read_totals(connection), kept)
            if not wrong and seconds is not None:
                until = time.monotonic() + seconds
                connection.set_progress_handler(lambda: time.monotonic() > until, PROGRESS_STEPS)
            return wrong or audit.audit(connection)
        finally:
            connection.close()
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
        if salvage.is_strange(path, error):
            raise
        return str(error) or type(error).__name__
    except apsw.InterruptError:
        return None
    except apsw.SQLError as error:
        if "no such" not in str(error):  # a table or a column: what names them is damaged
            raise
        return str(error)
