"""A real file system of a few megabytes, to be filled, made read-only and unmounted.  Needs the right to mount."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

FILLING = "filling"


class SmallDisk:
    """Mounted at ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        """Use all the free space, to the last byte."""
        with (self.path / FILLING).open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def free(self) -> None:
        """Free the space again."""
        (self.path / FILLING).unlink()

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        """Nothing can be opened for writing while the block runs."""
        # The kernel refuses to remount what is open for writing; a mount of itself above it can be read-only.
        path = str(self.path)
        subprocess.run(["mount", "--bind", path, path], check=True)
        try:
            subprocess.run(["mount", "-o", "remount,bind,ro", path], check=True)
            yield
        finally:
            subprocess.run(["umount", "--lazy", path], check=True)


@contextlib.contextmanager
def small_disk(path: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """Mounted while the block runs; the test is skipped where that is not allowed."""
    path.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "fairlead-test", str(path)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a file system here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
