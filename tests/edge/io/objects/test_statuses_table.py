"""Reported statuses among the facts of the file: damage costs the one that is damaged, and older files have none."""

from __future__ import annotations

from pathlib import Path

import apsw
import msgspec
from tests.support.edges.held import config_map, put

from fairlead_edge.io.objects import statuses_table
from fairlead_edge.io.objects.sqlite_metastore import FILE_NAME, SqliteMetastore
from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.statuses.patch import StatusPatch
from fairlead_wire import message
from fairlead_wire.objects import digest

KIND = Kind(group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True)
RULES = msgspec.json.encode([message.StatusRule(rule="r", kind="ConfigMap", allowed=True)])


def opened(folder: Path) -> SqliteMetastore:
    return SqliteMetastore(folder, node="edge-1", bytes_max=1 << 24, wall_milliseconds=1000)


async def reported(folder: Path) -> None:
    """A file with two objects and what is reported of them."""
    store = opened(folder)
    await store.apply([put(config_map(name)) for name in "ab"], now=1.0)
    await store.statuses.replace_rules(RULES, digest.content_digest(RULES))
    for name in "ab":
        asked = StatusPatch(operation="Update", manager="me", status={"of": name})
        await store.statuses.patch(("", "configmaps", "shop", name), "v1", KIND, asked, 1.0)
    await store.close()


def change(folder: Path, statement: str) -> None:
    connection = apsw.Connection(str(folder / FILE_NAME))
    connection.execute(statement)
    connection.close()


async def test_one_that_the_disk_changed_is_none(tmp_path: Path) -> None:
    await reported(tmp_path)
    name = statuses_table.name_of(("", "configmaps", "shop", "a"))
    change(tmp_path, f"UPDATE facts SET value = x'00' WHERE name = '{name}'")
    store = opened(tmp_path)
    assert [line.key[3] for line in await store.statuses.lines()] == ["b"]
    held, _ = await store.select("", "configmaps")
    assert [each.status for each in held] == [b"", b'{"of":"b"}']
    assert (await store.get("", "configmaps", "shop", "a")) == held[0]
    await store.close()


async def test_rules_that_the_disk_changed_are_told_again(tmp_path: Path) -> None:
    await reported(tmp_path)
    change(tmp_path, f"UPDATE facts SET value = x'00' WHERE name = '{statuses_table.RULES}'")
    store = opened(tmp_path)
    assert store.statuses.known.digest == ""
    await store.close()


async def test_a_salvaged_file_keeps_them(tmp_path: Path) -> None:
    await reported(tmp_path)
    change(tmp_path, "DROP TABLE kinds")
    store = opened(tmp_path)
    assert store.salvaged and [line.key[3] for line in await store.statuses.lines()] == ["a", "b"]
    await store.close()
