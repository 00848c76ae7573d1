"""The agent's folder: one owner, a token only the owner reads."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io.data_dir import EPOCH_BITS, DataDir, lock, new_epoch, size


def test_two_agents_on_one_folder_are_one_too_many(tmp_path: Path) -> None:
    first = DataDir(tmp_path / "data")
    with pytest.raises(StoreUnusable, match=r"in use by another edge agent \(process \d+\)"):
        DataDir(tmp_path / "data")
    first.close()
    DataDir(tmp_path / "data").close()


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """Root takes it, too, and gives it to the agent's user: that must not be any file this user chose."""
    (tmp_path / "lock").symlink_to(tmp_path / "chosen")
    with pytest.raises(StoreUnusable, match="symbolic links"):
        lock(tmp_path)
    assert not (tmp_path / "chosen").exists()


def test_a_lock_file_that_was_left_behind_does_not_stop_a_start(tmp_path: Path) -> None:
    """After kill -9 the file is there and its owner is not."""
    (tmp_path / "lock").write_text("12345\n")
    DataDir(tmp_path).close()


def test_a_folder_others_may_write_to_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They could put a token of their own there."""
    DataDir(tmp_path / "mine").close()
    assert not caplog.records
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    DataDir(tmp_path / "shared").close()
    assert [record.getMessage() for record in caplog.records] == ["data_dir_writable"]


def test_the_token_is_made_once_and_readable_by_the_owner_only(tmp_path: Path) -> None:
    """Clients keep working over restarts; a mode that was widened is narrowed again."""
    folder = DataDir(tmp_path / "data")
    token = folder.token()
    path = tmp_path / "data" / "token"
    path.chmod(0o644)
    assert folder.token() == token == path.read_text().strip() and len(token) >= 40
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    folder.close()


def test_an_empty_token_is_never_accepted(tmp_path: Path) -> None:
    """An empty secret would let in everyone who sends none."""
    folder = DataDir(tmp_path)
    (tmp_path / "token").write_text("\n")
    with pytest.raises(StoreUnusable, match="is empty"):
        folder.token()
    folder.close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnusable, match=r"data_dir .*file/data: "):
        DataDir(tmp_path / "file" / "data")


def test_epochs_differ_and_fit_every_reader() -> None:
    """53 bits survive JSON readers that know only doubles."""
    found = {new_epoch() for _ in range(1000)}
    assert len(found) == 1000 and all(0 < epoch < 1 << EPOCH_BITS for epoch in found)


def test_a_file_has_a_size_also_while_it_is_not_there(tmp_path: Path) -> None:
    """Asked for at any moment, also while a store is being salvaged."""
    (tmp_path / "objects.db").write_bytes(b"x" * 7)
    assert (size(tmp_path / "objects.db"), size(tmp_path / "none")) == (7, 0)
