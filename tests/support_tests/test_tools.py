"""What a test does that needs a program which is not there."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from tests.support.tools import fetched, tool
from tests.support.topics.cassandra import BUILDER


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty home, and a PATH with java alone."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "java").symlink_to(shutil.which("true") or "/bin/true")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CACHE_HOME", "FAIRLEAD_JAVA_REGISTRY", "FAIRLEAD_TOOLS"):
        monkeypatch.delenv(name, raising=False)
    return programs


def test_a_test_is_skipped_where_its_program_is_missing(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the remedy; where tools are required it fails."""
    with pytest.raises(pytest.skip.Exception, match="mvn is not installed: make tools, or apt-get install maven"):
        tool("mvn")
    monkeypatch.setenv("FAIRLEAD_TOOLS", "required")
    with pytest.raises(pytest.fail.Exception, match="mvn is not installed"):
        tool("mvn")


@pytest.mark.process
def test_a_test_is_skipped_where_nothing_can_be_fetched(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Maven; a Maven that reaches no registry; a registry that does not answer."""
    with pytest.raises(pytest.skip.Exception, match=r"(?s)make cassandra.*mvn is not installed; install Maven"):
        fetched(BUILDER, "cassandra")
    monkeypatch.setenv("FAIRLEAD_JAVA_REGISTRY", "http://127.0.0.1:9")
    with pytest.raises(pytest.skip.Exception, match="Connection refused"):
        fetched(BUILDER, "cassandra")
    (bare / "mvn").write_text("#!/bin/sh\necho no route to the registry\nexit 1\n")
    (bare / "mvn").chmod(0o755)
    with pytest.raises(pytest.skip.Exception, match="no route to the registry"):
        fetched(BUILDER, "cassandra")
    monkeypatch.setenv("FAIRLEAD_TOOLS", "required")
    with pytest.raises(pytest.fail.Exception, match="no route to the registry"):
        fetched(BUILDER, "cassandra")


@pytest.mark.process
def test_what_came_and_is_not_what_was_pinned_fails(bare: Path) -> None:
    """Skipping would hide it."""
    (bare / "mvn").write_text(
        f"#!{sys.executable}\nimport pathlib, sys\n"
        "out = next(word.partition('=')[2] for word in sys.argv if word.startswith('-DoutputDirectory'))\n"
        "pathlib.Path(out).mkdir(parents=True)\n(pathlib.Path(out) / 'strange.jar').write_text('x')\n"
    )
    (bare / "mvn").chmod(0o755)
    with pytest.raises(AssertionError, match=r"jars without a pin in jars.sha256: strange\.jar"):
        fetched(BUILDER, "cassandra")
