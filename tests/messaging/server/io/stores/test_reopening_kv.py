"""A disk that fills up, becomes read-only, or goes away: the service comes back by itself and loses nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.topics.messaging import Topics, b64, serving

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.app import open_store
from fairlead_messaging.server.io import broker, committer
from fairlead_messaging.server.io.stores import reopening_kv
from fairlead_messaging.server.io.stores.data_dir import ServiceDataDir
from fairlead_messaging.server.io.stores.reopening_kv import ReopeningKV
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_messaging.server.store.ordered_kv import Batch, OrderedKV

DISK_BYTES = 48 * 1024 * 1024
PAYLOAD_BYTES = 300_000
STORES = ["rocksdb", "sqlite"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", DISK_BYTES) as mounted:
        yield mounted


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "PROBE_SECONDS", 0.0)
    monkeypatch.setattr(committer, "RETRY_AFTER_SECONDS", 0.01)


def opened(store: str, folder: Path) -> OrderedKV:
    return open_store(
        MessagingSettings(store=store, data_dir=str(folder), security="insecure")  # type: ignore[arg-type]
    )


class Acknowledged:
    """What was answered 200."""

    def __init__(self, topics: Topics) -> None:
        self.topics = topics
        self.names: list[str] = []
        self.tried = 0

    async def publish(self) -> int:
        name = f"m{self.tried:04}"
        self.tried += 1
        body: dict[str, Any] = {"messages": [b64(name.encode().ljust(PAYLOAD_BYTES))]}
        answer = await self.topics.ask("POST", "topics/t/publish", body)
        if answer.status == 200:
            self.names.append(name)
        else:
            assert answer.code in ("storage_failed",), answer
            assert answer.headers["Retry-After"]
        return answer.status

    async def seen(self, topics: Topics | None = None) -> set[str]:
        found: set[str] = set()
        start: Any = None
        while True:
            page = await (topics or self.topics).poll("t", startFrom=start, inclusive=False, limit=20)
            if not page:
                return found
            found.update(payload.strip() for payload in page.payloads)
            start = page.next_position


def everything(kv: OrderedKV) -> list[tuple[bytes, bytes]]:
    with kv.snapshot() as snapshot:
        return list(snapshot.scan(b"", b"\xff"))


async def ready(topics: Topics) -> int:
    return (await topics.ask("GET", "/readyz")).status


@pytest.mark.process
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("trouble", ["full", "gone"])
async def test_it_comes_back_by_itself(store: str, trouble: str, disk: SmallDisk) -> None:
    """While it lasts: 503, not ready, alive, a full disk readable.  Afterwards: as before, without a restart."""
    folder = disk.path / "data"
    kv = opened(store, folder)
    async with serving(kv) as topics:
        await topics.create("t")
        mine = Acknowledged(topics)
        for _ in range(10):
            assert await mine.publish() == 200
        disk.fill() if trouble == "full" else folder.rename(disk.path / "elsewhere")
        while await mine.publish() == 200:
            assert mine.tried < 100
        for _ in range(5):
            assert await mine.publish() == 503
        assert await ready(topics) == 503
        assert (await topics.ask("GET", "/healthz")).status == 200
        if trouble == "full":
            assert set(mine.names) <= await mine.seen()
        else:
            assert (await topics.ask("POST", "topics/t/poll", {})).status == 503  # another store may lie there
        disk.free() if trouble == "full" else (disk.path / "elsewhere").rename(folder)
        assert await ready(topics) == 200
        for _ in range(10):
            assert await mine.publish() == 200
        assert set(mine.names) <= await mine.seen()
    kv.close()
    again = opened(store, folder)
    async with serving(again) as topics:
        assert set(mine.names) <= await mine.seen(topics)
    again.close()


@pytest.mark.process
@pytest.mark.parametrize("store", STORES)
async def test_space_that_comes_and_goes(store: str, disk: SmallDisk) -> None:
    kv = opened(store, disk.path / "data")
    async with serving(kv) as topics:
        await topics.create("t", ttl=1)
        mine = Acknowledged(topics)
        for turn in range(4):
            assert await mine.publish() == 200
            disk.fill()
            while (await ready(topics) if turn % 2 else await mine.publish()) == 200:
                continue
            disk.free()
            assert await ready(topics) == 200
            topics.clock.forward(5000)
            await topics.broker.cleaner.clean()
    kv.close()


@pytest.mark.process
@pytest.mark.parametrize("store", STORES)
async def test_a_read_only_disk(store: str, disk: SmallDisk) -> None:
    """Refused with the system's word for it until it is over; a service that starts there says the same."""
    folder = disk.path / "data"
    kv = opened(store, folder)
    assert isinstance(kv, ReopeningKV)
    async with serving(kv) as topics:
        await topics.create("t")
        mine = Acknowledged(topics)
        assert await mine.publish() == 200
        with disk.read_only():
            kv.trouble = "a write failed"  # what is open stays writable here; a disk that failed would refuse it
            assert await mine.publish() == 503
            assert await ready(topics) == 503
            assert "Read-only" in str(kv.trouble)
            assert await mine.seen() == set(mine.names)
            with pytest.raises(StorageError, match=r"data_dir.*Read-only"):
                opened(store, disk.path / "another")
        assert await mine.publish() == 200
        assert await mine.seen() == set(mine.names)
    kv.close()


