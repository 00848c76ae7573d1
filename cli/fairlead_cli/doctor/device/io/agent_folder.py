"""The agent's folder and the agent that may run on it: its lock, its files, its own account, and a true hello."""

from __future__ import annotations

import errno
import os
import pwd
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

from fairlead_cli.doctor.device.io import disk_probe, store_file
from fairlead_cli.doctor.device.permissions import File
from fairlead_edge.io.client import EdgeClient
from fairlead_edge.io.identity import last_session
from fairlead_edge.io.sqlite.rows import rows
from fairlead_wire import message
from fairlead_wire.errors import FairleadError
from fairlead_wire.objects import digest

LOCKS = Path("/proc/locks")
READ, EXECUTE = 4, 1


def in_use(data_dir: Path, locks: Path = LOCKS) -> bool:
    """Does a process hold the folder's lock?  By the kernel's list: trying the lock could stop a starting agent."""
    try:
        wanted = os.stat(data_dir / "lock").st_ino
        held = locks.read_text()
    except OSError:
        return False
    for line in held.splitlines():
        words = line.split()
        if "FLOCK" in words and any(word.count(":") == 2 and word.endswith(f":{wanted}") for word in words):
            return True
    return False


def file(what: str, path: Path) -> File | None:
    """None when it cannot be looked at."""
    try:
        found = path.stat()
    except OSError:
        return None
    return File(what=what, path=str(path), mode=found.st_mode, owner=found.st_uid)


def files(data_dir: Path) -> Sequence[File]:
    """What lies in the folder, not deeper, and without the file of our own that probes the disk meanwhile."""
    try:
        paths = sorted(path for path in data_dir.iterdir() if not path.name.startswith(disk_probe.PREFIX))
        return [found for path in paths if (found := file(path.name, path)) is not None]
    except OSError:
        return []


def unreadable(paths: Sequence[Path], owner: int) -> dict[str, str]:
    """Which of these files the user of this number cannot read, and why, by modes and owners (not by ACLs)."""
    if owner == 0:
        return {str(path): os.strerror(errno.ENOENT) for path in paths if not path.exists()}
    group, groups = _groups(owner)
    return {str(path): why for path in paths if (why := _why_not(path, owner, {group, *groups}))}


def _why_not(path: Path, owner: int, groups: set[int]) -> str:
    """Empty: it can be read."""
    try:
        whole = path.resolve(strict=True)
        for folder in whole.parents:
            if not _may(folder.stat(), owner, groups, EXECUTE):
                return f"{os.strerror(errno.EACCES)} (folder {folder})"
        return "" if _may(whole.stat(), owner, groups, READ) else os.strerror(errno.EACCES)
    except OSError as error:
        return error.strerror or str(error)


def _may(found: os.stat_result, owner: int, groups: set[int], bit: int) -> bool:
    shift = 6 if found.st_uid == owner else 3 if found.st_gid in groups else 0
    return bool(found.st_mode >> shift & bit)


def _groups(owner: int) -> tuple[int, Sequence[int]]:
    try:
        user = pwd.getpwuid(owner)
    except KeyError:
        return owner, ()
    return user.pw_gid, os.getgrouplist(user.pw_name, user.pw_gid)


def status(url: str, data_dir: Path) -> tuple[dict[str, Any] | None, str]:
    """What the agent says of itself, or why it does not."""
    try:
        token = (data_dir / "token").read_text()
    except OSError:
        token = None
    try:
        return EdgeClient(url, token=token, patience_seconds=0).status(), ""
    except (FairleadError, ValueError) as error:
        return None, str(error)


def hello(data_dir: Path, node: str, agent: str) -> message.Hello:
    """The one this store's agent would send; of a store that cannot be read, the one of an empty store.

    It names the store as the agent's last session did: the hub remembers that, and a certificate that ends while the
    node is away is renewed only where both remember the same.
    """
    last = last_session.read(data_dir)
    fence, entries = _held(data_dir / "objects.db")
    buckets = digest.Buckets.of(entries, digest.bits_for(len(entries)))
    return message.Hello(
        node=node,
        agent=agent,
        store_epoch=last.store_epoch if last is not None and last.store_epoch else 1,
        fence=fence,
        bits=buckets.bits,
        held=len(entries),
        root=buckets.root,
    )


def _held(path: Path) -> tuple[int, list[tuple[str, str]]]:
    if not path.exists():
        return 0, []
    try:
        connection = store_file.opened(path, in_use=False)
        try:
            fence = rows(connection, "SELECT value FROM facts WHERE name = 'fence'")
            entries = rows(connection, "SELECT uid, digest FROM objects")
        finally:
            connection.close()
    except (apsw.Error, UnicodeDecodeError):
        return 0, []
    found = fence[0][0] if fence else 0
    return int(found or 0), [(str(uid), str(content)) for uid, content in entries]
