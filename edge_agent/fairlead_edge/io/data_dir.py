"""The agent's folder: its lock, the token of local clients, and room reserved for a start on a full disk.

data_dir/lock     held by the running agent
data_dir/token    mode 0600; clients send it as ``Authorization: Bearer``
data_dir/*.db     the stores
data_dir/reserve  deleted when the disk is full at a start, because opening a store takes some room
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
from pathlib import Path
from typing import Final

from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io import durable_file, ownership
from fairlead_edge.io.sqlite.disk_space import FREE_SOME
from fairlead_wire.io import logs

FOLDER_MODE: Final = 0o700
WRITABLE_BY_OTHERS: Final = 0o022
TOKEN_MODE: Final = 0o600
TOKEN_BYTES: Final = 32
TOKEN_CHARS_MAX: Final = 1024
RESERVE_BYTES: Final = 6 * 1024 * 1024
"""Room for two write-ahead logs and what SQLite needs beside them."""
RESERVE_BYTES_MIN: Final = 512 * 1024
RESERVE_SECONDS: Final = 60.0
EPOCH_BITS: Final = 53
"""JSON readers that use doubles represent such integers exactly."""

_log = logs.get("edge.data_dir")


class DataDir:
    """Holds the folder until ``close`` (or the end of the process).  Raises ``StoreUnusable``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = lock(path)
        if path.stat().st_mode & WRITABLE_BY_OTHERS:
            # Not an error (a volume may be mounted like this), but whoever may write here can replace the token.
            _log.warning("data_dir_writable", path=str(path), reason="other users of this machine may write to it")
        with contextlib.suppress(OSError):  # the process id is only for people, and the disk may be full
            os.pwrite(self._lock, f"{os.getpid():<15}\n".encode(), 0)

    def token(self) -> str:
        """The token of local clients, created on first use.  Raises ``StoreUnusable``."""
        path = self.path / "token"
        try:
            if not path.exists():
                token = secrets.token_urlsafe(TOKEN_BYTES) + "\n"
                durable_file.replace(path, token.encode(), mode=TOKEN_MODE, draft=path.with_suffix(".new"))
            path.chmod(TOKEN_MODE)
            token = path.read_text()[:TOKEN_CHARS_MAX].strip()
        except PermissionError as error:
            raise ownership.not_permitted(path, error, give=self.path) from None
        except (OSError, UnicodeDecodeError) as error:
            raise StoreUnusable(f"{path}: {getattr(error, 'strerror', None) or error}") from error
        if not token:
            raise StoreUnusable(f"{path}: is empty; remove it, and the next start creates a new one")
        return token

    def use_reserve(self) -> None:
        """Called before the stores are opened: on a full disk, delete the reserve."""
        with contextlib.suppress(OSError):
            if self._free() < RESERVE_BYTES and (self.path / "reserve").exists():
                (self.path / "reserve").unlink()
                _log.warning("disk_full", path=str(self.path), remedy=FREE_SOME)

    def take_reserve(self, *, spare: int = 2 * RESERVE_BYTES) -> None:
        """Reserve room for a start on a full disk if at least ``spare`` bytes are free."""
        path = self.path / "reserve"
        with contextlib.suppress(OSError):
            if not path.exists() and self._free() >= spare:
                draft = path.with_suffix(".new")
                _reserve(draft, min(RESERVE_BYTES, self._free()))
                draft.replace(path)

    async def keep_reserve(self) -> None:
        """Recreate the reserve once there is room; runs until cancelled."""
        while True:
            await asyncio.sleep(RESERVE_SECONDS)
            self.take_reserve()

    def _free(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def close(self) -> None:
        """Release the folder.  The stores' logs are gone by now, and their room is reserved for the next start."""
        self.take_reserve(spare=RESERVE_BYTES_MIN)
        os.close(self._lock)


def lock(path: Path) -> int:
    """Create the folder if it is missing and lock it; returns the descriptor that holds the lock.

    Raises ``StoreUnusable``.
    """
    try:
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        opened = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, TOKEN_MODE)
    except PermissionError as error:
        raise ownership.not_permitted(path / "lock", error, give=path) from None
    except OSError as error:
        raise StoreUnusable(f"data_dir {path}: {error.strerror}") from error
    try:
        # The kernel releases the lock however the process ends; the mere presence of a file would outlive it.
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.pread(opened, 32, 0).decode(errors="replace").strip()
        os.close(opened)
        raise StoreUnusable(f"data_dir {path}: in use by another edge agent (process {owner or '?'})") from None
    return opened


def _reserve(path: Path, size: int) -> None:
    with path.open("wb") as file:
        while size >= RESERVE_BYTES_MIN:
            try:
                return os.posix_fallocate(file.fileno(), 0, size)
            except OSError:
                size //= 2
    raise OSError("no room for the reserve")


def size(file: Path) -> int:
    """Size of ``file`` in bytes; 0 if it does not exist."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def new_epoch() -> int:
    """A random number that identifies one opening of the store; never 0."""
    return secrets.randbelow((1 << EPOCH_BITS) - 1) + 1
