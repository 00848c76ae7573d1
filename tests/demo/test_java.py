"""The Java that Spark needs is found, or one sentence says what to install."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e.demo.java import Missing, require_java

pytestmark = pytest.mark.process


def fake_java(folder: Path, version: str, *, before: str = "") -> None:
    """A java that only knows its version, and what it says before."""
    (folder / "bin").mkdir()
    (folder / "bin" / "java").write_text(f"#!/bin/sh\necho '{before}openjdk version \"{version}\"' >&2\n")
    (folder / "bin" / "java").chmod(0o755)


def test_without_java_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is started."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing, match=r"needs Java for Spark and found none; install a Java 17"):
        require_java()


def test_an_old_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark 4 would fail late and darkly with it."""
    fake_java(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Missing, match=r"found 11\.0\.2"):
        require_java()


def test_a_new_java_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """17 is the least, newer ones are welcome."""
    fake_java(tmp_path, "21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    require_java()


@pytest.mark.parametrize("version", ["17.0.9-ea", "21-ea"])
def test_output_of_java_before_its_version_is_ignored(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It repeats JAVA_TOOL_OPTIONS, with any quotes in them; a build may be named after its number."""
    fake_java(tmp_path, version, before='Picked up JAVA_TOOL_OPTIONS: -Dname="value"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    require_java()
