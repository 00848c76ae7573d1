"""The pages that name the tables: kept beside the store, written back into a damaged one."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest

from fairlead_edge.io.outbox.tables import schema
from fairlead_edge.io.sqlite import schema_pages


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    schema.prepare(connection)
    connection.execute("INSERT INTO queues(endpoint, priority) VALUES('iothub', 0)")
    file = os.open(path, os.O_RDONLY)
    schema_pages.keep(connection, file, tmp_path / "store.db.schema")
    os.close(file)
    connection.close()
    return path


def test_a_garbled_beginning_is_made_good(store: Path, tmp_path: Path) -> None:
    """Header and names of the tables: without them the whole file is no database."""
    content = store.read_bytes()
    store.write_bytes(os.urandom(4096) + content[4096:])
    assert schema_pages.restore(store, tmp_path / "store.db.schema")
    connection = apsw.Connection(str(store))
    assert connection.execute("SELECT endpoint FROM queues").fetchall() == [("iothub",)]
    connection.close()


def test_what_was_kept_is_believed_only_whole(store: Path, tmp_path: Path) -> None:
    kept = tmp_path / "store.db.schema"
    before = store.read_bytes()
    for content in (kept.read_bytes()[:-1], b"abc", bytes(100)):
        kept.write_bytes(content)
        assert not schema_pages.restore(store, kept)
    kept.unlink()
    assert not schema_pages.restore(store, kept)
    assert store.read_bytes() == before


def test_a_file_migrated_since_is_left_alone(store: Path, tmp_path: Path) -> None:
    """Its own pages are newer than what was kept; where it cannot be read at all, old ones are better than none."""
    kept = tmp_path / "store.db.schema"
    assert schema_pages.restore(store, kept, unless_newer=True)
    connection = apsw.Connection(str(store))
    connection.pragma("user_version", 99)
    connection.close()
    assert not schema_pages.restore(store, kept, unless_newer=True)
    assert schema_pages.restore(store, kept)
