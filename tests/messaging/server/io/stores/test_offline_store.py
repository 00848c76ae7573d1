"""A store is read without a byte of it changing, also after kill -9, and never under a running service."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from tests.support.topics.messaging_program import MessagingProgram

from fairlead_messaging.app import open_store
from fairlead_messaging.client.io.sync_client import Client
from fairlead_messaging.server.io.stores import offline_store
from fairlead_messaging.server.io.stores.offline_store import InUse, NoStore
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
    """Twice, and by a service afterwards."""
    filled(tmp_path / "data", kind)
    before = bytes_of(tmp_path / "data")
    for _ in range(2):
        assert len(rows(tmp_path / "data")) == 90
    assert bytes_of(tmp_path / "data") == before
    open_store(settings(tmp_path / "data", kind)).close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_running_service_is_named_and_not_disturbed(tmp_path: Path, kind: str) -> None:
    """And none starts while the tables are being read."""
    store = open_store(settings(tmp_path, kind))
    with pytest.raises(InUse, match=r"in use by process \d+ since .*; stop that service, or dump a copy"):
        rows(tmp_path)
    store.close()
    with offline_store.opened(tmp_path), pytest.raises(Exception, match="in use"):
        open_store(settings(tmp_path, kind))


def test_where_there_is_no_store_it_says_so(tmp_path: Path) -> None:
    """Or that it must be said which."""
    with pytest.raises(NoStore, match="no folder"):
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
