"""The folder with the store: one process has it at a time, whatever the kind of store.

data_dir/lock   held by the running service; names its process and since when

The kernel drops the lock with its process, however that ends, so nothing stale is left behind.  It is also how the
service notices that the folder was taken from under it: what is written to a file without a name is on no disk.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from fairlead_messaging.api.errors import StorageError

LOCK_NAME = "lock"
LOCK_MODE = 0o600
HOLDER_BYTES_MAX = 200


class ServiceDataDir:
    """Holds the folder until ``close``.  Raises ``StorageError`` when it cannot be had; it names who has it.

    ``now`` is shown to others as the beginning (RFC 3339).
    """

    def __init__(self, path: Path, now: str) -> None:
        self.path = path
        self._now = now
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"data_dir {path}: {error.strerror}") from error
        self._file = self._taken()

    def is_ours(self) -> bool:
        """Whether the folder of this name is still the one that was opened."""
        try:
            there, held = os.stat(self.path / LOCK_NAME), os.fstat(self._file)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._file)

    def _taken(self) -> int:
        try:
            file = os.open(self.path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, LOCK_MODE)
        except OSError as error:
            raise StorageError(f"data_dir {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = holder_of(file)
            os.close(file)
            raise StorageError(
                f"data_dir {self.path} is in use by {holder}; stop that, or give this service a data_dir of its own"
            ) from None
        try:
            os.ftruncate(file, 0)
            os.pwrite(file, f"process {os.getpid()} since {self._now}\n".encode(), 0)
        except OSError:
            pass  # a full disk: the lock holds all the same, and only its words are missing
        return file


def holder_of(lock: int) -> str:
    """Who holds the lock of a data directory, as its file says; ``lock`` is its descriptor."""
    return os.pread(lock, HOLDER_BYTES_MAX, 0).decode(errors="replace").strip() or "another process"
