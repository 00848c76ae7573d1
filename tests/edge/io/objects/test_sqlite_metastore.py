"""What only the store on disk can get wrong; the promises both twins share are in the conformance suite."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from random import Random

import apsw
import pytest
from tests.support.dose import dose
from tests.support.edges.held import config_map, put
from tests.support.spoil import HEAD_BITS, flip, spoil

from fairlead_edge.errors import StoreDamaged, StoreUnusable
from fairlead_edge.io.encryption.keyring import DataKey
from fairlead_edge.io.encryption.sealed_files import SealedFiles
from fairlead_edge.io.file_access import PLAIN, FileAccess
from fairlead_edge.io.objects import sqlite_metastore
from fairlead_edge.io.objects.sqlite_metastore import FILE_NAME, SqliteMetastore
from fairlead_edge.objects.metastore import Absent, Put, Remove, Stored, Unchanged, WriteRefused
from fairlead_edge.objects.watch_history import HistoryExpired


def opened(folder: Path, access: FileAccess = PLAIN, *, node: str = "edge-1") -> SqliteMetastore:
    return SqliteMetastore(folder, node=node, bytes_max=1 << 26, wall_milliseconds=1000, access=access)


async def test_what_was_answered_is_in_the_file(tmp_path: Path) -> None:
    """Another connection sees it at once, and the journal mode is the durable one."""
    store = opened(tmp_path)
    await store.apply([put(config_map("a"))], now=0)
    other = apsw.Connection(str(tmp_path / FILE_NAME))
    assert other.execute("SELECT name FROM objects").fetchall() == [("a",)]
    assert other.pragma("journal_mode") == "wal"
    other.close()
    await store.close()


async def test_a_batch_shares_its_flushes_and_the_log_follows_the_order_of_versions(tmp_path: Path) -> None:
    store = opened(tmp_path)
    start = store.log.version
    outcomes = await store.apply([put(config_map(f"n-{number}")) for number in range(200)], now=0)
    assert all(isinstance(outcome, Stored) for outcome in outcomes)
    assert store.commits < 20
    assert [change.version for change in store.log.since(start)] == list(range(start + 1, start + 201))
    await store.close()


async def test_a_list_gives_out_only_versions_the_log_has_reached(tmp_path: Path) -> None:
    """A client may watch from whatever version a list gave it, also while a batch is being written."""
    store = opened(tmp_path)
    writing = asyncio.create_task(store.apply([put(config_map(f"n-{number}")) for number in range(500)], now=0))
    while not writing.done():
        held, version = await store.select("", "configmaps")
        assert store.log.version >= version
        assert len(held) == version - 1000
        store.log.since(version)
    await writing
    await store.close()


async def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / FILE_NAME))
    connection.pragma("user_version", 99)
    connection.close()
    with pytest.raises(StoreUnusable, match="version 99"):
        opened(tmp_path)


async def test_the_store_of_another_node_is_refused(tmp_path: Path) -> None:
    await opened(tmp_path, node="edge-1").close()
    with pytest.raises(StoreUnusable, match=r"'edge-1', but node is 'edge-2': correct node .* undelivered"):
        opened(tmp_path, node="edge-2")


async def test_a_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    """A disk that is not mounted is not an empty store."""
    with pytest.raises(StoreUnusable):
        opened(tmp_path / "not-mounted")


async def test_what_the_disk_changed_is_not_served_and_asked_for_again(tmp_path: Path) -> None:
    """One object is missing, the others are listed, watches begin anew, and it comes back by the hub's next word."""
    store = opened(tmp_path)
    reported: list[int] = []
    store.on_damage(reported.append)
    await store.apply([put(config_map(f"n-{number}")) for number in range(5)], now=0)
    before, summary = store.log.version, await store.summary(4)
    spoil = "UPDATE objects SET content = CAST(replace(content, 'n-2', 'n-9') AS BLOB)"
    await store.writer.submit(lambda connection: connection.execute(spoil).fetchall())
    held, version = await store.select("", "configmaps")
    assert [each.resource.name for each in held] == ["n-0", "n-1", "n-3", "n-4"]
    assert (reported, store.damaged) == ([1], 1)
    assert store.log.version == version > before
    with pytest.raises(HistoryExpired):
        store.log.since(before)
    assert await store.get("", "configmaps", "shop", "n-2") is None
    assert (await store.summary(4)).buckets.root != summary.buckets.root, "the next session shows the difference"
    [outcome] = await store.apply([put(config_map("n-2"))], now=1)
    assert isinstance(outcome, Stored)
    assert [change.version for change in store.log.since(version)] == [version + 1]
    assert (await store.summary(4)).buckets.root == summary.buckets.root
    await store.close()


