"""Room that a store has before it needs it."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest

from fairlead_edge.io.sqlite import disk_space
from fairlead_edge.io.sqlite.disk_space import Room
from fairlead_edge.io.sqlite.rows import rows


@pytest.fixture
def connection(tmp_path: Path) -> apsw.Connection:
    opened = apsw.Connection(str(tmp_path / "store.db"))
    opened.execute("PRAGMA journal_mode=WAL").fetchall()
    opened.execute("CREATE TABLE t(v)")
    return opened


def test_the_log_has_room_from_the_start(connection: apsw.Connection, tmp_path: Path) -> None:
    """Enough for what frees room, however full the disk gets later."""
    opened = Room(tmp_path / "store.db")
    assert (tmp_path / "store.db-wal").stat().st_size >= disk_space.WAL_BYTES
    connection.execute("INSERT INTO t VALUES(1)")
    connection.close()
    opened.close()
    again = apsw.Connection(str(tmp_path / "store.db"))
    assert again.execute("SELECT * FROM t").fetchall() == [(1,)]
    again.close()


def test_the_file_has_its_blocks_before_the_commit(connection: apsw.Connection, tmp_path: Path) -> None:
    """So that the log can be folded back into it on a full disk."""
    opened = Room(tmp_path / "store.db")
    connection.execute("BEGIN")
    connection.execute("INSERT INTO t VALUES(zeroblob(1000000))")
    opened.take(connection)
    assert (tmp_path / "store.db").stat().st_size >= 1_000_000
    connection.execute("ROLLBACK")
    connection.close()
    opened.close()


def test_without_room_the_commit_is_refused(
    connection: apsw.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Room(tmp_path / "store.db")

    def fails(number: int):
        def allocate(*_: int) -> None:
            raise OSError(number, os.strerror(number))

        return allocate

    connection.execute("BEGIN")
    connection.execute("INSERT INTO t VALUES(zeroblob(1000000))")
    monkeypatch.setattr(os, "posix_fallocate", fails(28))
    with pytest.raises(apsw.FullError):
        opened.take(connection)
    monkeypatch.setattr(os, "posix_fallocate", fails(95))
    opened.take(connection)
    connection.execute("ROLLBACK")
    connection.close()
    opened.close()


# ---- pages given back: only when most of a large file holds nothing -------------------------------


def test_unused_room_goes_back_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_space, "UNUSED_PAGES_MIN", 10)
    monkeypatch.setattr(disk_space, "GIVE_BACK_PAGES", 8)
    connection = apsw.Connection(str(tmp_path / "a.db"))
    for statement in ("PRAGMA auto_vacuum=INCREMENTAL", "CREATE TABLE t(a)"):
        rows(connection, statement)
    connection.executemany("INSERT INTO t VALUES(?)", [(b"x" * 4000,)] * 30)
    assert disk_space.give_back(connection) == 0
    rows(connection, "DELETE FROM t WHERE rowid > 3")
    assert disk_space.give_back(connection) == 8 * 4096
    while disk_space.give_back(connection):
        pass
    [(unused,)] = rows(connection, "PRAGMA freelist_count")
    assert unused < 10
