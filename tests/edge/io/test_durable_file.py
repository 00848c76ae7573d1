"""A file that is replaced whole or not at all."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from fairlead_edge.io import durable_file


def test_the_file_is_replaced_with_its_mode_and_no_draft_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    durable_file.draft_of(path).write_text("half")
    for content in (b"one", b"two"):
        durable_file.replace(path, content, mode=0o640)
    assert path.read_bytes() == b"two" and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError("full"), ValueError("no pair")])
def test_what_must_not_replace_the_file_leaves_it_as_it_was(tmp_path: Path, error: Exception) -> None:
    def refuse(draft: Path) -> None:
        assert draft.read_bytes() == b"bad"
        raise error

    path = tmp_path / "a.json"
    durable_file.replace(path, b"good")
    with pytest.raises(type(error)):
        durable_file.replace(path, b"bad", check=refuse)
    assert path.read_bytes() == b"good" and list(tmp_path.iterdir()) == [path]


def test_a_draft_never_follows_a_link(tmp_path: Path) -> None:
    """Another user of the folder must not choose what is written over."""
    target = tmp_path / "other"
    target.write_text("kept")
    path = tmp_path / "a.json"
    durable_file.draft_of(path).symlink_to(target)
    durable_file.replace(path, b"new")
    assert target.read_text() == "kept" and path.read_bytes() == b"new" and not path.is_symlink()
