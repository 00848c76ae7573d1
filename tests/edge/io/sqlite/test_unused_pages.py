"""Pages given back: only when most of a large file holds nothing."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from fairlead_edge.io.sqlite import unused_pages
from fairlead_edge.io.sqlite.rows import rows


def test_unused_room_goes_back_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Little of it is kept for the next outage."""
    monkeypatch.setattr(unused_pages, "UNUSED_PAGES_MIN", 10)
    monkeypatch.setattr(unused_pages, "GIVE_BACK_PAGES", 8)
    connection = apsw.Connection(str(tmp_path / "a.db"))
    for statement in ("PRAGMA auto_vacuum=INCREMENTAL", "CREATE TABLE t(a)"):
        rows(connection, statement)
    connection.executemany("INSERT INTO t VALUES(?)", [(b"x" * 4000,)] * 30)
    assert unused_pages.give_back(connection) == 0
    rows(connection, "DELETE FROM t WHERE rowid > 3")
    assert unused_pages.give_back(connection) == 8 * 4096
    while unused_pages.give_back(connection):
        pass
    [(unused,)] = rows(connection, "PRAGMA freelist_count")
    assert unused < 10
