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


def test_what_is_made_in_an_unpacked_sdist_is_not_released(tmp_path: Path) -> None:
    """Its .gitignore says what that is: `make packages` begins with a .venv of 1.7 GB."""
    (tmp_path / ".gitignore").write_text(".venv/\n*.pyc\n/.run/\n")
    (tmp_path / "code.py").write_text("")
    for name in (".venv/bin/python", "a/__init__.pyc", ".run/demo/token"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("")
    assert source.tracked(tmp_path) == [Path(".gitignore"), Path("code.py")]


def test_a_checkout_that_git_does_not_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of another owner; it would be packed with all that lies there."""
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (tmp_path / ".git").write_text("nothing that git knows\n")
    with pytest.raises(source.ReleaseError, match="git rev-parse failed: "):
        source.read(tmp_path, {})
    monkeypatch.setenv("PATH", "")
    with pytest.raises(source.ReleaseError, match="install git and try again"):
        source.read(tmp_path, {})


def test_staged_files_have_plain_modes_and_the_commits_time(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (tmp_path / "from" / "pyproject.toml").chmod(0o600)
    found = source.read(tmp_path / "from", {"SOURCE_DATE_EPOCH": "86400"})
    copied = source.stage(found, tmp_path / "to") / "pyproject.toml"
    assert (copied.stat().st_mode & 0o777, copied.stat().st_mtime) == (0o644, 86400)
