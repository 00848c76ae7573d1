"""The table of every behaviour the first designs describe: its rows name code and tests that exist."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "seeds.md"
CODE = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.py)(?:::(\w+))?[^`]*`")


def rows() -> list[list[str]]:
    """The cells of each row, without heads and rules."""
    found = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        for line in PAGE.read_text().splitlines()
        if line.startswith("|")
    ]
    return [cells for cells in found if cells[0] != "statement" and not set(cells[0]) <= {"-", ":", " "}]


@functools.cache
def sources() -> dict[str, list[Path]]:
    """Every file of Python of the project, by name."""
    rooms = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith((".", "build"))]
    found: dict[str, list[Path]] = {}
    for room in rooms:
        for path in room.rglob("*.py"):
            found.setdefault(path.name, []).append(path)
    return found


def defined(path: str, name: str | None) -> bool:
    """Is there a file whose path ends so, and does it define the name?"""
    files = [file for file in sources().get(Path(path).name, []) if file.as_posix().endswith(f"/{path}")]
    wanted = re.compile(rf"(def|class) {name}\b|^{name} *[:=]", re.M)
    return any(name is None or wanted.search(file.read_text()) for file in files)


def test_every_row_says_four_things() -> None:
    """Statement, where it lives, the test that shows it, the difference and why."""
    assert len(rows()) > 100
    assert not [cells[0] for cells in rows() if len(cells) != 4 or not all(cells)]


def test_what_the_rows_name_exists() -> None:
    """Files, and what they define."""
    named = [(cells[0], *each) for cells in rows() for cell in cells[1:3] for each in CODE.findall(cell)]
    assert len(named) > 100
    assert not [each for each in named if not defined(each[1], each[2] or None)]


@pytest.mark.parametrize("path", ["tests/stories/test_seeds.py::no_such_name", "no/such/file.py"])
def test_a_name_that_is_not_there_is_found(path: str) -> None:
    """The check can fail."""
    file, _, name = path.partition("::")
    assert not defined(file, name or None)
