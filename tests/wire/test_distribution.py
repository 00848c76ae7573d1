"""The distribution's name is said in one place, and is the one that is installed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from tests.test_tidy import ROOMS, tracked

from fairlead_wire import distribution

ROOT = Path(__file__).resolve().parents[2]


def project() -> dict[str, object]:
    read: dict[str, dict[str, object]] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return read["project"]


def test_programs_ask_for_the_version_that_is_installed() -> None:
    """Remedy, after a change of the name or the version in pyproject.toml: `make dev`."""
    assert project()["name"] == distribution.NAME
    assert distribution.version() == project()["version"]


def test_the_command_and_the_packages_keep_their_name() -> None:
    """Only the distribution has another one."""
    scripts = project()["scripts"]
    assert isinstance(scripts, dict) and scripts["fairlead"] == "fairlead_cli.main:main"
    assert all(package.name.startswith("fairlead_") for package in ROOMS.values())


@pytest.mark.process
def test_no_program_installs_what_another_project_calls_fairlead() -> None:
    """Neither as a requirement with extras, nor as the distribution whose version is asked for."""
    anothers = re.compile(r"""(?<![\w./-])fairlead\[[a-z{]|(version|distribution)\(['"]fairlead['"]\)""")
    assert anothers.search("pip install 'fairlead[hub]'") and anothers.search('version("fairlead")')
    assert not anothers.search(distribution.install("hub"))
    mine = {Path(__file__), ROOT / "CHANGELOG.md", ROOT / "tests/stories/test_docs.py"}
    kinds = {".py", ".md", ".toml", ".lock", ".yaml", ".sh"}
    texts = {path for path in tracked() if path.suffix in kinds} - mine
    assert not [str(path.relative_to(ROOT)) for path in sorted(texts) if anothers.search(path.read_text())]


def test_an_extra_is_added_to_what_is_installed() -> None:
    """pip finds the requirement's distribution satisfied, and fetches what the extra needs."""
    assert distribution.install("hub") == "pip install 'fairlead-kubernetes[hub]'"
