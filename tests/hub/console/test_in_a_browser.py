"""The console in a real browser: what people see, with the keyboard, in both schemes, on a phone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, expect
from tests.support.browser import WAIT_MS, chromium, violations, watched
from tests.support.hubs.console import Served, fleet, serving, traced
from tests.support.hubs.hub_core import CONFIG_MAPS, Core

from fairlead_hub.console.frames import FrameRing

pytestmark = [pytest.mark.verify, pytest.mark.process]
EXPLAIN = "explain?node=berlin-store-0001&kind=configmap&namespace=shop&name=prices-1"
PAGES = ("", "nodes", "parked", "queues", "topics", "events", EXPLAIN)
HOSTILE = "<img src=x onerror=alert(1)>"
expect.set_options(timeout=WAIT_MS)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as found:
        yield found


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    core = fleet(300)
    loop = asyncio.get_running_loop()
    began = loop.time() - core.now
    async with serving(core, clock=lambda: loop.time() - began) as found:
        found.happened()
        yield found


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_page_is_accessible(browser: Browser, served: Served, scheme: str) -> None:
    """No finding of axe-core on any page, wide and narrow; no error, and no request elsewhere."""
    node = sorted(served.core.hub.placement.rules.nodes)[0]
    for path in (*PAGES, f"nodes/{node}"):
        for width in (390, 1200):
            async with watched(browser, f"{served.url}/console/{path}", width=width, scheme=scheme) as page:  # type: ignore[arg-type]
                await expect(page.locator("#live")).to_have_text("Live")
                assert await violations(page) == [], (path, width)
                wide = await page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, f"{path} is {wide} px wide on {width}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_traces_are_accessible(browser: Browser, scheme: str) -> None:
    """The page and a node's part of it, wide and narrow; a trace is followed from the node without script."""
    core = fleet(10)
    nodes = sorted(core.hub.placement.rules.nodes)
    loop = asyncio.get_running_loop()
    began = loop.time() - core.now
    async with serving(core, clock=lambda: loop.time() - began, spans=traced(nodes)) as served:
        for path in ("traces", f"nodes/{nodes[0]}"):
            for width in (390, 1200):
                async with watched(browser, f"{served.url}/console/{path}", width=width, scheme=scheme) as page:  # type: ignore[arg-type]
                    await expect(page.locator("#live")).to_have_text("Live")
                    assert await violations(page) == [], (path, width)
                    wide = await page.evaluate("document.documentElement.scrollWidth")
                    assert wide <= width, f"{path} is {wide} px wide on {width}"
        async with watched(browser, f"{served.url}/console/nodes/{nodes[0]}", script=False) as page:
            await page.locator("#node-traces tbody a").click()
            await expect(page.locator("#count")).to_have_text("1 of 1 traces")
            await expect(page.locator(".panel tbody tr").first).to_contain_text("observe")


async def test_complete_without_script(browser: Browser, served: Served) -> None:
    """Every number, the filter, and the pages of the table."""
    async with watched(browser, f"{served.url}/console/", script=False) as page:
        await expect(page.locator("#totals")).to_contain_text("of 300")
        await expect(page.locator("#attention")).to_contain_text("store_full")
        await expect(page.locator("#live")).to_be_hidden()
        await page.get_by_role("link", name="Nodes", exact=True).click()
        await page.get_by_label("Search").fill("ulm store 0003")
        await page.get_by_role("button", name="Filter").click()
        await expect(page.locator("#count")).to_have_text("1 of 300 nodes")
        await page.get_by_role("link", name="ulm-store-0003").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("ulm-store-0003")


async def test_a_change_is_seen_without_reloading(browser: Browser) -> None:
    """A node connects, an object is parked, an event is shown; and with a hostile name nothing is run."""
    core = Core("edge-1").rule(CONFIG_MAPS)
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with (
        serving(core, clock=lambda: loop.time() - began) as served,
        watched(browser, f"{served.url}/console/") as page,
    ):
        await expect(page.locator("#live")).to_have_text("Live")
        await expect(page.locator("#attention")).to_contain_text("Nothing needs attention")
        core.put("a")
        edge = core.connect()
        edge.nack(edge.sent()[0], code="store_full", reason=HOSTILE)
        served.happened()
        await expect(page.locator("#attention")).to_contain_text(HOSTILE)
        await expect(page.locator("#events")).to_contain_text("object.parked")
        await expect(page.locator("#totals")).to_contain_text("1of 1")
        assert await page.locator("main img").count() == 0
        await page.get_by_role("button", name="Live").click()
        await expect(page.locator("#live")).to_have_text("Paused")
        await expect(page.get_by_text("Updates are paused.")).to_be_visible()


