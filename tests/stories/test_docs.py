"""The documentation: links lead somewhere, each page can be found, and the site builds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from docs.site import build


def test_every_link_leads_somewhere() -> None:
    """Files and headings; addresses of others are not asked."""
    assert not (wrong := build.bad_links()), "\n".join(wrong)


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds, and neither in a block of code."""
    page = tmp_path / "page.md"
    page.write_text("# A `b` c!\n\n[x](#a-b-c) [y](missing.md)\n[z](page.md#other)\n```\n[no](link.md)\n```\n")
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "pages", lambda: {page: "page.md"})
    assert build.bad_links() == ["page.md:3: missing.md: no such file", "page.md:4: page.md#other: no such heading"]


def test_the_index_of_decisions_is_what_make_docs_writes() -> None:
    """Remedy: `make docs`."""
    assert (build.DECISIONS / "index.md").read_text() == build.decisions_index()
    numbers = [page.name[:4] for page in build.decisions()]
    assert len(numbers) == len(set(numbers)), "two decisions have one number"
    assert {number[:2] for number in numbers} <= set(build.AREAS)


def test_every_decision_is_linked_from_what_it_explains() -> None:
    """A page without a link to it is not read."""
    others = [page for page in build.pages() if build.DECISIONS not in page.parents]
    texts = "\n".join(page.read_text() for page in others)
    assert not [page.name for page in build.decisions() if page.name not in texts]


def test_every_page_is_in_the_navigation() -> None:
    """Of the sections by construction; beside them there is only the index."""
    assert {page.parent.name for page in build.pages() if page.parent not in (build.ROOT, build.DOCS)} <= set(
        build.SECTIONS
    )


@pytest.mark.process
def test_the_site_builds(tmp_path: Path) -> None:
    """With mkdocs' own strictness."""
    done = subprocess.run(
        [sys.executable, "-m", "docs.site.build", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=build.ROOT,
    )
    assert done.returncode == 0, done.stderr
    index = (tmp_path / "site" / "index.html").read_text()
    assert "The first hour" in index
    assert "https://fonts" not in index, "nothing is fetched by a reader"
