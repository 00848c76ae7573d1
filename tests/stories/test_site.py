"""The site as its readers have it: built by `make docs`, opened from the disk in a real browser."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from docs.site import build
from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.support.browser import QUIET, WAIT_MS
from tests.support.processes import wait_until
from tests.support.tools import tool

pytestmark = pytest.mark.process
verify = pytest.mark.verify

# Five seconds otherwise, which a busy machine needs for a page now and then.
expect.set_options(timeout=WAIT_MS)
PAGES = ("index.html", "reference/rest.html", "reference/cli-commands.html", "explanation/cost.html", "readme.html")
AT_HOME = ("file:", "data:", "blob:", "about:")


def make(out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "docs.site.build", "--as-committed", "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True, cwd=build.ROOT, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder."""
    out = tmp_path_factory.mktemp("site")
    done = make(out)
    assert done.returncode == 0, done.stderr
    assert "links checked" in done.stdout and "code blocks" in done.stdout
    return out / "site"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=tool("chromium"), chromium_sandbox=False, args=list(QUIET), timeout=3 * WAIT_MS
        )
        yield launched
        launched.close()


class Reader:
    """A page with what went wrong on it, and what it fetched from elsewhere."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.set_default_timeout(WAIT_MS)
        self.troubles: list[str] = []
        page.on("console", lambda said: self.troubles.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("request", self._asked)

    def _asked(self, request: object) -> None:
        url = str(getattr(request, "url", ""))
        if not url.startswith(AT_HOME):
            self.troubles.append(f"fetched {url}")


def test_every_page_is_there_and_names_nothing_to_fetch(site: Path) -> None:
    """With the generator's own strictness about pages and headings."""
    for place in build.pages().values():
        text = (site / place).with_suffix(".html").read_text()
        assert "https://fonts" not in text and 'src="http' not in text, place
    assert (site / "fairlead.svg").exists() and (site / "reference" / "hub.openapi.json").exists()


@verify
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
def test_pages_are_read_without_a_network(site: Path, browser: Browser, scheme: str, width: int) -> None:
    """In both colour schemes, at a phone's width and a desk's: nothing fetched, no error, nothing too wide."""
    wanted: Literal["light", "dark"] = "dark" if scheme == "dark" else "light"
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=wanted)
    reader = Reader(context.new_page())
    for name in PAGES:
        reader.page.goto((site / name).as_uri())
        expect(reader.page.locator("h1").first).to_be_visible()
        expect(reader.page.locator("body")).to_have_attribute(
            "data-md-color-scheme", "slate" if scheme == "dark" else "default"
        )
        assert reader.page.evaluate("document.documentElement.scrollWidth") <= width, name
        sizes = "[...document.querySelectorAll('article img')].map(each => each.decode().then(() => each.naturalWidth))"
        assert all(reader.page.evaluate(f"Promise.all({sizes})")), f"{name}: a picture is not shown"
    assert not reader.troubles, "\n".join(reader.troubles)
    context.close()


@verify
def test_search_finds_a_page_from_the_disk(site: Path, browser: Browser) -> None:
    """Where a browser starts no worker; by keyboard alone."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    reader = Reader(context.new_page())
    reader.page.goto((site / "index.html").as_uri())
    expect(reader.page.locator("h1")).to_be_visible()
    field = reader.page.get_by_role("combobox").or_(reader.page.locator("input:focus"))

    def opened() -> bool:
        """A page that is shown may not listen to keys yet, and nothing tells when it does."""
        reader.page.keyboard.press("Control+k")
        try:
            expect(field.first).to_be_focused(timeout=5000)
        except AssertionError:
            return False
        return True

    wait_until("the search is open", opened, seconds=120)
    reader.page.keyboard.type("deletion guard")
    found = reader.page.get_by_text("Pause and deletion guard")
    expect(found.first).to_be_visible()
    assert not reader.troubles, "\n".join(reader.troubles)
    context.close()


def test_what_is_not_from_here_is_never_removed(tmp_path: Path) -> None:
    """`--out .` must not cost anybody their pages."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "thesis.md").write_text("years of work")
    done = make(tmp_path)
    assert done.returncode == 1 and "name another --out" in done.stderr
    assert (tmp_path / "docs" / "thesis.md").exists()


def test_a_broken_link_ends_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1, with the page, the line and the link."""
    page = tmp_path / "page.md"
    page.write_text("# A\n\n[x](missing.md)\n")
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "pages", lambda: {page: "page.md"})
    monkeypatch.setattr(sys, "argv", ["build", "--as-committed", "--out", str(tmp_path / "out")])
    assert build.main() == 1
    assert "page.md:3: missing.md: no such file" in capsys.readouterr().err
