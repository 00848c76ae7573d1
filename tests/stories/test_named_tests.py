"""Pages that promise something name the tests that show it: these exist, and so do the metrics and events they name."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXPLANATION = ROOT / "docs" / "explanation"
PAGES = [EXPLANATION / name for name in ("failures.md", "guarantees.md", "versions.md", "threat-model.md")]
PROGRAMS = ("operator", "edge_agent", "messaging", "ingest", "wire", "cli", "charts")
TEST = re.compile(r"\[`(?P<name>\w+)`\]\((?P<path>[^)]*tests/[^)]*\.py)\)")
FILE = re.compile(r"\[[^\]]*\]\((?P<path>[^)]*tests/[^)]*\.py)\)")
WORD = re.compile(r"`([a-zA-Z]+(?:_[a-zA-Z]+)+)`")
SHOWN = "| shown by |"
"""How the head of a table ends whose rows link tests."""


def rows(text: str) -> Iterator[str]:
    """Lines of the tables that link tests, without heads and rules."""
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
        elif line.endswith(SHOWN):
            inside = True
        elif inside and set(line) - set("|-: "):
            yield line


def absent_tests(page: Path) -> list[str]:
    """Linked tests that are not defined where the link leads."""
    found = []
    for match in TEST.finditer(page.read_text()):
        file = (page.parent / match["path"]).resolve()
        wanted = re.compile(rf"^ *(?:async )?def {match['name']}\(", re.M)
        if not file.is_file() or not wanted.search(file.read_text()):
            found.append(f"{page.name}: {match['path']}::{match['name']}")
    return found


@functools.cache
def source() -> str:
    """What the programs are made of."""
    files = [path for room in PROGRAMS for path in (ROOT / room).rglob("*") if path.suffix in (".py", ".yaml", ".json")]
    return "\n".join(path.read_text() for path in files)


def known(word: str) -> bool:
    """A metric, a log event, a code or a key that a program writes; metrics stand there without prefix and ending."""
    return re.sub(r"^fairlead_(?:hub_|edge_queue_|edge_|messaging_|ingest_)|_total$", "", word) in source()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tests_that_a_page_names_exist(page: Path) -> None:
    """Under that name, in that file."""
    assert not (absent := absent_tests(page)), "\n".join(absent)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_row_links_what_shows_it(page: Path) -> None:
    """A promise without a test is a wish."""
    assert len(list(rows(page.read_text()))) >= 10
    assert not [row.split("|")[1] for row in rows(page.read_text()) if not FILE.search(row)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_says_one_sees_is_written_by_a_program(page: Path) -> None:
    """Metrics, events of logs, codes, keys."""
    words = {word for row in rows(page.read_text()) for word in WORD.findall(TEST.sub("", row))}
    assert not [word for word in sorted(words) if not known(word)]


def test_a_name_that_is_not_there_is_found(tmp_path: Path) -> None:
    """The checks can fail."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("def test_there() -> None: ...\n")
    page = tmp_path / "page.md"
    page.write_text("[`test_there`](tests/test_a.py) [`test_gone`](tests/test_a.py) [`test_x`](tests/test_b.py)\n")
    assert absent_tests(page) == ["page.md: tests/test_a.py::test_gone", "page.md: tests/test_b.py::test_x"]
    assert list(rows("| law | shown by |\n| --- | --- |\n| x | y |\n\n| a | b |\n| c | d |\n")) == ["| x | y |"]
    assert not known("no_program_writes_this_word".replace("word", "wörd"))
