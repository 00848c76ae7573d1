"""A write-ahead log folded into its file from outside: all that was committed, also behind what is damaged."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from fairlead_edge.io.sqlite import wal


def killed(folder: Path, rows: int = 60) -> Path:
    """A store whose process was killed: its log was not folded back."""
    path = folder / "store.db"
    connection = apsw.Connection(str(folder / "open.db"))
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    connection.execute("CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB)")
    for key in range(rows):
        connection.execute("INSERT INTO t VALUES(?, ?)", (key, bytes([key % 251]) * 1000))
    for end in ("", "-wal"):
        Path(f"{path}{end}").write_bytes((folder / f"open.db{end}").read_bytes())
    connection.close()
    return path


def keys(path: Path) -> list[int]:
    connection = apsw.Connection(str(path))
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [key for (key,) in connection.execute("SELECT k FROM t")]
    finally:
        connection.close()


@pytest.mark.parametrize("at", [3, 9, 18, 25, 32 + 8, 32 + 17, 32 + 30 * 4120 + 20, 32 + 5 * 4120 + 2000])
def test_what_sqlite_would_take_back_is_kept(tmp_path: Path, at: int) -> None:
    path = killed(tmp_path)
    log = Path(f"{path}-wal")
    content = bytearray(log.read_bytes())
    content[at] ^= 0x40
    log.write_bytes(content)
    assert wal.fold(path) > 80
    assert keys(path) == list(range(60))
    assert not log.exists() and wal.fold(path) == 0


def test_what_was_not_committed_is_not(tmp_path: Path) -> None:
    path = killed(tmp_path)
    log = Path(f"{path}-wal")
    log.write_bytes(log.read_bytes()[: -4120 - 10])
    wal.fold(path)
    found = keys(path)
    assert found == list(range(len(found))) and 55 <= len(found) < 60


def test_no_log_is_nothing_to_do(tmp_path: Path) -> None:
    path = killed(tmp_path)
    content = Path(f"{path}-wal").read_bytes()
    wal.fold(path)
    for rest in (b"", content[:32], content[:32] + bytes(4120 * 3)):
        Path(f"{path}-wal").write_bytes(rest)
        assert wal.fold(path) == 0
        assert len(keys(path)) == 60
    assert wal.fold(tmp_path / "nothing.db") == 0
