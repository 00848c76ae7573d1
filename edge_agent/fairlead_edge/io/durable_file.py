"""Atomic replacement of files: a draft is written beside the file, flushed, and renamed over it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags for a draft: never open an existing file, and never follow a link."""


def draft_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def replace(
    path: Path,
    content: bytes,
    *,
    mode: int = 0o600,
    owner: tuple[int, int] | None = None,
    draft: Path | None = None,
    durable: bool = True,
    check: Callable[[Path], None] | None = None,
) -> None:
    """Replace ``path`` by ``content``, owned by ``owner`` (user, group; None: the current user).  Raises ``OSError``.

    A crash leaves either the old file or the new one.  With ``durable`` the new one is on disk when this returns.
    ``check`` may raise for a draft that must not replace the file.
    """
    draft = draft or draft_of(path)
    draft.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(draft, NEW_FILE, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)  # independent of the umask
            if owner is not None:
                os.fchown(file.fileno(), *owner)
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        if check is not None:
            check(draft)
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)  # frees its room on a full disk
        raise
    if durable:
        flush(path.parent)


def flush(path: Path) -> None:
    """Flush a file, or a folder's entries, to disk.  Raises ``OSError``."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
