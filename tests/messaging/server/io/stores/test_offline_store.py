"""A store is read without a byte of it changing, also after kill -9, and never under a running service."""

from __future__ import annotations

import hashlib
import io
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.support.topics.messaging_program import MessagingProgram

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.app import open_store
from fairlead_messaging.client.io.sync_client import Client
from fairlead_messaging.server import backup
from fairlead_messaging.server.backup import BadBackup, Decoder
from fairlead_messaging.server.io.stores import offline_store
from fairlead_messaging.server.io.stores.offline_store import RESTORING, InUse, Kind, NoStore, NotEmpty
from fairlead_messaging.server.io.stores.sqlite_kv import FILE_NAME
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_messaging.server.store.ordered_kv import Batch

KINDS = ("rocksdb", "sqlite")


def settings(folder: Path, kind: str) -> MessagingSettings:
    return MessagingSettings.model_validate({"security": "insecure", "data_dir": str(folder), "store": kind})


def filled(folder: Path, kind: str) -> None:
    store = open_store(settings(folder, kind))
    batch = Batch()
    for number in range(100):
        batch.put(b"M%03d" % number, b"v%d" % number)
    store.apply(batch)
    batch = Batch()
    batch.delete_range(b"M010", b"M020")
    store.apply(batch)
    store.close()


def bytes_of(folder: Path) -> dict[str, tuple[str, int]]:
    """Every file below: what is in it, and when it was written last."""
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def rows(folder: Path) -> list[bytes]:
    with offline_store.opened(folder) as store:
        return [key for key, _ in store.scan(b"M", b"N")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_store_is_read_and_not_written(tmp_path: Path, kind: str) -> None:
    filled(tmp_path / "data", kind)
    before = bytes_of(tmp_path / "data")
    for _ in range(2):
        assert len(rows(tmp_path / "data")) == 90
    assert bytes_of(tmp_path / "data") == before
    open_store(settings(tmp_path / "data", kind)).close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_running_service_is_named_and_not_disturbed(tmp_path: Path, kind: str) -> None:
    store = open_store(settings(tmp_path, kind))
    with pytest.raises(InUse, match=r"in use by process \d+ since .*; stop that service, or use a copy"):
        rows(tmp_path)
    store.close()
    with offline_store.opened(tmp_path), pytest.raises(Exception, match="in use"):
        open_store(settings(tmp_path, kind))


def test_where_there_is_no_store_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoStore, match="is not a directory"):
        rows(tmp_path / "absent")
    with pytest.raises(NoStore, match="holds no store"):
        rows(tmp_path)
    filled(tmp_path, "sqlite")
    with pytest.raises(NoStore, match="no rocksdb store"), offline_store.opened(tmp_path, "rocksdb"):
        pass
    filled(tmp_path, "rocksdb")
    with pytest.raises(NoStore, match="say --store"):
        rows(tmp_path)
    with offline_store.opened(tmp_path, "sqlite") as store:
        assert len(list(store.scan(b"M", b"N"))) == 90


@pytest.mark.process
@pytest.mark.verify
@pytest.mark.parametrize("kind", KINDS)
def test_after_kill_9_everything_acknowledged_is_read_and_nothing_written(tmp_path: Path, kind: str) -> None:
    """Also from a copy that lacks the index of SQLite's log, or the lock; then the service starts as ever."""
    with MessagingProgram(tmp_path, more=f'store = "{kind}"') as program:
        data = tmp_path / "data"
        with Client(program.url) as client:
            client.create_topic("default", "t")
            client.publish("default", "t", [b"%d" % number for number in range(500)])
        with pytest.raises(InUse, match=f"process {program.running.pid} since"):
            rows(data)
        program.kill()
        before = bytes_of(data)
        assert len(rows(data)) == 500
        assert bytes_of(data) == before
        copy = tmp_path / "copy"
        shutil.copytree(data, copy, ignore=shutil.ignore_patterns("lock", "*-shm"))
        before = bytes_of(copy)
        assert len(rows(copy)) == 500
        assert bytes_of(copy) == before
        program.start()
        with Client(program.url) as client:
            assert len(list(client.messages("default", "t"))) == 500
    assert keys.MESSAGE == b"M"


# --- A store made of a backup: the same rows in either kind of store, or no store at all.

Rows = list[tuple[bytes, bytes]]


def backup_of(folder: Path) -> bytes:
    made = backup.encode(rows_of(folder), program="", service="", taken_ms=0)
    return b"".join(data for data, _ in made)


def rows_of(folder: Path) -> Rows:
    with offline_store.opened(folder) as store:
        return list(store.scan(*keys.EVERYTHING))


def restore(data: bytes, folder: Path, kind: Kind = "rocksdb", *, new_id: bool = False) -> int:
    return offline_store.restore(Decoder(io.BytesIO(data)), folder, kind, "now", new_id=new_id, wrote=lambda rows: None)


@pytest.mark.parametrize("from_kind", KINDS)
@pytest.mark.parametrize("to_kind", KINDS)
def test_the_same_rows_in_either_kind_of_store(tmp_path: Path, from_kind: Kind, to_kind: Kind) -> None:
    filled(tmp_path / "old", from_kind)
    before = rows_of(tmp_path / "old")
    assert restore(backup_of(tmp_path / "old"), tmp_path / "new", to_kind) == len(before) == 90
    assert offline_store.kind_of(tmp_path / "new") == to_kind
    assert rows_of(tmp_path / "new") == before
    assert sorted(each.name for each in (tmp_path / "new").iterdir())[0] == "lock"
    store = open_store(settings(tmp_path / "new", to_kind))
    assert store.compare_and_set(b"Z", None, b"1")
    store.close()


