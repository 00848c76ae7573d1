"""The folder of an agent: its lock, its files, the hello its store would send."""

from __future__ import annotations

import os
from pathlib import Path

from fairlead_cli.doctor.device import agent, disk
from fairlead_edge.identity.clock import Anchor
from fairlead_edge.io.data_dir import DataDir
from fairlead_edge.io.identity import last_session
from fairlead_edge.io.identity.last_session import LastSession
from fairlead_edge.io.objects.sqlite_metastore import SqliteMetastore


def test_the_lock_is_seen_without_taking_it(tmp_path: Path) -> None:
    """Held, then free; a folder that is not there is free."""
    folder = DataDir(tmp_path / "data")
    assert agent.in_use(tmp_path / "data")
    folder.close()
    assert not agent.in_use(tmp_path / "data")
    assert not agent.in_use(tmp_path / "none")


async def test_the_hello_of_a_store(tmp_path: Path) -> None:
    """The fence it obeyed, and what it holds; of no store that of an empty one."""
    store = SqliteMetastore(tmp_path, node="edge-1", bytes_max=1 << 24, wall_milliseconds=1)
    await store.persist_fence(7)
    buckets = (await store.summary(0)).buckets
    await store.close()
    found = agent.hello(tmp_path, "edge-1", "0.1.0")
    assert (found.fence, found.held, found.root) == (7, 0, buckets.root)
    assert agent.hello(tmp_path / "none", "edge-1", "0.1.0").fence == 0


def test_the_hello_names_the_store_of_the_last_session(tmp_path: Path) -> None:
    """Else the hub would take the device for a copy when its certificate ends while it is away."""
    assert agent.hello(tmp_path, "edge-1", "0.1.0").store_epoch == 1
    anchor = Anchor(wall_seconds=1_800_000_000.0, boot_id="", boot_seconds=0.0)
    last_session.write(tmp_path, LastSession(store_epoch=77, time=anchor))
    assert agent.hello(tmp_path, "edge-1", "0.1.0").store_epoch == 77
    last_session.write(tmp_path, LastSession(store_epoch=0, time=anchor))  # it moved, and had no session yet
    assert agent.hello(tmp_path, "edge-1", "0.1.0").store_epoch == 1


def test_files_and_status(tmp_path: Path) -> None:
    """What is there, and why an agent does not answer."""
    (tmp_path / "token").write_text("secret")
    assert [each.what for each in agent.files(tmp_path)] == ["token"]
    assert agent.files(tmp_path / "none") == []
    status, error = agent.status("http://127.0.0.1:1", tmp_path)
    assert status is None and "no answer" in error and "secret" not in error


def test_what_another_user_cannot_read(tmp_path: Path) -> None:
    """By modes and owners, also of the folders above; root reads all that is there."""
    shut, open_, absent = tmp_path / "shut" / "key", tmp_path / "key", tmp_path / "none"
    shut.parent.mkdir(mode=0o700)
    for path in (shut, open_):
        path.write_text("x")
    os.chmod(open_, 0o600)
    mine, other = os.stat(open_).st_uid, 54_321
    assert agent.unreadable([open_, absent], 0) == {str(absent): "No such file or directory"}
    assert str(open_) not in agent.unreadable([open_], mine)
    found = agent.unreadable([shut, open_], other)
    assert all("Permission denied" in why for why in found.values()) and set(found) == {str(shut), str(open_)}


def test_the_file_that_probes_the_disk_is_none_of_the_agents(tmp_path: Path) -> None:
    """Doctor looks at both at once, perhaps as another user."""
    (tmp_path / f"{disk.PREFIX}abc").touch()
    (tmp_path / "objects.db").touch()
    assert [Path(each.path).name for each in agent.files(tmp_path)] == ["objects.db"]
