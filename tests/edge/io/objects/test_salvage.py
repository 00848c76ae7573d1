"""Any damage to the object store: what is served is what the hub sent, and the rest is asked for again."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest
from tests.support.dose import dose
from tests.support.edges.held import config_map, put
from tests.support.spoil import HEAD_BITS, flip, spoil

from fairlead_edge.errors import StoreDamaged, StoreUnusable
from fairlead_edge.io.encryption.keyring import DataKey
from fairlead_edge.io.encryption.sealed_files import SealedFiles
from fairlead_edge.io.file_access import PLAIN, FileAccess
from fairlead_edge.io.objects import salvage
from fairlead_edge.io.objects.sqlite_metastore import SqliteMetastore
from fairlead_edge.objects.metastore import Put, Unchanged, WriteRefused

FILES = ("objects.db", "objects.db", "objects.db-wal", "objects.db.schema", "objects.db.sealed-schema")


def opened(folder: Path, access: FileAccess = PLAIN) -> SqliteMetastore:
    return SqliteMetastore(folder, node="edge-1", bytes_max=1 << 26, wall_milliseconds=1000, access=access)


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
        assert salvage.problem(folder / "objects.db", access) == ""
    except BaseException as error:
        error.add_note(f"seed {seed}, {'killed' if killed else 'closed'}: {done}")
        raise


@pytest.mark.parametrize("seed", dose(range(30), 10))
async def test_any_damage_is_survived(tmp_path: Path, seed: int) -> None:
    """Stopped or killed: nothing else is served, and what the hub sends again is held."""
    await live(tmp_path, seed)


@pytest.mark.parametrize("seed", dose(range(100, 130), 6))
async def test_any_damage_to_an_encrypted_store_is_survived(tmp_path: Path, seed: int) -> None:
    """The same laws: damage stays where it is, and rows and salvage show it."""
    key = DataKey("0a1b2c3d", Random(seed).randbytes(32))
    await live(tmp_path, seed, SealedFiles(key, "objects.db"))


async def test_a_file_that_never_was_ours_is_refused(tmp_path: Path) -> None:
    """A foreign file is never replaced; one that was a store of ours is salvaged."""
    path = tmp_path / "objects.db"
    path.write_bytes(b"no database " * 1000)
    with pytest.raises(StoreUnusable):
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