def test_a_store_that_is_there_is_not_touched(tmp_path: Path) -> None:
    filled(tmp_path / "old", "sqlite")
    data, before = backup_of(tmp_path / "old"), rows_of(tmp_path / "old")
    with pytest.raises(NotEmpty, match="holds a store already"):
        restore(data, tmp_path / "old", "rocksdb")
    with pytest.raises(NotEmpty, match="holds a store already"):
        restore(data, tmp_path / "old", "sqlite")
    assert rows_of(tmp_path / "old") == before
    store = open_store(settings(tmp_path / "running", "rocksdb"))
    with pytest.raises(StorageError, match="in use by process"):
        restore(data, tmp_path / "running")
    store.close()


def test_the_log_of_another_file_is_a_store(tmp_path: Path) -> None:
    """Of a killed service whose file alone was moved away: SQLite would read it into the new file."""
    filled(tmp_path / "old", "sqlite")
    data = backup_of(tmp_path / "old")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / f"{FILE_NAME}-wal").write_bytes(b"of another")
    with pytest.raises(NotEmpty, match=f"holds a store already .{FILE_NAME}-wal"):
        restore(data, tmp_path / "new", "sqlite")
    assert (tmp_path / "new" / f"{FILE_NAME}-wal").read_bytes() == b"of another"


def test_what_is_only_in_the_log_yet_is_no_store(tmp_path: Path) -> None:
    """Closing folds the log into the file, or leaves it where that fails, and says nothing."""
    filled(tmp_path / "old", "sqlite")
    data, held = backup_of(tmp_path / "old"), []

    def hold(rows: int) -> None:
        connection = sqlite3.connect(tmp_path / "new" / RESTORING / FILE_NAME)
        connection.execute("BEGIN")
        connection.execute("SELECT k FROM kv LIMIT 1").fetchone()
        held.append(connection)

    with pytest.raises(StorageError, match="could not be written completely"):
        offline_store.restore(Decoder(io.BytesIO(data)), tmp_path / "new", "sqlite", "now", new_id=False, wrote=hold)
    for connection in held:
        connection.close()
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["lock"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_backup_leaves_no_store(tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it is damaged; the sound one is restored into the same folder afterwards."""
    filled(tmp_path / "old", kind)
    monkeypatch.setattr(backup, "BLOCK_BYTES", 100)
    data = backup_of(tmp_path / "old")
    for end in (len(data) - 1, len(data) // 2):
        with pytest.raises(BadBackup):
            restore(data[:end], tmp_path / "new", kind)
        assert [each.name for each in (tmp_path / "new").iterdir()] == ["lock"]
    assert restore(data, tmp_path / "new", kind) == 90


def test_the_id_of_the_service_may_be_left_out(tmp_path: Path) -> None:
    """A copy beside the first is another service; everything else is the same."""
    filled(tmp_path / "old", "rocksdb")
    store = open_store(settings(tmp_path / "old", "rocksdb"))
    assert store.compare_and_set(keys.service("id"), None, b"s-1")
    store.close()
    data = backup_of(tmp_path / "old")
    restore(data, tmp_path / "same")
    restore(data, tmp_path / "copy", new_id=True)
    same, copy = rows_of(tmp_path / "same"), rows_of(tmp_path / "copy")
    assert (keys.service("id"), b"s-1") in same
    assert copy == [row for row in same if row[0] != keys.service("id")]


KILLED = """
    import os, sys
    from pathlib import Path
    from fairlead_messaging.server.backup import Decoder
    from fairlead_messaging.server.io.stores import offline_store
    blocks = 0
    def wrote(rows):
        global blocks
        blocks += 1
        if blocks == int(sys.argv[3]):
            os.kill(os.getpid(), 9)
    with open(sys.argv[1], "rb") as file:
        offline_store.restore(Decoder(file), Path(sys.argv[2]), sys.argv[4], "now", new_id=False, wrote=wrote)
"""


@pytest.mark.process
@pytest.mark.parametrize("kind", KINDS)
def test_killed_in_the_middle_there_is_no_store(tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path / "old", kind)
    monkeypatch.setattr(backup, "BLOCK_BYTES", 100)
    (tmp_path / "backup").write_bytes(backup_of(tmp_path / "old"))
    command = [sys.executable, "-c", textwrap.dedent(KILLED)]
    done = subprocess.run([*command, str(tmp_path / "backup"), str(tmp_path / "new"), "3", kind], timeout=100)
    assert done.returncode == -9
    assert (tmp_path / "new" / RESTORING).exists()
    with pytest.raises(offline_store.NoStore):
        offline_store.kind_of(tmp_path / "new")
    assert restore((tmp_path / "backup").read_bytes(), tmp_path / "new", kind) == 90
    assert not (tmp_path / "new" / RESTORING).exists()
    assert rows_of(tmp_path / "new") == rows_of(tmp_path / "old")


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    filled(tmp_path / "old", "sqlite")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=f"{tmp_path / 'file'}"):
        restore(backup_of(tmp_path / "old"), tmp_path / "file")
