"""The version before this one, out of the repository's own history, to be run beside it.

PREVIOUS is moved to the last release whenever one is made: rules about versions one apart are tested from it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PREVIOUS = "8c148db4d2596a2cac4f4f79a39cbb7125ac9a26"
"""0.1.0 before traces and packages; no version is released yet."""
ROOMS = ("wire", "operator", "edge_agent", "messaging", "ingest", "cli")
PROGRAM = "import sys; from fairlead_cli.main import main; sys.exit(main())"


def unpack(folder: Path) -> Path:
    """PREVIOUS as a tree.  Skips the test where the history does not reach back so far."""
    git = ["git", "-C", str(ROOT)]
    if (
        shutil.which("git") is None
        or subprocess.run([*git, "cat-file", "-e", PREVIOUS], capture_output=True).returncode
    ):
        pytest.skip(
            f"commit {PREVIOUS[:10]} is not in this checkout's history; fetch all of it (git fetch --unshallow)"
        )
    archive = folder / "older.tar"
    with archive.open("wb") as out:
        wanted = ["pyproject.toml", "tests/support", "tests/conftest.py", *ROOMS]
        subprocess.run([*git, "archive", PREVIOUS, *wanted], stdout=out, check=True)
    tree = folder / "older"
    with tarfile.open(archive) as tar:
        tar.extractall(tree, filter="data")
    archive.unlink()
    _describe_distribution(tree)
    return tree


def _describe_distribution(tree: Path) -> None:
    """What an installation would leave: programs ask for the version of the distribution by its name of that time."""
    project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    described = tree / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {project['version']}\n"
    )


def environ(tree: Path) -> Mapping[str, str]:
    """Python finds the packages of this tree before those that are installed."""
    return {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(str(tree / room) for room in ROOMS) + f":{tree}"}


def command(*arguments: str) -> list[str]:
    """`fairlead …` of the tree in the environment."""
    return [sys.executable, "-c", PROGRAM, *arguments]
