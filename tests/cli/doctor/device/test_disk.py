"""Room, rights and speed of the disk."""

from __future__ import annotations

import errno
from pathlib import Path

import msgspec
import pytest
from tests.support.small_disk import small_disk

from fairlead_cli.doctor.device import disk
from fairlead_cli.doctor.device.disk import MIB, Disk, judge

GOOD = Disk(
    path="/data", exists=True, free_bytes=900 * MIB, free_files=1000, store_bytes=200 * MIB, max_bytes=1000 * MIB,
    fsync_seconds=(0.001, 0.002, 0.004),
)  # fmt: skip


def levels(disk: Disk) -> dict[str, str]:
    return {each.check: each.level for each in judge(disk)}


def test_a_good_disk() -> None:
    assert levels(GOOD) == {"disk.write": "ok", "disk.free": "ok", "disk.fsync": "ok"}
    assert any("median 2.0 ms, slowest of 3: 4.0 ms" in each.message for each in judge(GOOD))


def test_less_room_than_the_store_may_take() -> None:
    changed = msgspec.structs.replace(GOOD, free_bytes=500 * MIB)
    assert levels(changed)["disk.free"] == "warning"
    assert any("max_bytes to at most 700 MiB" in each.remedy for each in judge(changed))
    assert levels(msgspec.structs.replace(GOOD, free_bytes=1 * MIB))["disk.free"] == "problem"
    assert levels(msgspec.structs.replace(GOOD, free_files=0))["disk.files"] == "problem"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (errno.EROFS, "is read-only"),
        (errno.EACCES, "is not writable by this user"),
        (errno.ENOSPC, "has no space left"),
        (errno.EIO, "cannot be used: the disk reports I/O errors"),
        (errno.ENOTDIR, "cannot be written: ENOTDIR"),
    ],
)
def test_a_disk_that_refuses(code: int, text: str) -> None:
    [found] = [each for each in judge(msgspec.structs.replace(GOOD, error=code)) if each.check == "disk.write"]
    assert found.level == "problem" and text in found.message and found.remedy


@pytest.mark.parametrize(("seconds", "level"), [(0.02, "ok"), (0.2, "warning"), (3.0, "problem")])
def test_speed(seconds: float, level: str) -> None:
    assert levels(msgspec.structs.replace(GOOD, fsync_seconds=(0.001, seconds, 9.0)))["disk.fsync"] == level


def test_no_folder_yet() -> None:
    assert levels(msgspec.structs.replace(GOOD, exists=False, fsync_seconds=()))["disk"] == "ok"


# ---- the disk of a folder, measured ----


def test_an_ordinary_folder_is_measured_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "outbox.db").write_bytes(bytes(5000))
    (tmp_path / "outbox.db-wal").write_bytes(bytes(1000))
    found = disk.probe(tmp_path, MIB)
    assert found.exists and not found.error and found.store_bytes == 6000 and found.free_bytes > 0
    assert 1 <= len(found.fsync_seconds) <= disk.WRITES
    assert sorted(each.name for each in tmp_path.iterdir()) == ["outbox.db", "outbox.db-wal"]


def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    found = disk.probe(tmp_path / "a" / "b", MIB)
    assert not found.exists and found.free_bytes > 0 and not found.fsync_seconds


@pytest.mark.process
def test_a_full_and_a_read_only_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", MIB) as small:
        small.fill()
        found = disk.probe(small.path, MIB)
        assert found.error == errno.ENOSPC and found.free_bytes == 0
        with small.read_only():
            assert disk.probe(small.path, MIB).error == errno.EROFS
