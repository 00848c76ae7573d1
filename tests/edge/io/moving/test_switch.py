"""What goes over with a node: identity, fence, routes, settings; killed at any step it ends at the new hub."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support.edges.held import config_map, put
from tests.support.joining import pki
from tests.support.kills.interruptions import Killed, Steps

from fairlead_edge.identity import clock
from fairlead_edge.io.identity import last_session
from fairlead_edge.io.identity.identity_files import IdentityFiles, Pending
from fairlead_edge.io.identity.last_session import LastSession
from fairlead_edge.io.moving import switch
from fairlead_edge.io.moving.files import MovedHub, MoveFiles, MovePlan
from fairlead_edge.io.objects.sqlite_metastore import SqliteMetastore
from fairlead_edge.io.outbox import store_clock
from fairlead_edge.settings import EdgeSettings

OLD, NEW = "wss://old.example:10000", "wss://new.example:10000"
ROUTES: dict[str, Any] = {
    "apiVersion": "fairlead.dev/v1alpha1",
    "kind": "EdgeRoutes",
    "metadata": {"name": "all", "uid": "uid-routes"},
}


def settings(folder: Path, hub_url: str = OLD) -> EdgeSettings:
    old = str(folder / "old.pem")
    return EdgeSettings(node="edge-1", hub_url=hub_url, data_dir=str(folder), tls_ca=old, tls_cert=old, tls_key=old)


def opened(folder: Path) -> SqliteMetastore:
    return SqliteMetastore(folder, node="edge-1", bytes_max=1 << 26, wall_milliseconds=1)


async def ready(folder: Path, authorities: Path) -> None:
    """An agent of the old cluster, after the rename that decides."""
    os.mkdir(folder)
    store = opened(folder)
    await store.apply([put(config_map("a")), put(ROUTES, plural="edgeroutes")], now=0)
    await store.persist_fence(9)
    await store.close()
    (folder / "routes.copy").write_text("of the old cluster")
    authority = pki.Authority(authorities, "new authority")
    pair = authority.issue("edge-1")
    own, old = IdentityFiles.of(folder), authority.issue("edge-1")
    own.make_folder()
    own.use(own.add(old.key.read_bytes(), old.certificate.read_bytes()))
    own.keep_pending(Pending(key=old.key.read_bytes(), request=b"of the old hub"))
    anchor = clock.anchored(
        store_clock.read(), clock.judge(store_clock.read(), None, own_not_before=None), peer_not_before=None
    )
    last_session.write(folder, LastSession(store_epoch=77, time=anchor))
    files = MoveFiles(folder)
    files.make_folder()
    files.staged.make_folder()
    files.staged.write_authorities(authority.certificate.read_bytes())
    files.staged.use(files.staged.add(pair.key.read_bytes(), pair.certificate.read_bytes()))
    files.note_staged(NEW)
    files.ask(MovePlan(node="edge-1", since=OLD, until=NEW, deadline_seconds=1.0))
    files.switch()


async def start(folder: Path, said: EdgeSettings) -> EdgeSettings:
    """As the agent opens its folder."""
    found = switch.in_force(said, folder)
    store = opened(folder)
    try:
        await switch.complete(store, folder)
    finally:
        await store.close()
    return found


async def check(folder: Path, found: EdgeSettings) -> None:
    assert (found.hub_url, found.security) == (NEW, "mtls")
    own = IdentityFiles.of(folder)
    current = own.current()
    assert current is not None and current.certificate.name == "edge-1"
    assert own.others() == [] and own.pending() is None, "nothing that a refusal could bring back"
    last = last_session.read(folder)
    assert last is not None and last.store_epoch == 0 and last.time is not None
    assert found.tls_cert == found.tls_key == str(own.link.absolute())
    assert found.tls_ca == str(own.authorities.absolute())
    store = opened(folder)
    assert await store.fence() == 0
    held, _ = await store.select("", "configmaps")
    assert [each.resource.name for each in held] == ["a"], "until the new hub has compared it"
    assert await store.select("fairlead.dev", "edgeroutes") == ([], store.log.version)
    assert [kind.plural for kind in await store.kinds()] == ["configmaps"]
    await store.persist_fence(2)
    await store.close()
    assert not (folder / "routes.copy").exists() and not (folder / "move").exists()


@pytest.mark.slow
async def test_killed_at_any_step_it_is_at_the_new_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await ready(tmp_path / "origin", tmp_path / "authority")
    monkeypatch.setattr(os, "fsync", lambda file: None)  # nothing loses power here
    steps = Steps(monkeypatch, ((os, "fsync"), (os, "replace"), (os, "symlink"), (Path, "unlink")))
    number = 0
    while True:
        number += 1
        folder = tmp_path / "data"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(tmp_path / "origin", folder, symlinks=True)
        steps.end_at(number)
        try:
            await start(folder, settings(folder))
        except Killed:
            steps.end_at(0)
            await start(folder, settings(folder))
            await check(folder, await start(folder, settings(folder)))
            continue
        steps.end_at(0)
        await check(folder, switch.in_force(settings(folder), folder))
        break
    assert number > 10


async def test_what_counts_until_the_settings_file_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    await ready(folder, tmp_path / "authority")
    found = await start(folder, settings(folder))
    assert switch.in_force(settings(folder), folder) == found
    assert MoveFiles(folder).moved() is not None
    assert switch.in_force(found, folder) == found and MoveFiles(folder).moved() is None
    MoveFiles(folder).make_folder()
    MoveFiles(folder).complete(MovedHub(since=OLD, until=NEW, tls_ca="/a", tls_pair="/b"))
    by_hand = settings(folder, "wss://third.example:10000")
    assert switch.in_force(by_hand, folder) == by_hand and MoveFiles(folder).moved() is None


async def test_without_a_move_nothing_changes(tmp_path: Path) -> None:
    said = settings(tmp_path)
    assert await start(tmp_path, said) == said
    assert not MoveFiles(tmp_path).folder.exists()
