"""The outbox's file: new, known, and from the future."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from fairlead_edge.errors import StoreTooNew
from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.io.outbox.tables.schema import MIGRATIONS, migrate
from fairlead_edge.io.sqlite.rows import rows


def tables(connection: apsw.Connection) -> set[str]:
    return {name for (name,) in rows(connection, "SELECT name FROM sqlite_schema WHERE type = 'table'")}


def test_every_older_version_becomes_the_present_one() -> None:
    """Whatever version a file stopped at, the rest of the migrations follow; nothing runs twice."""
    new = apsw.Connection(":memory:")
    migrate(new)
    for version in range(len(MIGRATIONS) + 1):
        old = apsw.Connection(":memory:")
        for migration in MIGRATIONS[:version]:
            rows(old, migration)
        rows(old, f"PRAGMA user_version={version}")
        migrate(old)
        assert tables(old) == tables(new)
        assert rows(old, "PRAGMA user_version") == [(len(MIGRATIONS),)]


def test_file_of_a_newer_program_is_refused() -> None:
    """Guessing could destroy it."""
    connection = apsw.Connection(":memory:")
    rows(connection, f"PRAGMA user_version={len(MIGRATIONS) + 1}")
    with pytest.raises(StoreTooNew, match=str(len(MIGRATIONS) + 1)):
        migrate(connection)


@pytest.mark.parametrize("column", [b"span INTEGER", b"among BLOB", b"as_of REAL"])
@pytest.mark.parametrize("bit", [0, 2, 5, 7])
async def test_a_column_whose_name_a_disk_changed_keeps_no_agent_from_starting(
    tmp_path: Path, column: bytes, bit: int
) -> None:
    """Of a table that the program can do without: it begins anew, also where the name is no text any more."""
    path = tmp_path / "outbox.db"
    await SqliteOutbox(path, epoch=1, max_bytes=1 << 30).close()
    content = bytearray(path.read_bytes())
    content[content.index(column) + 1] ^= 1 << bit
    path.write_bytes(content)
    box = SqliteOutbox(path, epoch=2, max_bytes=1 << 30)
    assert await box.whereabouts(b"i" * 16) == []
    assert await box.remembers_since() is None
    assert await box.tables_reached() == {}
    await box.close()