async def test_a_scrub_finds_damage_in_objects_that_are_not_read(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await store.apply([put(config_map(f"n-{number}")) for number in range(600)], now=0)
    await store.scrub()
    assert store.damaged == 0
    spoil = "UPDATE objects SET stored_at = 5.5 WHERE name IN ('n-1', 'n-577')"
    await store.writer.submit(lambda connection: connection.execute(spoil).fetchall())
    await store.scrub()
    assert store.damaged == 2 and (await store.summary(0)).held == 598
    await store.close()


async def test_a_damaged_row_makes_way_for_what_the_hub_sends(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await store.apply([put(config_map("a")), put(config_map("b"))], now=0)
    await store.writer.submit(lambda connection: connection.execute("UPDATE objects SET uid = 'x'").fetchall())
    again, gone = await store.apply([put(config_map("a")), Remove(resource=put(config_map("b")).resource, uid="u")], 1)
    assert isinstance(again, Stored) and isinstance(gone, Absent)
    held, _ = await store.select("", "configmaps")
    assert [each.uid for each in held] == ["uid-a"]
    await store.close()


FILES = ("objects.db", "objects.db", "objects.db-wal", "objects.db.schema", "objects.db.sealed-schema")


async def live(folder: Path, seed: int, access: FileAccess = PLAIN) -> None:
    random = Random(seed)
    (folder / "a").mkdir()
    store = opened(folder / "a", access)
    sent: dict[str, set[bytes]] = {}
    newest: dict[str, Put] = {}
    for _ in range(random.choice((1, 5, 20))):
        puts = []
        for number in random.sample(range(60), random.choice((1, 10, 40))):
            each = put(config_map(f"n-{number}", value=random.randbytes(random.choice((4, 400, 3000))).hex()))
            puts.append(each)
            sent.setdefault(each.resource.name, set()).add(each.content)
            newest[each.resource.name] = each
        await store.apply(puts, now=1.0)
    await store.persist_fence(7)
    if killed := random.random() < 0.6:
        shutil.copytree(folder / "a", folder / "b")
    await store.close()
    folder = folder / ("b" if killed else "a")
    (folder / "objects.db-shm").unlink(missing_ok=True)
    there = [folder / name for name in FILES if (folder / name).exists()]
    done = [spoil(random.choice(there), random) for _ in range(random.choice((1, 1, 3)))]
    try:
        for _ in range(3):
            store = opened(folder, access)
            try:
                found, _ = await store.select("", "configmaps")
                assert all(each.content in sent[each.resource.name] for each in found), "served something else"
                summary = await store.summary(4)
                assert summary.held == len(found), "the hub hears of what is not there"
                outcomes = await store.apply(list(newest.values()), now=2.0)
                assert not [each for each in outcomes if isinstance(each, WriteRefused)]
                break
            except StoreDamaged:
                await store.close()
        again, _ = await store.select("", "configmaps")
        assert {each.resource.name: each.content for each in again} == {
            name: each.content for name, each in newest.items()
        }
        assert await store.fence() in (0, 7)
        assert all(isinstance(each, Unchanged) for each in await store.apply(list(newest.values()), now=3.0))
        await store.close()
        assert sqlite_metastore.find_damage(folder / "objects.db", access) == ""
    except BaseException as error:
        error.add_note(f"seed {seed}, {'killed' if killed else 'closed'}: {done}")
        raise


@pytest.mark.parametrize("seed", dose(range(30), 10))
async def test_any_damage_is_survived(tmp_path: Path, seed: int) -> None:
    await live(tmp_path, seed)


@pytest.mark.parametrize("seed", dose(range(100, 130), 6))
async def test_any_damage_to_an_encrypted_store_is_survived(tmp_path: Path, seed: int) -> None:
    key = DataKey("0a1b2c3d", Random(seed).randbytes(32))
    await live(tmp_path, seed, SealedFiles(key, "objects.db"))


async def test_a_file_that_never_was_ours_is_refused(tmp_path: Path) -> None:
    """A foreign file is never replaced; one that was a store of ours is salvaged."""
    path = tmp_path / "objects.db"
    path.write_bytes(b"no database " * 1000)
    with pytest.raises(StoreUnusable, match=FILE_NAME):
        opened(tmp_path)
    path.unlink()
    store = opened(tmp_path)
    await store.apply([put(config_map("a"))], now=0)
    await store.close()
    path.write_bytes(b"no database " * 1000)
    store = opened(tmp_path)
    assert "not a database" in store.salvaged
    assert await store.select("", "configmaps") == ([], store.log.version)
    await store.close()


@pytest.mark.slow
async def test_any_bit_of_the_head(tmp_path: Path) -> None:
    """Formats SQLite does not open or write, versions that are not there: what was held is held on."""
    for at, bit in HEAD_BITS:
        folder = tmp_path / f"{at}-{bit}"
        folder.mkdir()
        store = opened(folder)
        await store.apply([put(config_map("a"))], now=0)
        await store.close()
        flip(folder / "objects.db", at, bit)
        store = opened(folder)
        found, _ = await store.select("", "configmaps")
        assert [each.resource.name for each in found] == ["a"], (at, bit)
        await store.apply([put(config_map("b"))], now=1)
        await store.close()
        store = opened(folder)
        assert store.salvaged == ""
        await store.close()