@pytest.mark.parametrize("store", STORES)
async def test_another_folder_in_its_place_is_not_taken(store: str, tmp_path: Path) -> None:
    """An empty one, or one of another service: what was acknowledged lies elsewhere."""
    folder = tmp_path / "data"
    kv = opened(store, folder)
    async with serving(kv) as topics:
        await topics.create("t")
        mine = Acknowledged(topics)
        assert await mine.publish() == 200
        other = opened(store, tmp_path / "other")
        batch = Batch()
        batch.put(b"Sid", b"another service")
        other.apply(batch)
        other.close()
        folder.rename(tmp_path / "elsewhere")
        folder.mkdir()
        assert await mine.publish() == 503
        (folder / "lock").unlink(missing_ok=True)
        folder.rmdir()
        (tmp_path / "other").rename(folder)
        assert await mine.publish() == 503
        assert await ready(topics) == 503
    kv.close()
    folder.rename(tmp_path / "other")  # an engine remembers in its process which paths it has open
    other = opened(store, tmp_path / "other")
    assert everything(other) == [(b"Sid", b"another service")]
    other.close()
    mine_again = opened(store, tmp_path / "elsewhere")
    async with serving(mine_again) as topics:
        assert set(mine.names) <= await mine.seen(topics)
    mine_again.close()


@pytest.mark.parametrize("store", STORES)
def test_a_file_removed_under_it_is_noticed_before_anything_is_acknowledged(store: str, tmp_path: Path) -> None:
    kv = opened(store, tmp_path)
    batch = Batch()
    batch.put(b"k", b"v")
    kv.apply(batch)
    (tmp_path / ("messaging.sqlite" if store == "sqlite" else "rocksdb/LOCK")).unlink()
    with pytest.raises(StorageError, match="removed or replaced"):
        kv.apply(batch)
    with pytest.raises(StorageError):
        kv.apply(batch)
    kv.close()


def test_readers_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reopening_kv, "DRAIN_SECONDS", 0.05)
    kv = opened("rocksdb", tmp_path)
    assert isinstance(kv, ReopeningKV)
    batch = Batch()
    batch.put(b"k", b"v")
    kv.apply(batch)
    reader = kv.snapshot()
    kv.trouble = "something failed"
    with pytest.raises(StorageError):
        kv.apply(batch)
    assert reader.get(b"k") == b"v"
    reader.close()
    reader.close()
    kv.apply(batch)
    assert (kv.trouble, kv.reopened, kv.get(b"k")) == ("", 1, b"v")
    kv.close()


# --- The lock: who has the folder, and who has it no longer.


SINCE = "2026-11-22T10:00:00+00:00"


def test_the_second_names_the_first(tmp_path: Path) -> None:
    first = ServiceDataDir(tmp_path, SINCE)
    with pytest.raises(StorageError, match=re.escape(f"process {os.getpid()} since {SINCE}; stop that process, or")):
        ServiceDataDir(tmp_path, SINCE)
    first.close()
    ServiceDataDir(tmp_path, SINCE).close()


def test_a_folder_that_went_and_came(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    held = ServiceDataDir(folder, SINCE)
    assert held.is_ours()
    folder.rename(elsewhere)
    assert not held.is_ours()
    ServiceDataDir(folder, SINCE).close()
    assert not held.is_ours()
    (folder / "lock").unlink()
    folder.rmdir()
    elsewhere.rename(folder)
    assert held.is_ours()
    held.close()


def test_what_cannot_be_had_is_said(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(StorageError, match="data_dir"):
        ServiceDataDir(tmp_path / "data", SINCE)
