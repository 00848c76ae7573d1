"""Files that are replaced whole or not at all: a draft beside the file, flushed, then renamed over it."""

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
    """Write ``content`` to ``path`` for ``owner`` (user, group; None: who writes).  Raises ``OSError``.

    A crash leaves the file as it was, or as it should be.  With ``durable`` it is on disk when this returns.  ``check``
    may raise for a draft that must not replace the file.
    """
    draft = draft or draft_of(path)
    draft.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(draft, NEW_FILE, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)  # also under an umask that takes more away
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
        draft.unlink(missing_ok=True)  # a full disk gets its room back
        raise
    if durable:
        flush(path.parent)


def flush(path: Path) -> None:
    """Flush a file, or the names in a folder.  Raises ``OSError``."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
