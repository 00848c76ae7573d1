"""The group-commit writer: durable before it answers, one bad job fails alone, a full disk fails cleanly."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from fairlead_edge.errors import StoreFailed, StoreFull
from fairlead_edge.io.sqlite import writer as writer_module
from fairlead_edge.io.sqlite.writer import SqliteWriter
from fairlead_wire.errors import LocalError, Temporary


def create(connection: apsw.Connection) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS t(k INTEGER PRIMARY KEY, v BLOB)")


def insert(key: int, value: bytes = b"v"):
    def job(connection: apsw.Connection) -> int:
        connection.execute("INSERT INTO t VALUES(?, ?)", (key, value))
        return key

    return job


def keys(connection: apsw.Connection) -> list[int]:
    return [row[0] for row in connection.execute("SELECT k FROM t ORDER BY k")]


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[SqliteWriter]:
    opened = SqliteWriter(tmp_path / "store.db", setup=create)
    yield opened
    await opened.close()


async def test_answer_comes_after_commit_and_is_visible_elsewhere(writer: SqliteWriter, tmp_path: Path) -> None:
    assert await writer.submit(insert(1)) == 1
    assert keys(apsw.Connection(str(tmp_path / "store.db"))) == [1]
    assert await writer.read(keys) == [1]


async def test_concurrent_jobs_share_commits(writer: SqliteWriter) -> None:
    await asyncio.gather(*(writer.submit(insert(key)) for key in range(1000)))
    assert await writer.read(keys) == list(range(1000))
    assert writer.commits < 200


async def test_failing_job_fails_alone(writer: SqliteWriter) -> None:
    def spoil(connection: apsw.Connection) -> None:
        connection.execute("INSERT INTO t VALUES(77, 'half')")
        raise ValueError("no")

    answers = await asyncio.gather(
        writer.submit(insert(1)), writer.submit(spoil), writer.submit(insert(2)), return_exceptions=True
    )
    assert answers[0] == 1 and answers[2] == 2 and isinstance(answers[1], ValueError)
    assert await writer.read(keys) == [1, 2]


async def test_full_disk_fails_the_big_one_and_keeps_the_small(writer: SqliteWriter) -> None:
    await writer.submit(lambda connection: connection.execute("PRAGMA max_page_count=10").fetchall())
    answers = await asyncio.gather(
        writer.submit(insert(1)),
        writer.submit(insert(2, b"x" * 100_000)),
        writer.submit(insert(3)),
        return_exceptions=True,
    )
    assert answers[0] == 1 and answers[2] == 3 and isinstance(answers[1], StoreFull)
    assert answers[1].retry_after_seconds
    assert await writer.read(keys) == [1, 3]
    assert writer.failure is None


async def test_disk_failure_stops_the_store(writer: SqliteWriter) -> None:
    """After an I/O error nothing more is written: a failed flush may have lost pages it reported before."""

    def break_disk(_: apsw.Connection) -> None:
        raise apsw.IOError("flush failed")

    # The transaction is given up by SQLite itself in the real case; the error kind decides here.
    def break_and_roll_back(connection: apsw.Connection) -> None:
        connection.execute("ROLLBACK")
        break_disk(connection)

    with pytest.raises(StoreFailed, match="flush failed"):
        await writer.submit(break_and_roll_back)
    with pytest.raises(StoreFailed):
        await writer.submit(insert(1))
    assert writer.failure is not None


async def test_waiting_jobs_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "PENDING_MAX", 2)
    writer = SqliteWriter(tmp_path / "store.db", setup=create)
    stalled, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def stall(_: apsw.Connection) -> None:
        loop.call_soon_threadsafe(stalled.set)
        go_on.wait(100)

    first = asyncio.create_task(writer.submit(stall))
    await stalled.wait()
    waiting = [asyncio.create_task(writer.submit(insert(key))) for key in (1, 2)]
    await asyncio.sleep(0)
    with pytest.raises(Temporary) as refused:
        await writer.submit(insert(3))
    assert refused.value.retry_after_seconds
    go_on.set()
    await asyncio.gather(first, *waiting)
    await writer.close()


async def test_close_drains_then_refuses(tmp_path: Path) -> None:
    writer = SqliteWriter(tmp_path / "store.db", setup=create)
    tasks = [asyncio.create_task(writer.submit(insert(key))) for key in range(50)]
    await asyncio.sleep(0)
    await writer.close()
    assert [await task for task in tasks] == list(range(50))
    with pytest.raises(LocalError):
        await writer.submit(insert(99))
    assert keys(apsw.Connection(str(tmp_path / "store.db"))) == list(range(50))


async def test_cancelled_caller_harms_no_other_job(writer: SqliteWriter) -> None:
    gone = asyncio.create_task(writer.submit(insert(1)))
    await asyncio.sleep(0)
    gone.cancel()
    assert await writer.submit(insert(2)) == 2


def test_setup_failure_is_raised_by_the_constructor(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"this is not a database, it is a long enough text to be looked at" * 20)
    with pytest.raises(apsw.NotADBError):
        SqliteWriter(path, setup=create)


async def test_flush_is_full(writer: SqliteWriter) -> None:
    """WAL and synchronous=FULL: the settings an answer's promise rests on."""

    def pragmas(connection: apsw.Connection) -> tuple[apsw.SQLiteValue, apsw.SQLiteValue]:
        return (
            connection.execute("PRAGMA journal_mode").fetchall()[0][0],
            connection.execute("PRAGMA synchronous").fetchall()[0][0],
        )

    assert await writer.submit(pragmas) == ("wal", 2)
