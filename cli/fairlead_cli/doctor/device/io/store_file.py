"""Looks into a store without disturbing the agent that may be using it: read only, bounded, and leaves no file behind.

A running agent: another reader, as SQLite provides for.  None: the file alone, without the two files beside it, which
would belong to the user who runs the doctor, and lock out an agent of another user.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final
from urllib.parse import quote

import apsw

from fairlead_cli.doctor.device.store import StoreFile
from fairlead_edge.io.file_access import CLEAR_BYTES, key_name
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.io.sqlite.schema_pages import USER_VERSION

LOOKING_SECONDS: Final = 3.0
BUSY_MILLISECONDS: Final = 1_000
STEPS: Final = 20_000
"""Of SQLite's machine between two looks at the clock: a few milliseconds."""


def look(path: Path, what: str, *, limit_bytes: int, known_version: int, in_use: bool) -> StoreFile | None:
    """None when there is no such file.  ``in_use``: an agent has it open."""
    unfinished = Path(f"{path}.salvaging").exists()
    if not path.exists() and not unfinished:
        return None
    encrypted = _encrypted_version(path) if path.exists() else None
    if encrypted is not None or not path.exists():
        version, integrity, error = encrypted, "", ""
    else:
        version, integrity, error = _look(path, in_use)
    aside = Path(f"{path}.damaged")
    return StoreFile(
        what=what,
        path=str(path),
        size_bytes=sum(each.stat().st_size for each in (path, Path(f"{path}-wal")) if each.exists()),
        limit_bytes=limit_bytes,
        version=version,
        known_version=known_version,
        integrity=integrity,
        error=error,
        unfinished=unfinished,
        encrypted=encrypted is not None,
        damaged_copy=str(aside) if aside.exists() else "",
    )


def _encrypted_version(path: Path) -> int | None:
    """Its version, which lies open; None when it is not encrypted."""
    with path.open("rb") as file:
        head = file.read(CLEAR_BYTES)
    return int.from_bytes(head[USER_VERSION : USER_VERSION + 4], "big") if key_name(head) else None


def _look(path: Path, in_use: bool) -> tuple[int | None, str, str]:
    version: int | None = None
    try:
        connection = opened(path, in_use)
        try:
            [(version,)] = rows(connection, "PRAGMA user_version")
            until = time.monotonic() + LOOKING_SECONDS
            connection.set_progress_handler(lambda: time.monotonic() > until, STEPS)
            [(integrity,), *_] = rows(connection, "PRAGMA quick_check(1)")
            return version, str(integrity), ""
        finally:
            connection.close()
    except apsw.InterruptError:
        return version, "", ""
    except (apsw.Error, UnicodeDecodeError) as error:
        return version, "", str(error) or type(error).__name__


def opened(path: Path, in_use: bool) -> apsw.Connection:
    """For reading only.  Raises ``apsw.Error``."""
    query = "mode=ro" if in_use else "immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"file:{quote(str(path))}?{query}", flags=flags)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.set_busy_timeout(BUSY_MILLISECONDS)
    return connection
