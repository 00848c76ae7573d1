"""What the console costs at 5,000 nodes: page load, memory of hub and tab, CPU of a survey and of 100 open pages.

.venv/bin/python -m benchmarks.downstream.console_load              # prints the figures of docs/howto/console.md
.venv/bin/python -m benchmarks.downstream.console_load --pictures docs/howto
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from pathlib import Path

import aiohttp
from playwright.async_api import Page
from tests.support.browser import chromium, watched
from tests.support.hubs.console import TOPICS, Served, fleet, serving

NODES, VIEWERS, SECONDS = 5000, 100, 20
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> float:
    """MB of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6


async def loads(page: Page, url: str) -> float:
    """Milliseconds until the page is complete, the middle of nine."""
    found = []
    for _ in range(9):
        begun = time.monotonic()
        await page.goto(url)
        await page.locator("#live").get_by_text("Live").wait_for()
        found.append((time.monotonic() - begun) * 1000)
    return sorted(found)[4]


async def viewers(served: Served) -> float:
    """CPU seconds a second of this process with 100 pages open, while ten nodes change every second."""
    names = sorted(served.core.hub.open_sessions.by_node)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        url = f"{served.url}/console/stream?wants=nodes,totals,attention,queues,topics,events&after="
        answers = [await session.get(url + served.console.source.ring.last_id) for _ in range(VIEWERS)]
        drains = [asyncio.create_task(answer.read()) for answer in answers]
        await asyncio.sleep(3)
        cpu = time.process_time()
        for second in range(SECONDS):
            for at in range(10):
                served.core.annotate(names[(second * 10 + at) % len(names)], paused=f"turn {second}")
            await asyncio.sleep(1)
        used = (time.process_time() - cpu) / SECONDS
        for drain in drains:
            drain.cancel()
    return used


async def main(pictures: Path | None) -> None:
    core = fleet(NODES)
    loop = asyncio.get_running_loop()
    began = loop.time() - core.now
    async with serving(core, clock=lambda: loop.time() - began) as served, chromium() as browser:
        served.console.topics.seen = TOPICS  # as a look at messaging would find
        served.happened()
        before = resident()
        await served.console.source.nodes()
        source = served.console.source
        print(f"survey of {NODES} nodes: {source.spent * 1000:.0f} ms CPU; memory +{resident() - before:.1f} MB")
        for path in ("", "nodes"):
            async with watched(browser, f"{served.url}/console/{path}") as page:
                took = await loads(page, f"{served.url}/console/{path}")
                heap = await page.evaluate("performance.memory.usedJSHeapSize / 1e6")
                print(f"/console/{path}: {took:.0f} ms until it is live; script memory of the tab {heap:.1f} MB")
        if pictures is not None:
            await draw(served, browser, pictures)
            return
        print(f"{VIEWERS} open pages: {await viewers(served) * 100:.1f} % of one CPU, both ends in one process")
        print(f"memory of the process with the fleet: {resident():.0f} MB")


async def draw(served: Served, browser: object, folder: Path) -> None:
    """The pictures of the page in the docs."""
    for name, path, scheme in (("console-overview", "", "light"), ("console-nodes", "nodes", "dark")):
        async with watched(browser, f"{served.url}/console/{path}", height=760, scheme=scheme) as page:  # type: ignore[arg-type]
            await page.locator("#live").get_by_text("Live").wait_for()
            if path:
                await page.get_by_role("button", name="Parked").click()
            await page.wait_for_timeout(1500)
            await page.screenshot(path=folder / f"{name}.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path)
    asyncio.run(main(parser.parse_args().pictures))
