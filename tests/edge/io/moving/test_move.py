"""The command: joins the new hub beside the identity in use, asks the agent, and writes the settings at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.joining.join_hub import JoinHub

from fairlead_edge.io.identity.device import CannotConfigure
from fairlead_edge.io.identity.join_client import RefusedByHub
from fairlead_edge.io.moving import move, switch
from fairlead_edge.io.moving.files import MoveFiles, MoveProgress
from fairlead_edge.io.moving.move import CannotMove, MoveOptions
from fairlead_wire.identity.join_token import JoinToken

pytestmark = pytest.mark.process
OLD = "wss://old.example:10000"


class Device:
    """A node that belongs to a hub; ``agent`` plays its agent."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "edge.toml"
        self.data = folder / "data"
        self.data.mkdir()
        self.before = f'node = "shop-17"\nhub_url = "{OLD}"\ndata_dir = "{self.data}"\nsecurity = "mtls"\n'
        self.before += "".join(f'{key} = "/etc/{key}.pem"\n' for key in ("tls_ca", "tls_cert", "tls_key"))
        self.config.write_text(self.before)
        self.files = MoveFiles(self.data)
        self.said: dict[str, str] = {}

    async def move(self, hub: JoinHub, token: JoinToken | None = None, **wanted: Any) -> move.MoveDone:
        asked = MoveOptions(url=hub.url, token=token or hub.token(), config=self.config, **wanted)
        return await move.move(asked, {}, self.said.__setitem__)

    async def interrupted_move(self, hub: JoinHub) -> None:
        """The command is ended by its user while the agent moves."""
        moving = asyncio.create_task(self.move(hub))
        await self.asked()
        moving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await moving

    async def asked(self) -> Any:
        """The plan, as soon as the agent can see it."""
        async with asyncio.timeout(100):
            while (plan := self.files.plan()) is None:  # noqa: ASYNC110 - a file, as the agent polls it
                await asyncio.sleep(0.01)
        return plan

    async def switches(self) -> None:
        """The agent's part."""
        plan = await self.asked()
        self.files.write_progress(MoveProgress(step="close", waiting=3, connected=True))
        self.files.switch()
        self.files.complete(switch.moved_of(self.files, plan.since, plan.until))


@pytest.fixture
def device(tmp_path: Path) -> Device:
    folder = tmp_path / "device"
    folder.mkdir()
    return Device(folder)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[JoinHub]:
    async with JoinHub(tmp_path / "hub") as running:
        yield running


async def test_joined_switched_and_written(device: Device, hub: JoinHub) -> None:
    agent = asyncio.create_task(device.switches())
    done = await device.move(hub)
    await agent
    assert (done.node, done.since, done.until) == ("shop-17", OLD, hub.url)
    text = device.config.read_text()
    assert f'hub_url = "{hub.url}"' in text and "/etc/tls_cert.pem" not in text and "node.pem" in text
    [(header, _)] = hub.joins
    assert header.node == "shop-17"
    assert device.files.moved() is None, "the settings file counts alone from now on"
    text, again = device.config.read_text(), await device.move(hub)
    assert (again.since, again.until) == (hub.url, hub.url), "the same command again is no mistake"
    assert device.config.read_text() == text and len(hub.joins) == 1


async def test_refused_by_the_new_hub_nothing_is_asked_of_the_agent(device: Device, hub: JoinHub) -> None:
    hub.answers = [("refuse", "token_used", None)]
    with pytest.raises(RefusedByHub, match="token_used"):
        await device.move(hub)
    assert device.files.plan() is None and device.config.read_text() == device.before


async def test_given_up_it_stays_and_the_next_attempt_needs_no_new_token(device: Device, hub: JoinHub) -> None:
    moving = asyncio.create_task(device.move(hub))
    await device.asked()
    device.files.give_up(MoveProgress(step="gave up", waiting=1234))
    with pytest.raises(CannotMove, match=r"1,234 messages were not delivered.*take-along"):
        await moving
    assert device.config.read_text() == device.before
    agent = asyncio.create_task(device.switches())
    await device.move(hub, undelivered="take-along")
    await agent
    assert len(hub.joins) == 1


async def test_the_same_command_continues_and_another_is_refused(device: Device, hub: JoinHub) -> None:
    await device.interrupted_move(hub)
    with pytest.raises(CannotMove, match="is under way"):
        await move.move(MoveOptions(url="wss://third.example:1", token=hub.token(), config=device.config), {}, print)
    await device.switches()
    done = await device.move(hub)
    assert done.until == hub.url and hub.url in device.config.read_text() and len(hub.joins) == 1


async def test_cancelled_it_stays(device: Device, hub: JoinHub) -> None:
    with pytest.raises(CannotMove, match="no move is under way"):
        move.cancel(device.config, {})
    await device.interrupted_move(hub)
    assert move.cancel(device.config, {}) == OLD
    assert device.files.plan() is None and device.config.read_text() == device.before


async def test_a_move_under_way_is_not_changed_in_silence(device: Device, hub: JoinHub) -> None:
    await device.interrupted_move(hub)
    agent = asyncio.create_task(device.switches())
    await device.move(hub, undelivered="take-along")
    await agent
    assert "with --deadline 600s --undelivered stay" in device.said["under way"]


async def test_a_folder_that_is_not_there_is_a_sentence(device: Device, hub: JoinHub) -> None:
    device.data.rmdir()
    with pytest.raises(CannotMove, match=r"data_dir .*No such file or directory; run it with sudo"):
        await device.move(hub)
    with pytest.raises(CannotMove, match="No such file or directory"):
        move.cancel(device.config, {})


async def test_what_cannot_be_written_at_the_end_is_refused_at_the_beginning(device: Device, hub: JoinHub) -> None:
    asked = MoveOptions(url=hub.url, token=hub.token(), config=device.config)
    with pytest.raises(CannotConfigure, match="FAIRLEAD_EDGE_HUB_URL"):
        await move.move(asked, {"FAIRLEAD_EDGE_HUB_URL": OLD}, print)
    assert hub.joins == []
    device.config.write_text("")
    with pytest.raises(CannotMove, match="fairlead edge join"):
        await device.move(hub)
