"""The agent's folder: who owns it now, the token local clients show, and the opening of the store.

data_dir/lock     held by the one running agent
data_dir/token    mode 0600; clients send it as ``Authorization: Bearer``
data_dir/*.db     the stores
data_dir/reserve  room that is given up when the disk is full at a start: opening a store takes a little
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
"""Two logs and what SQLite needs beside them."""
RESERVE_BYTES_MIN: Final = 512 * 1024
RESERVE_SECONDS: Final = 60.0
EPOCH_BITS: Final = 53
"""Fits exactly into every JSON reader's number."""

_log = logs.get("edge.data_dir")


class DataDir:
    """Holds the folder until ``close`` (or the end of the process).  Raises ``StoreUnusable``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = lock(path)
        if path.stat().st_mode & WRITABLE_BY_OTHERS:
            # It works (a volume may come like this), but a user who may write here may put a token of his own in place.
            _log.warning("data_dir_writable", path=str(path), reason="other users of this machine may write to it")
        with contextlib.suppress(OSError):  # who owns it is a courtesy, and the disk may be full
            os.pwrite(self._lock, f"{os.getpid():<15}\n".encode(), 0)

    def token(self) -> str:
        """The token of local clients; made at the first call ever.  Raises ``StoreUnusable`` when it is unusable."""
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
            raise StoreUnusable(f"{path}: {error}") from error
        if not token:
            raise StoreUnusable(f"{path}: is empty; remove it and a new one is made")
        return token

    def use_reserve(self) -> None:
        """Before the stores are opened: on a full disk, give up the room that was kept for this."""
        with contextlib.suppress(OSError):
            if self._free() < RESERVE_BYTES and (self.path / "reserve").exists():
                (self.path / "reserve").unlink()
                _log.warning("disk_full", path=str(self.path), remedy=FREE_SOME)

    def take_reserve(self, *, spare: int = 2 * RESERVE_BYTES) -> None:
        """If there is plenty of space (``spare``), reserve a little for a start on a full disk."""
        path = self.path / "reserve"
        with contextlib.suppress(OSError):
            if not path.exists() and self._free() >= spare:
                draft = path.with_suffix(".new")
                _reserve(draft, min(RESERVE_BYTES, self._free()))
                draft.replace(path)

    async def keep_reserve(self) -> None:
        """Runs until cancelled: takes the reserve again once there is room."""
        while True:
            await asyncio.sleep(RESERVE_SECONDS)
            self.take_reserve()

    def _free(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def close(self) -> None:
        """Let another agent have it; the stores' logs are gone now, and their room is kept for the next start."""
        self.take_reserve(spare=RESERVE_BYTES_MIN)
        os.close(self._lock)


def lock(path: Path) -> int:
    """Make the folder where it is missing and take its lock, which closing the descriptor ends.

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
        # The kernel drops the lock with the process, however it ends; a file's mere presence would outlive it.
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
    raise OSError("no room to keep")


def size(file: Path) -> int:
    """Bytes it takes; 0 while it is not there."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def new_epoch() -> int:
    """A random number for one opening of the store; never 0."""
    return secrets.randbelow((1 << EPOCH_BITS) - 1) + 1
