"""The catalogue against the tables: every statement is one SQLite can run, is explained, and is used."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from tests.support.edges.outbox_tables import tables
from tests.support.sql import statements_of

from fairlead_edge.errors import StoreVersionUnknown
from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.io.outbox.tables import statements
from fairlead_edge.io.outbox.tables.schema import VERSION, prepare
from fairlead_edge.io.sqlite.rows import rows


def test_every_statement_fits_the_tables() -> None:
    """A column that is misspelled or gone shows here, not on a node."""
    connection = tables()
    found = statements_of(statements)
    assert len(found) > 100
    for statement in found:
        places = max(statement.count("?"), *(number for number in range(9) if f"?{number}" in statement or not number))
        distinct = len({f"?{number}" for number in range(1, 9) if f"?{number}" in statement})
        rows(connection, f"EXPLAIN {statement}", ("[]",) * (distinct or places))


@pytest.mark.parametrize("version", [VERSION - 2, VERSION + 1])
def test_a_file_of_another_version_is_refused(version: int) -> None:
    connection = apsw.Connection(":memory:")
    rows(connection, f"PRAGMA user_version={version}")
    with pytest.raises(StoreVersionUnknown, match=f"has version {version}; this program reads version {VERSION}"):
        prepare(connection)


@pytest.mark.parametrize("column", [b"span INTEGER", b"among BLOB", b"as_of REAL"])
@pytest.mark.parametrize("bit", [0, 2, 5, 7])
async def test_a_column_whose_name_a_disk_changed_keeps_no_agent_from_starting(
    tmp_path: Path, column: bytes, bit: int
) -> None:
    """A table whose loss loses no message is recreated, even if the name is no longer text."""
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