async def test_five_thousand_nodes_with_the_keyboard(browser: Browser) -> None:
    """Search, sort and scroll; only the rows that are seen are in the page; a change keeps the focus where it is."""
    core = Core(*(f"edge-{number:04}" for number in range(5000))).rule(CONFIG_MAPS)
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with (
        serving(core, clock=lambda: loop.time() - began) as served,
        watched(browser, f"{served.url}/console/nodes") as page,
    ):
        await expect(page.locator("#count")).to_have_text("5,000 of 5,000 nodes")
        await expect(page.locator("#live")).to_have_text("Live")
        assert await page.locator("#rows tbody tr").count() < 60
        await expect(page.locator("#rows")).to_have_attribute("aria-rowcount", "5001")
        await page.locator("#rows tbody a").first.focus()
        await page.keyboard.press("End")
        await expect(page.locator(":focus")).to_have_text("edge-4999")
        await page.keyboard.press("ArrowUp")
        await page.keyboard.press("PageUp")
        await page.keyboard.press("Home")
        await page.keyboard.press("ArrowDown")
        await expect(page.locator(":focus")).to_have_text("edge-0001")
        core.connect("edge-0001")
        await expect(page.locator("tr[data-name=edge-0001]")).to_contain_text("In sync")
        await expect(page.locator(":focus")).to_have_text("edge-0001")
        await page.get_by_label("Search").fill("edge 499")
        await expect(page.locator("#count")).to_have_text("15 of 5,000 nodes")
        await page.get_by_label("Search").fill("")
        await page.get_by_role("button", name="State").click()
        await expect(page.locator("#rows tbody a").first).to_have_text("edge-0001")
        await page.get_by_label("State", exact=True).select_option("sync")
        await expect(page.locator("#count")).to_have_text("1 of 5,000 nodes")
        assert page.url.endswith("?state=sync")
        await page.locator("#rows tbody a").first.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text("edge-0001")


async def test_it_comes_back_after_a_break(browser: Browser) -> None:
    """The stream ends; what changed meanwhile is there, and no name of an agent can look like another."""
    core = Core("edge-1").rule(CONFIG_MAPS)
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with (
        serving(core, clock=lambda: loop.time() - began) as served,
        watched(browser, f"{served.url}/console/nodes") as page,
    ):
        await expect(page.locator("#live")).to_have_text("Live")
        for listener in served.console.pages.streams.listeners():
            listener.end()
        core.node("edge-2")
        core.connect("edge-2", agent="edge\u202e1.0")
        await expect(page.locator("#count")).to_have_text("2 of 2 nodes")
        await expect(page.locator("tr[data-name=edge-2] .agent")).to_have_text("edge\\u202e1.0")
        await expect(page.locator("#live")).to_have_text("Live")


async def test_a_node_in_depth_follows_its_node(browser: Browser) -> None:
    """Until it is gone; then the page says so.  A change that arrives late does not set the clock back."""
    core = Core("edge-1", "edge-2").rule(CONFIG_MAPS)
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with serving(core, clock=lambda: loop.time() - began) as served, await browser.new_page() as page:
        page.set_default_timeout(WAIT_MS)
        await page.goto(f"{served.url}/console/nodes/edge-1")
        await expect(page.locator("#live")).to_have_text("Live")
        ages = await page.evaluate(
            """async () => {
                const found = await import(document.querySelector("script").src.replace("console.js", "ages.js"));
                found.clockAt(9e9);
                found.clockAt(9e9 - 300);
                return found.age(9e9 - 600);
            }"""
        )
        assert ages.startswith("10 min"), ages
        core.connect("edge-1")
        await expect(page.locator("#about")).to_contain_text("In sync")
        core.hub.cluster.drop_node("edge-1", core.now)
        await expect(page.get_by_role("main")).to_contain_text("There is no Node edge-1 with label")


async def test_a_page_follows_a_hub_that_was_started_again(browser: Browser) -> None:
    """It says of which life of the hub its numbers are."""
    core = Core("edge-1")
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with (
        serving(core, clock=lambda: loop.time() - began) as served,
        watched(browser, f"{served.url}/console/nodes") as page,
    ):
        await expect(page.locator("#live")).to_have_text("Live")
        await expect(page.locator("#content")).not_to_contain_text("fence 41")
        core.hub.raise_fence(41)
        served.console.source.ring = FrameRing("another run")
        for listener in served.console.pages.streams.listeners():
            listener.end()
        await expect(page.locator("#content")).to_contain_text("fence 41")
        await expect(page.locator("#count")).to_have_text("1 of 1 nodes")
