"""The directory with the store, whatever its kind, which only one process may use at a time.

data_dir/lock   held by the running service; names its process and since when

The kernel releases the lock when the process ends, however that happens, so a lock is never stale.  By its file the
service also notices that the directory was removed or replaced: data written to deleted files would be lost.
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
    """Holds the directory until ``close``.  Raises ``StorageError``, which names the process that holds it already.

    ``now`` (RFC 3339) is shown to others as the time since when it is held.
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
        """Whether the path still names the directory that was opened."""
        try:
            there, held = os.stat(self.path / LOCK_NAME), os.fstat(self._file)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)

    def close(self) -> None:
        """Release the directory."""
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
                f"data_dir {self.path} is in use by {holder}; stop that process, or give this service another data_dir"
            ) from None
        try:
            os.ftruncate(file, 0)
            os.pwrite(file, f"process {os.getpid()} since {self._now}\n".encode(), 0)
        except OSError:
            pass  # on a full disk the lock is held nevertheless; only its description is missing
        return file


def holder_of(lock: int) -> str:
    """Who holds the lock of a data directory, according to its file, whose descriptor is ``lock``."""
    return os.pread(lock, HOLDER_BYTES_MAX, 0).decode(errors="replace").strip() or "another process"
