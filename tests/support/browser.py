"""The system's Chromium: records a page's requests, console output and errors, and the violations that axe-core finds.

async with chromium() as browser:
    async with watched(browser, url, width=390, scheme="dark") as page: …      at the end: no error, no request outside
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.async_api import Browser, Page, async_playwright
from tests.support.tools import tool

QUIET = (
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync", "--disable-background-networking",
    "--disable-component-update",
)  # fmt: skip
AXE = Path(__file__).parent / "axe-core-4.14.1" / "axe.min.js.gz"
AXE_SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
WAIT_MS = 60_000
"""A busy machine makes a page later, not wrong."""


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Skips the test where there is none."""
    program = tool("chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=str(program), chromium_sandbox=False, args=list(QUIET), timeout=3 * WAIT_MS
        )
        try:
            yield browser
        finally:
            await browser.close()


@contextlib.asynccontextmanager
async def watched(
    browser: Browser,
    url: str,
    *,
    width: int = 1200,
    height: int = 900,
    scheme: Literal["light", "dark"] = "light",
    script: bool = True,
    motion: Literal["reduce", "no-preference"] = "reduce",
) -> AsyncIterator[Page]:
    """A page in its own context; fails at the end if there were errors or requests that left the machine."""
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        java_script_enabled=script,
        reduced_motion=motion,
    )
    context.set_default_timeout(WAIT_MS)
    page, wrong = await context.new_page(), list[str]()
    page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda asked: wrong.append(asked.url) if not _is_ours(asked.url, url) else None)
    try:
        await page.goto(url)
        yield page
        assert wrong == [], f"{url}: {wrong}"
    finally:
        await context.close()


def _is_ours(asked: str, url: str) -> bool:
    parts = urlsplit(asked)
    return parts.scheme == "data" or parts.netloc == urlsplit(url).netloc


async def violations(page: Page) -> list[Any]:
    """The violations that axe-core finds, as (rule, where)."""
    source = gzip.decompress(AXE.read_bytes())
    assert hashlib.sha256(source).hexdigest() == AXE_SHA256, "axe-core was changed"
    await page.evaluate(source.decode())
    found = await page.evaluate("async () => (await axe.run()).violations.map(v => [v.id, v.nodes.map(n => n.html)])")
    assert isinstance(found, list)
    return found
