"""Looks at the disk of the agent's folder: its room, whether it can be written, and how long an fsync takes."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path
from typing import Final

from fairlead_cli.doctor.device.disk import Disk

PREFIX: Final = ".doctor-"
WRITES: Final = 16
WRITE_BYTES: Final = 4096
WRITING_SECONDS: Final = 2.0
"""A slow disk is asked fewer times."""


def look(data_dir: Path, max_bytes: int) -> Disk:
    """``max_bytes`` is what the settings allow the store."""
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
    """A file of our own, overwritten in place and removed."""
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
