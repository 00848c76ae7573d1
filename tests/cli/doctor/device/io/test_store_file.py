"""Stores on a real disk: sound, changed, no database; nothing is left beside them."""

from __future__ import annotations

from pathlib import Path

import apsw

from fairlead_cli.doctor.device import store
from fairlead_edge.io.encryption.keyring import DataKey
from fairlead_edge.io.encryption.sealed_files import SealedFiles


def made(path: Path) -> Path:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = wal; PRAGMA user_version = 2; CREATE TABLE t (a)").fetchall()
    connection.execute("INSERT INTO t VALUES (randomblob(200000))").fetchall()
    connection.close()
    return path


def test_a_sound_store_is_left_as_it_was(tmp_path: Path) -> None:
    """No log, no shared memory: files of another user would lock the agent out."""
    path = made(tmp_path / "objects.db")
    found = store.read_store(path, "objects", limit_bytes=10**9, known_version=2, in_use=False)
    assert found is not None and (found.version, found.integrity, found.error) == (2, "ok", "")
    assert [each.name for each in tmp_path.iterdir()] == ["objects.db"]


def test_a_store_in_use(tmp_path: Path) -> None:
    """One more reader, which sees what is only in the log so far."""
    path = made(tmp_path / "objects.db")
    writer = apsw.Connection(str(path))
    writer.execute("PRAGMA user_version = 3").fetchall()
    found = store.read_store(path, "objects", limit_bytes=10**9, known_version=2, in_use=True)
    writer.execute("INSERT INTO t VALUES (1)").fetchall()
    writer.close()
    assert found is not None and (found.version, found.integrity) == (3, "ok")


def test_a_store_the_disk_changed(tmp_path: Path) -> None:
    """And what is no database at all, and none."""
    path = made(tmp_path / "objects.db")
    content = bytearray(path.read_bytes())
    content[4096 : 4096 * 3] = b"\xff" * 8192
    path.write_bytes(content)
    found = store.read_store(path, "objects", limit_bytes=10**9, known_version=2, in_use=False)
    assert found is not None and (found.error or found.integrity != "ok")
    path.write_bytes(b"nothing of the kind" * 300)
    found = store.read_store(path, "objects", limit_bytes=10**9, known_version=2, in_use=False)
    assert found is not None and "not a database" in found.error
    nothing = store.read_store(tmp_path / "none.db", "objects", limit_bytes=1, known_version=1, in_use=False)
    assert nothing is None


def test_an_encrypted_store_says_its_version_and_is_not_read(tmp_path: Path) -> None:
    """Only its agent has the key; it is not damaged because of that."""
    path = tmp_path / "objects.db"
    connection = SealedFiles(DataKey("0a1b2c3d", bytes(range(32))), path.name).connect(path)
    connection.execute("PRAGMA user_version = 2; CREATE TABLE t (a)").fetchall()
    connection.close()
    found = store.read_store(path, "objects", limit_bytes=10**9, known_version=2, in_use=False)
    assert found is not None and (found.version, found.encrypted, found.error) == (2, True, "")
    assert [each.name for each in tmp_path.iterdir()] == ["objects.db"]
