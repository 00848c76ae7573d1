"""Programs' versions, and a running agent's own account."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fairlead_cli.doctor.device import agent, disk
from fairlead_cli.doctor.device.agent import (
    File,
    Programs,
    judge_folder,
    judge_programs,
    judge_readable,
    judge_running,
    judge_secret,
)
from fairlead_edge.identity.clock import Anchor
from fairlead_edge.io.data_dir import DataDir
from fairlead_edge.io.identity import last_session
from fairlead_edge.io.identity.last_session import LastSession
from fairlead_edge.io.objects.sqlite_metastore import SqliteMetastore
from fairlead_wire.io import users

STATUS: dict[str, Any] = {"agent": "0.1.0", "link": {"state": "connected", "hub": "hub-0"}, "deadLetters": 0}


def levels(in_use: bool, status: dict[str, Any] | None, error: str = "", here: str = "0.1.0") -> list[tuple[str, str]]:
    return [(each.check, each.level) for each in judge_running(in_use, status, error, here)]


def test_versions() -> None:
    """An old SQLite is a problem, a variable that is no setting a warning."""
    good = Programs(fairlead="0.1.0", python="3.11.2", sqlite="3.46.1")
    assert [each.level for each in judge_programs(good)] == ["ok"]
    strange = Programs(fairlead="0.1.0", python="3.11.2", sqlite="3.8.0", unknown_variables=("FAIRLEAD_EGDE_NODE",))
    assert [each.level for each in judge_programs(strange)] == ["problem", "warning"]


def test_an_agent_that_refuses_a_hub_for_its_fencing_number() -> None:
    link = {"state": "connecting", "reason": "this edge has obeyed hub 901, this is 1", "followsInSeconds": 412.3}
    [found] = judge_running(True, STATUS | {"node": "edge-1", "link": link}, "", "0.1.0")
    assert (found.check, found.level) == ("agent.stale_hub", "problem")
    assert "obeyed hub 901, this is 1" in found.message
    assert "in 412 s" in found.remedy and found.remedy.endswith(": fairlead node approve edge-1")


def test_running_agents() -> None:
    assert levels(False, None) == levels(True, STATUS) == [("agent", "ok")]
    cut = STATUS | {"link": {"state": "disconnected", "reason": "refused"}, "deadLetters": 3}
    assert levels(True, cut) == [("agent", "problem"), ("agent.dead_letters", "warning")]
    assert levels(True, None, "no answer") == [("agent", "problem")]
    assert levels(True, None) == [("agent", "ok")], "it responds only over TLS: not requested"
    assert levels(True, STATUS, here="0.2.0")[0] == ("agent.version", "warning")


def test_routes_that_are_missing_or_refused_and_a_used_up_budget() -> None:
    """None of them shows in the link, and each lets messages wait or refuses them."""
    routes = {"ok": {"accepted": ["a"], "errors": []}}
    assert levels(True, STATUS | {"routes": routes}) == [("agent", "ok")]
    assert levels(True, STATUS | {"routes": {}}) == [("agent", "ok"), ("agent.routes", "warning")]
    bad = {"accepted": [], "errors": [{"route": "r", "message": "unexpected end"}]}
    held = [{"endpoint": "edge-1/$routes/held", "length": 2}, {"endpoint": "$upstream", "length": 7}]
    assert levels(True, STATUS | {"routes": routes | {"bad": bad}, "queues": held}) == [
        ("agent", "ok"), ("agent.routes", "problem"), ("agent.held", "warning")
    ]  # fmt: skip
    plan = {"usedUp": True, "bytesToday": 10, "bytesPerDay": 9, "nextDaySeconds": 60.0}
    link = {"state": "connected", "hub": "hub-0", "plan": plan}
    assert levels(True, STATUS | {"link": link}) == [("agent", "ok"), ("agent.bytes_per_day", "warning")]
    assert levels(True, STATUS | {"store": {"diskFull": True}})[1:] == [("agent.disk_full", "problem")]


# ---- who may read the key, and whose the files are ----


def file(mode: int, owner: int = 7, what: str = "tls_key") -> File:
    return File(what=what, path=f"/data/{what}", mode=mode, owner=owner)


@pytest.mark.parametrize(("mode", "level"), [(0o600, "ok"), (0o640, "warning"), (0o644, "problem"), (0o602, "problem")])
def test_a_key_is_for_its_owner(mode: int, level: str) -> None:
    found = judge_secret(file(0o100000 | mode))
    assert found.level == level and f"{mode:04o}" in found.message


@pytest.fixture
def named_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """7 is edge and 0 is root; the others have no name."""
    monkeypatch.setattr(users, "name", lambda uid: {0: "root", 7: "edge"}.get(uid, str(uid)))


@pytest.mark.usefixtures("named_users")
def test_files_of_another_user() -> None:
    """What stays behind when an agent was once run as root: the next start cannot open them."""
    inside = [file(0o600, 7, "objects.db"), file(0o600, 0, "outbox.db-shm")]
    [found] = judge_folder(file(0o700, 7, "data"), inside)
    assert found.level == "problem" and found.message.startswith(
        "owner edge of /data/data does not own 1 file in it, for example /data/outbox.db-shm (user root)"
    )
    assert found.remedy.startswith("chown -R edge ")


def test_a_folder_others_may_write() -> None:
    assert [each.level for each in judge_folder(file(0o777), [file(0o600)])] == ["warning", "ok"]


@pytest.mark.usefixtures("named_users")
def test_files_that_the_settings_name_are_for_the_agents_user() -> None:
    named = {"tls_key": "/k", "modules.tokens_file": "/m"}
    [found] = judge_readable(named, {"/m": "Permission denied"}, 999)
    assert found.level == "problem" and "modules.tokens_file /m cannot be read by user 999" in found.message
    assert "chown 999 /m" in found.remedy
    [found] = judge_readable(named, {"/m": "Permission denied"}, 7)
    assert "cannot be read by user edge, who owns" in found.message and "chown edge /m" in found.remedy
    assert [each.level for each in judge_readable(named, {}, 999)] == ["ok"]
    assert not list(judge_readable({}, {}, 999))


# ---- the folder of an agent ----


def test_the_lock_is_seen_without_taking_it(tmp_path: Path) -> None:
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
    (tmp_path / f"{disk.PREFIX}abc").touch()
    (tmp_path / "objects.db").touch()
    assert [Path(each.path).name for each in agent.files(tmp_path)] == ["objects.db"]
