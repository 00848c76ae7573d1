"""Is the agent's folder writable, is there room for a full store, and how fast is the disk?"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from fairlead_cli.doctor.examination import Finding, ok, problem, warning

FREE_BYTES_MIN: Final = 16 * 1024 * 1024
"""With less the agent cannot start: the stores' logs and the reserve need about as much."""
FSYNC_WARNING_SECONDS: Final = 0.05
FSYNC_PROBLEM_SECONDS: Final = 1.0
MIB: Final = 1024 * 1024


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """``store_bytes`` of ``max_bytes`` are in use; ``fsync_seconds``: duration of each test write."""

    path: str
    exists: bool
    free_bytes: int
    free_files: int | None
    store_bytes: int
    max_bytes: int
    error: int = 0
    """``errno`` of the first failed write; 0: none failed."""
    fsync_seconds: tuple[float, ...] = ()


def judge(disk: Disk) -> Iterator[Finding]:
    """Free space comes first: a full disk explains the other findings."""
    if not disk.exists:
        text = f"{disk.path} does not exist yet; the agent creates it on its first start"
        yield ok("disk", text)
    yield from _room(disk)
    if disk.error:
        yield _refused(disk)
    elif disk.exists:
        yield ok("disk.write", f"{disk.path} can be written")
    if disk.fsync_seconds:
        yield _speed(disk)


def _room(disk: Disk) -> Iterator[Finding]:
    free, may_grow = disk.free_bytes, max(0, disk.max_bytes - disk.store_bytes)
    text = f"{free // MIB:,} MiB are free at {disk.path}"
    if free < FREE_BYTES_MIN:
        remedy = "free up space, or move data_dir to a larger disk; until then messages are refused with 507"
        yield problem("disk.free", text, remedy)
    elif free < may_grow:
        remedy = f"free up space, or set [store] max_bytes to at most {(disk.store_bytes + free) // MIB} MiB"
        yield warning("disk.free", f"{text}, and the store may still grow by {may_grow // MIB:,} MiB", remedy)
    else:
        yield ok("disk.free", f"{text}; the store may still grow by {may_grow // MIB:,} MiB")
    if disk.free_files == 0:
        remedy = "delete files that are not needed, or recreate the file system with more inodes"
        yield problem("disk.files", f"the file system of {disk.path} has no free inodes", remedy)


def _refused(disk: Disk) -> Finding:
    match disk.error:
        case errno.EROFS:
            text, remedy = (
                "is read-only",
                "remount it read-write; if it became read-only by itself, the disk is failing",
            )
        case errno.EACCES | errno.EPERM:
            text, remedy = (
                "is not writable by this user",
                "run fairlead doctor as the agent's user, or correct the owner",
            )
        case errno.ENOSPC | errno.EDQUOT:
            text, remedy = "has no space left", "free up space, or raise the quota"
        case errno.EIO:
            text, remedy = (
                "cannot be used: the disk reports I/O errors",
                "replace the disk; see the kernel log for details",
            )
        case other:
            text, remedy = f"cannot be written: {errno.errorcode.get(other, other)}", "see the kernel log"
    return problem("disk.write", f"{disk.path} {text}", remedy)


def _speed(disk: Disk) -> Finding:
    times = sorted(disk.fsync_seconds)
    middle, slowest = times[len(times) // 2], times[-1]
    text = f"small writes: median {middle * 1000:.1f} ms, slowest of {len(times)}: {slowest * 1000:.1f} ms"
    remedy = "use a faster disk for data_dir: each publish waits for one such write"
    if middle > FSYNC_PROBLEM_SECONDS:
        return problem("disk.fsync", text, remedy)
    if middle > FSYNC_WARNING_SECONDS:
        return warning("disk.fsync", text, remedy)
    return ok("disk.fsync", text)


PREFIX: Final = ".doctor-"
WRITES: Final = 16
WRITE_BYTES: Final = 4096
WRITING_SECONDS: Final = 2.0
"""A slow disk is tested with fewer writes."""


# ── measuring the disk ────────────────────────────────────────────────────────────────────────────────────────────────


def probe(data_dir: Path, max_bytes: int) -> Disk:
    """``max_bytes``: the store's limit in the settings."""
    there = data_dir
    while not there.exists() and there != there.parent:
        there = there.parent
    room = os.statvfs(there)
    exists = there == data_dir
    error, times = _write(data_dir) if exists else (0, ())
    return Disk(
        path=str(data_dir),
        exists=exists,
        free_bytes=room.f_bavail * room.f_frsize,
        free_files=room.f_favail if room.f_files else None,
        store_bytes=sum(_size(each) for each in data_dir.glob("*.db*")) if exists else 0,
        max_bytes=max_bytes,
        error=error,
        fsync_seconds=times,
    )


def _write(folder: Path) -> tuple[int, tuple[float, ...]]:
    """Write to a temporary file, in place, and remove it."""
    times: list[float] = []
    path = ""
    try:
        handle, path = tempfile.mkstemp(prefix=PREFIX, dir=folder)
        try:
            started = time.monotonic()
            while len(times) < WRITES and time.monotonic() - started < WRITING_SECONDS:
                before = time.monotonic()
                os.pwrite(handle, os.urandom(WRITE_BYTES), 0)
                os.fsync(handle)
                times.append(time.monotonic() - before)
        finally:
            os.close(handle)
    except OSError as error:
        return error.errno or 0, tuple(times)
    finally:
        if path:
            with contextlib.suppress(OSError):
                os.unlink(path)
    return 0, tuple(times)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
