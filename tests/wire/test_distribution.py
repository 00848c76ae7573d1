"""The distribution's name is said in one place, and is the one that is installed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from tests.test_tidy import tracked

from fairlead_wire import distribution

ROOT = Path(__file__).resolve().parents[2]


def project() -> dict[str, object]:
    read: dict[str, dict[str, object]] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return read["project"]


def test_programs_ask_for_the_version_that_is_installed() -> None:
    """Remedy, after a change of the name or the version in pyproject.toml: `make dev`."""
    assert project()["name"] == distribution.NAME
    assert distribution.version() == project()["version"]


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
