"""The console as the hub's app has it."""

from __future__ import annotations

import aiohttp
from tests.support.hubs.console import fleet, serving
from tests.support.hubs.hub_core import Core

from fairlead_hub.settings import HubSettings


async def test_what_the_core_reports_stands_on_the_page() -> None:
    """Events reach it also without messaging."""
    core = Core("edge-1")
    async with serving(core) as served, aiohttp.ClientSession() as session:
        core.connect()
        served.happened()
        async with session.get(f"{served.url}/console/events") as answer:
            assert "node.connected" in await answer.text()


async def test_a_hub_that_does_not_serve_says_so() -> None:
    """It starts, waits for the Lease, or stops."""
    async with serving(fleet(3), ready=False) as served, aiohttp.ClientSession() as session:
        async with session.get(f"{served.url}/console/") as answer:
            assert "waiting for the Lease" in await answer.text()
        served.health.serves()
        async with session.get(f"{served.url}/console/") as answer:
            assert "waiting for the Lease" not in await answer.text()
        served.health.stops()
        async with session.get(f"{served.url}/console/") as answer:
            assert "This hub is stopping" in await answer.text()


def test_it_is_on_unless_it_is_switched_off() -> None:
    """It shows what `/v1/…` shows, to the same people."""
    assert HubSettings(security="insecure").console.enabled
    assert not HubSettings.model_validate({"security": "insecure", "console": {"enabled": False}}).console.enabled
