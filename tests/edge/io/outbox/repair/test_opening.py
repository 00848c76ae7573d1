"""Before the outbox's file is used."""

from __future__ import annotations

from pathlib import Path

import apsw

from fairlead_edge.io.outbox.repair import salvage
from fairlead_edge.io.outbox.tables import schema


def made(path: Path) -> None:
    connection = apsw.Connection(str(path))
    schema.prepare(connection)
    connection.close()


def test_a_sound_file_stays_as_it_is(tmp_path: Path) -> None:
    """And one that is not there yet is no damage."""
    path = tmp_path / "outbox.db"
    assert salvage.make_sound(path, None, epoch=1, thorough=True) == salvage.Sound("", is_looked_through=True)
    assert not path.exists()
    made(path)
    assert salvage.make_sound(path, None, epoch=1, thorough=True) == salvage.Sound("", is_looked_through=True)


def test_a_changed_schema_is_salvaged_before_the_file_is_used(tmp_path: Path) -> None:
    """The reason is kept for the status; the next opening finds a sound file."""
    path = tmp_path / "outbox.db"
    made(path)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA writable_schema=ON")
    connection.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, 'runs(expires)', 'runs(expires COLLATE BINASY)')"
        " WHERE name = 'runs_by_expiry'"
    )
    connection.close()
    found = salvage.make_sound(path, None, epoch=1, thorough=True)
    assert "BINASY" in found.salvaged and found.is_looked_through
    assert (tmp_path / "outbox.db.damaged").exists()
    assert salvage.make_sound(path, None, epoch=2, thorough=True).salvaged == ""


def test_ids_of_gap_records_are_as_long_as_those_of_messages() -> None:
    """And no two are the same."""
    assert len(salvage.new_id()) == 32 and salvage.new_id() != salvage.new_id()
