"""A store's SQLite file through encryption: all of SQLite works, and stores do not share keys."""

from __future__ import annotations

import hashlib
from pathlib import Path

import apsw
import pytest

from fairlead_edge.io.encryption.keyring import DataKey
from fairlead_edge.io.encryption.sealed_files import SealedFiles, SmallFiles, pages_of

KEY = DataKey("0a1b2c3d", bytes(range(32)))
TEXT = "nobody may read this"


def test_written_read_and_killed(tmp_path: Path) -> None:
    files = SealedFiles(KEY, "a.db")
    path = tmp_path / "a.db"
    writer = files.connect(path)
    writer.execute("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=20").fetchall()
    writer.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
    reader = files.connect(path, flags=apsw.SQLITE_OPEN_READONLY)
    for number in range(200):
        writer.execute("INSERT INTO t VALUES(?, ?)", (number, TEXT * (number % 300)))
    assert reader.execute("SELECT count(*) FROM t").fetchall() == [(200,)]
    copies = {name: (tmp_path / name).read_bytes() for name in ("a.db", "a.db-wal")}
    reader.close()
    writer.close()
    killed = tmp_path / "killed"
    killed.mkdir()
    for name, content in copies.items():
        assert TEXT.encode() not in content
        (killed / name).write_bytes(content)
    for folder in (tmp_path, killed):
        again = SealedFiles(KEY, "a.db").connect(folder / "a.db")
        assert again.execute("SELECT count(*), sum(length(b)) FROM t").fetchall() == [
            (200, sum(len(TEXT) * (number % 300) for number in range(200)))
        ]
        assert again.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        again.close()


def test_another_key_another_store_and_no_key_read_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = SealedFiles(KEY, "a.db").connect(path)
    connection.execute("CREATE TABLE t(a)")
    connection.close()
    for files in (SealedFiles(DataKey("0a1b2c3d", bytes(32)), "a.db"), SealedFiles(KEY, "b.db")):
        with pytest.raises(apsw.Error):
            files.connect(path).execute("SELECT * FROM t")
    with pytest.raises(apsw.NotADBError):
        apsw.Connection(str(path)).execute("SELECT * FROM t")
    assert pages_of(None, "a.db").name == "" and pages_of(KEY, "a.db").name == KEY.name


def test_small_files_of_stores_are_bound_to_their_names() -> None:
    files = SealedFiles(KEY, "a.db")
    assert SealedFiles(KEY, "b.db").unseal(files.seal(b"x", "routes.copy"), "routes.copy") == b"x"
    with pytest.raises(ValueError):
        files.unseal(files.seal(b"x", "routes.copy"), "a.db.totals")


def files(secret: bytes = b"k", name: str = "0a1b2c3d") -> SmallFiles:
    return SmallFiles(lambda salt: hashlib.sha256(secret + salt).digest(), name)


def test_what_was_sealed_comes_back() -> None:
    sealed = files().seal(b"nobody may read this", "a")
    assert b"nobody" not in sealed
    assert files().unseal(sealed + b"older content", "a") == b"nobody may read this"


def test_every_sealing_differs() -> None:
    one = files()
    assert len({one.seal(b"same", "a") for _ in range(50)} | {files().seal(b"same", "a")}) == 51


def test_anything_else_is_refused() -> None:
    sealed = files().seal(b"content", "a")
    with pytest.raises(ValueError, match="changed after it was sealed"):
        files().unseal(sealed, "b")
    with pytest.raises(ValueError):
        files(b"other").unseal(sealed, "a")
    with pytest.raises(ValueError, match="with this key"):
        files(name="ffffffff").unseal(sealed, "a")
    for at in range(len(sealed)):
        spoilt = bytearray(sealed)
        spoilt[at] ^= 1
        with pytest.raises(ValueError):
            files().unseal(bytes(spoilt), "a")
    for size in (0, 5, len(sealed) - 1):
        with pytest.raises(ValueError):
            files().unseal(sealed[:size], "a")
