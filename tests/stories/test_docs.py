"""The documentation: links lead somewhere, and each page can be found; `test_site.py` builds and reads the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.site import build, figures, picture
from tests.support.pages import KINDS, blocks, pages

_COMMAND = re.compile(r"^\S(?:'[^']*'|\\\n|[^\n])*", re.MULTILINE)
"""A command that begins a line, with its continuation lines."""


@pytest.mark.slow
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


def test_each_row_of_a_table_belongs_to_one() -> None:
    """An empty line ends a table: what follows would be shown as it is written, with its bars."""
    alone = []
    for page in build.pages():
        lines = [line if prose else "" for _, line, prose in build.outside_fences(page.read_text())]
        for above, line, below in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
            if line.startswith("|") and not above.startswith("|") and set(below) - set("|-: \n"):
                alone.append(f"{page.name}: {line[:60]}")
    assert not alone


def test_no_page_installs_what_another_project_calls_fairlead() -> None:
    """Nor what nobody does yet: we are on no public package index, so the wheel is named by its file."""
    by_name = re.compile(r"pip install [^`\n]*?(?<![\w./-])fairlead(-kubernetes)?(?![\w.-])")
    assert by_name.search("pip install 'fairlead[hub]'") and by_name.search("pip install fairlead-kubernetes")
    assert not by_name.search("pip install ./fairlead-0.1.whl")
    pages = [page for page in build.pages() if page.name != "CHANGELOG.md"]
    assert not [page.name for page in pages if by_name.search(page.read_text())]


def test_an_answer_of_curl_does_not_run_into_what_the_next_command_prints() -> None:
    """The answers end without a line break, so curl adds one with -w, unless nothing is printed or follows."""
    live = [block for page in pages() for block in blocks(page, page.read_text()) if block.kind == "live"]
    followed = [(block, command) for block in live for command in _COMMAND.findall(block.text)[:-1]]
    quiet = re.compile(r"(?!curl)|.*(-w '\\n'|-o /dev/null| \| )", re.DOTALL)
    glued = [f"{block}: {command[:60]}" for block, command in followed if not quiet.match(command)]
    assert not glued


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
        build.sections()
    )


def test_the_picture_is_what_make_docs_draws() -> None:
    """Remedy: `make docs`."""
    assert picture.PAGE.read_text() == picture.draw()


def test_figures_count_what_was_checked() -> None:
    """Links to others apart, which are not asked."""
    text = figures.text([build.DOCS / "index.md"], ["a.md", "a.md#b", "https://example.org"])
    assert "links checked        2\n" in text and "anchors checked      1\n" in text and "elsewhere      1 (" in text
    assert set(figures.DONE_BY) == KINDS


def test_links_and_pictures_are_staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page stays a link, a document is copied, code is shown as its path, a test by its name."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text(
        "![p](p.svg) [b](b.md#x) [d](d.json) [`code.py`](../code.py) [other](../code.py) [`test_a`](../code.py)\n"
    )
    (docs / "b.md").write_text("# X\n")
    for path in (docs / "p.svg", docs / "d.json", tmp_path / "code.py"):
        path.write_text("")
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "DOCS", docs)
    monkeypatch.setattr(build, "TOP", {})
    build.stage(tmp_path / "out")
    staged = (tmp_path / "out" / "a.md").read_text()
    assert staged == "![p](p.svg) [b](b.md#x) [d](d.json) `code.py` other (`code.py`) `test_a`\n"
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"a.md", "b.md", "p.svg", "d.json"}
