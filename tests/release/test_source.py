"""What is released: the tree's tracked files, version and time."""

from __future__ import annotations

from pathlib import Path

import pytest

from release import source

pytestmark = pytest.mark.process


def test_time_and_commit_come_from_the_history() -> None:
    """Of this checkout; SOURCE_DATE_EPOCH wins."""
    found = source.read(environ={})
    assert found.version == "0.1.0" or found.version.count(".") == 2
    assert found.epoch > 0 and len(found.commit) in (7, 40)
    assert source.read(environ={"SOURCE_DATE_EPOCH": "86400"}).epoch == 86400


def test_bad_time_is_refused_with_a_remedy() -> None:
    with pytest.raises(source.ReleaseError, match="seconds since 1970"):
        source.read(environ={"SOURCE_DATE_EPOCH": "yesterday"})


def test_tree_without_history(tmp_path: Path) -> None:
    """An unpacked sdist builds too, with a fixed time."""
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    found = source.read(tmp_path, {})
    assert (found.version, found.commit, found.epoch) == ("1.2.3", "unknown", source.NO_GIT_EPOCH)
    assert source.tracked(tmp_path) == [Path("pyproject.toml")]


def test_staged_files_have_plain_modes_and_the_commits_time(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (tmp_path / "from" / "pyproject.toml").chmod(0o600)
    found = source.read(tmp_path / "from", {"SOURCE_DATE_EPOCH": "86400"})
    copied = source.stage(found, tmp_path / "to") / "pyproject.toml"
    assert (copied.stat().st_mode & 0o777, copied.stat().st_mtime) == (0o644, 86400)
