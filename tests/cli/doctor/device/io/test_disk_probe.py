"""The disk of a folder, measured: an ordinary one, a full one, a read-only one."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.support.small_disk import small_disk

from fairlead_cli.doctor.device import disk

MIB = 1024 * 1024


def test_an_ordinary_folder_is_measured_and_left_as_it_was(tmp_path: Path) -> None:
    """A few small writes, and no file stays behind."""
    (tmp_path / "outbox.db").write_bytes(bytes(5000))
    (tmp_path / "outbox.db-wal").write_bytes(bytes(1000))
    found = disk.probe(tmp_path, MIB)
    assert found.exists and not found.error and found.store_bytes == 6000 and found.free_bytes > 0
    assert 1 <= len(found.fsync_seconds) <= disk.WRITES
    assert sorted(each.name for each in tmp_path.iterdir()) == ["outbox.db", "outbox.db-wal"]


def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    """The room is that of the folder above it."""
    found = disk.probe(tmp_path / "a" / "b", MIB)
    assert not found.exists and found.free_bytes > 0 and not found.fsync_seconds


@pytest.mark.process
def test_a_full_and_a_read_only_disk(tmp_path: Path) -> None:
    """Real ones."""
    with small_disk(tmp_path / "disk", MIB) as small:
        small.fill()
        found = disk.probe(small.path, MIB)
        assert found.error == errno.ENOSPC and found.free_bytes == 0
        with small.read_only():
            assert disk.probe(small.path, MIB).error == errno.EROFS
