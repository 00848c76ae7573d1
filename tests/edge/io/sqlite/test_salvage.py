"""Rows out of a damaged file: all but those on what cannot be read, and again after a crash in between."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest

from fairlead_edge.io.sqlite import salvage

PAGE = 4096
ROWS = 2000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "store.db"
    connection = apsw.Connection(str(found))
    schema(connection)
    with connection:
        connection.executemany("INSERT INTO t VALUES(?, ?)", [(key * 3, os.urandom(50)) for key in range(ROWS)])
        connection.execute("INSERT INTO few VALUES('a', 1), ('b', 2)")
    connection.close()
    return found


def schema(connection: apsw.Connection) -> None:
    connection.execute("CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB)")
    connection.execute("CREATE TABLE few(name TEXT PRIMARY KEY, value) WITHOUT ROWID")


def fill(source: apsw.Connection, target: apsw.Connection) -> None:
    schema(target)
    salvage.copy(source, target, "t", "k")
    salvage.copy_small(source, target, "few")


def keys(path: Path) -> set[int]:
    connection = apsw.Connection(str(path))
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT * FROM few").fetchall() == [("a", 1), ("b", 2)]
        return {key for (key,) in connection.execute("SELECT k FROM t")}
    finally:
        connection.close()


def garble(path: Path, *pages: int) -> None:
    with path.open("r+b") as file:
        for page in pages:
            file.seek(page * PAGE)
            file.write(os.urandom(PAGE))


@pytest.mark.parametrize("pages", [(10,), (10, 11, 12), (8, 20, 26), (9, 25), (24,)])
def test_only_what_lies_on_damaged_pages_is_lost(path: Path, pages: tuple[int, ...]) -> None:
    garble(path, *pages)
    salvage.salvage(path, fill=fill)
    lost = ROWS - len(keys(path))
    assert 0 < lost <= 70 * len(pages)
    assert path.with_name("store.db.damaged").exists() and not salvage.is_unfinished(path)


def test_a_file_without_its_end_keeps_its_beginning(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(20 * PAGE)
    salvage.salvage(path, fill=fill)
    found = keys(path)
    assert found == set(range(0, max(found) + 1, 3)) and len(found) > 500


def test_a_salvage_that_was_cut_short_is_gone_on_from(path: Path) -> None:
    """Killed while the new file was filled, the damaged one is still the truth."""
    garble(path, 10)

    def killed(source: apsw.Connection, target: apsw.Connection) -> None:
        fill(source, target)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        salvage.salvage(path, fill=killed)
    assert salvage.is_unfinished(path) and not path.exists()
    salvage.salvage(path, fill=fill)
    assert len(keys(path)) > ROWS - 100 and not salvage.is_unfinished(path)


def test_killed_between_the_two_renames_nothing_is_done_twice(path: Path) -> None:
    """The new file is in its place: what was written to it since is kept."""
    path.with_name("store.db.salvaging").write_bytes(b"the damaged one")
    salvage.salvage(path, fill=fill)
    assert len(keys(path)) == ROWS
    assert path.with_name("store.db.damaged").read_bytes() == b"the damaged one"


def test_what_never_was_ours_is_strange(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    assert salvage.is_strange(path, apsw.NotADBError())
    assert not salvage.is_strange(path, apsw.CorruptError())
    path.with_name("store.db.schema").write_bytes(b"")
    assert not salvage.is_strange(path, apsw.NotADBError())


def test_a_file_cut_in_the_middle_of_a_page_lost_its_end(path: Path) -> None:
    """One that is longer than it says did not: its blocks come before its pages."""
    assert not salvage.lost_its_end(path)
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.truncate(size + 10)
        assert not salvage.lost_its_end(path)
        file.truncate(size - 10)
    assert salvage.lost_its_end(path)


def make(version: int) -> apsw.Connection | None:
    connection = apsw.Connection(":memory:")
    schema(connection)
    return connection if version == 0 else None


def look(connection: apsw.Connection) -> str:
    [(found,)] = connection.execute("PRAGMA integrity_check(1)")
    return "" if found == "ok" else str(found)


def test_a_statement_that_fails_on_a_changed_schema_shows_damage(path: Path) -> None:
    """SQLite says neither by a code nor by its own check that a letter of an index's definition was flipped."""
    assert salvage.problem(path, look, model=make) == ""
    connection = apsw.Connection(str(path))
    connection.execute("CREATE INDEX by_value ON t(v COLLATE BINARY)")
    connection.execute("PRAGMA writable_schema=ON")
    connection.execute("UPDATE sqlite_schema SET sql = replace(sql, 'BINARY', 'BINASY') WHERE name = 'by_value'")
    connection.close()
    assert "BINASY" in (salvage.problem(path, look, model=make) or "")


def test_a_statement_that_fails_on_a_sound_schema_is_a_fault_of_the_program(path: Path) -> None:
    """Nothing is salvaged then: the file is as it was made.  Neither is one that a newer program made."""

    def ask(connection: apsw.Connection) -> str:
        return str(connection.execute("SELECT no_such_column FROM t").fetchall())

    with pytest.raises(apsw.SQLError):
        salvage.problem(path, ask, model=make)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version=7")
    connection.close()
    with pytest.raises(apsw.SQLError):
        salvage.problem(path, ask, model=make)


def test_what_a_schema_lacks_is_named(path: Path) -> None:
    """A flipped letter in the name of a column makes every question about it an error."""
    model, present = apsw.Connection(":memory:"), apsw.Connection(str(path))
    schema(model)
    assert salvage.lacks(present, model) == ""
    model.execute("ALTER TABLE t ADD COLUMN more")
    assert salvage.lacks(present, model) == "t.more is missing"
    present.close()
