"""The command, and the opening of the folder after it: killed at any step, the node is out of service."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.edge.io.moving import test_switch
from tests.support.joining import pki
from tests.support.kills.interruptions import Killed, Steps

from fairlead_edge.errors import OutOfService
from fairlead_edge.io import data_dir
from fairlead_edge.io.identity.identity_files import IdentityFiles
from fairlead_edge.io.moving import leave, move, switch
from fairlead_edge.io.moving.files import OUT_OF_SERVICE, LeftService, MoveFiles, MovePlan, MoveProgress
from fairlead_edge.io.moving.leave import LeaveDone, LeaveOptions
from fairlead_edge.io.moving.move import CannotMove

HUB = test_switch.OLD


class Device:
    """A node in service, with stores and an identity."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.config = folder / "edge.toml"
        self.data = folder / "data"
        self.data.mkdir(exist_ok=True)
        keys = "".join(f'{key} = "{self.data}/identity/node.pem"\n' for key in ("tls_ca", "tls_cert", "tls_key"))
        self.config.write_text(f'node = "edge-1"\nhub_url = "{HUB}"\ndata_dir = "{self.data}"\n{keys}')
        (folder / "edge-ca.crt").write_text("authority")
        for name in ("objects.db", "objects.db-wal", "outbox.db", "outbox.db.totals", "token", "link.day", "reserve"):
            (self.data / name).write_text("x" * 100)
        self.files = MoveFiles(self.data)
        self.said: dict[str, str] = {}

    async def leave(self, **wanted: Any) -> LeaveDone:
        return await leave.leave(LeaveOptions(config=self.config, **wanted), {}, self.said.__setitem__)

    def open(self) -> None:
        switch.in_force(test_switch.settings(self.data), self.data)

    def names(self) -> set[str]:
        return {path.name for path in self.data.iterdir()}

    def identify(self, authority: pki.Authority) -> None:
        own, pair = IdentityFiles.of(self.data), authority.issue("edge-1")
        own.make_folder()
        own.use(own.add(pair.key.read_bytes(), pair.certificate.read_bytes()))


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return Device(tmp_path / "device")


def agent(device: Device) -> Any:
    """Holds the folder as an agent does; with the returned function it ends."""
    lock = data_dir.lock(device.data)
    return lambda: os.close(lock)


async def asked(device: Device) -> MovePlan:
    async with asyncio.timeout(100):
        while (plan := device.files.plan()) is None:  # noqa: ASYNC110 - a file, as the agent polls it
            await asyncio.sleep(0.01)
    return plan


async def test_the_agent_is_asked_and_leaves(device: Device) -> None:
    end = agent(device)
    leaving = asyncio.create_task(device.leave(deadline_seconds=30.0, undelivered="take-along", purge=True))
    plan = await asked(device)
    assert plan == MovePlan(
        node="edge-1", since=HUB, until=OUT_OF_SERVICE, deadline_seconds=30.0, undelivered="take-along"
    )
    device.files.write_progress(MoveProgress(step="close", waiting=7, connected=False))
    device.files.switch()
    with pytest.raises(OutOfService) as raised:
        device.open()
    assert raised.value.now
    assert device.files.left() == LeftService(node="edge-1", hub=HUB, at=device.files.left().at, waiting=7)  # type: ignore[union-attr]
    assert {"objects.db", "objects.db-wal", "move"}.isdisjoint(device.names()) and "outbox.db" in device.names()
    assert not leaving.done(), "the agent holds the folder still"
    end()
    done = await leaving
    assert (
        done.left.purged
        and device.names() == {"left.json", "lock"}
        and not (device.data.parent / "edge-ca.crt").exists()
    )
    with pytest.raises(OutOfService) as raised:
        device.open()
    assert not raised.value.now and "fairlead edge join" in str(raised.value)
    assert await device.leave() == done, "the same command again is no mistake"


async def test_without_an_agent(device: Device) -> None:
    waiting = asyncio.create_task(device.leave())
    await asked(device)
    assert "start it" in device.said["agent"]
    with pytest.raises(CannotMove, match="another fairlead edge move or leave"):
        await device.leave()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert move.cancel(device.config, {}) == HUB and device.files.plan() is None
    with pytest.raises(CannotMove, match="no move is under way; nothing was changed"):
        move.cancel(device.config, {})
    await device.leave(undelivered="take-along")
    with pytest.raises(CannotMove, match="already out of service"):
        move.cancel(device.config, {})


async def test_a_move_under_way_is_not_given_up_by_it(device: Device) -> None:
    device.files.make_folder()
    device.files.ask(MovePlan(node="edge-1", since=HUB, until="wss://new:1", deadline_seconds=1.0))
    with pytest.raises(CannotMove, match="a move to wss://new:1 is under way"):
        await device.leave()


@pytest.mark.slow
async def test_killed_at_any_step_it_has_left_and_can_join_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = pki.Authority(tmp_path / "authority", "edge")
    origin = Device(tmp_path / "origin")
    origin.identify(authority)
    monkeypatch.setattr(os, "fsync", lambda file: None)  # nothing loses power here
    steps = Steps(monkeypatch, ((os, "fsync"), (os, "replace"), (Path, "unlink"), (shutil, "rmtree")))
    number = 0
    while True:
        number += 1
        shutil.rmtree(tmp_path / "device", ignore_errors=True)
        device = Device(tmp_path / "device")
        device.identify(authority)
        steps.end_at(number)
        killed = True
        try:
            await device.leave(undelivered="take-along", purge=True)
            killed = False
        except Killed:
            steps.end_at(0)
            await device.leave(undelivered="take-along", purge=True)
        steps.end_at(0)
        assert device.names() == {"left.json", "lock"}
        device.identify(authority)
        device.open()
        assert "left.json" not in device.names()
        if not killed:
            break
    assert number > 10


async def test_what_another_life_left_takes_no_identity(device: Device, tmp_path: Path) -> None:
    """Killed between its last two steps, then joined again: the plan of before is over."""
    device.files.make_folder()
    plan = MovePlan(node="edge-1", since=HUB, until=OUT_OF_SERVICE, deadline_seconds=1.0)
    device.files.ask(plan)
    device.files.switch()
    left = LeftService(node="edge-1", hub=HUB, at="2026-01-01T00:00:00Z")
    device.files.left_file.write_bytes(msgspec.json.encode(left))
    device.identify(pki.Authority(tmp_path / "authority", "edge"))
    device.open()
    assert IdentityFiles.of(device.data).current() is not None
    assert {"move", "left.json"}.isdisjoint(device.names())


def test_what_a_purge_would_delete(device: Device) -> None:
    node, folder, size = leave.bytes_kept(device.config, {})
    assert (node, folder, size) == ("edge-1", device.data, 700)
