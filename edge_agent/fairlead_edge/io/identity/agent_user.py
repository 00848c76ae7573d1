"""Who will run the agent, where another user prepares its folder; and the folder's lock meanwhile."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io import data_dir
from fairlead_edge.io.identity.identity_files import Owner
from fairlead_wire.errors import FairleadError

_REMEDIES: Final = {
    "in use": "stop it first (systemctl stop fairlead-edge)",
    "Permission denied": "run it as root, or as the agent's user",
    "No space left on device": "free some room on this disk",
}


class CannotJoin(FairleadError):
    """One sentence with its remedy.  What was in use before is still in use."""


def owner_of(folder: Path, user: str) -> Owner | None:
    """Who will run the agent, where root prepares it: ``user``, else who owns the folder, else whose home it is.

    None: who runs this.  Raises ``CannotJoin``.
    """
    if user:
        try:
            found = pwd.getpwnam(user)
        except KeyError:
            raise CannotJoin(f"there is no user {user} on this machine") from None
        if os.geteuid() not in (0, found.pw_uid):
            raise CannotJoin(f"only root can give files to {user}: run it with sudo")
        return Owner(user=found.pw_uid, group=found.pw_gid)
    if os.geteuid() != 0:
        return None
    try:
        status = folder.stat()
    except OSError:
        home = next((each for each in pwd.getpwall() if each.pw_dir == str(folder)), None)
        return Owner(user=home.pw_uid, group=home.pw_gid) if home else None
    return Owner(user=status.st_uid, group=status.st_gid) if status.st_uid != 0 else None


def name_of(owner: Owner | None) -> str:
    """ "" where it is the user of this process."""
    if owner is None or owner.user == os.geteuid():
        return ""
    try:
        return pwd.getpwuid(owner.user).pw_name
    except KeyError:
        return str(owner.user)


@contextlib.contextmanager
def locked(folder: Path, owner: Owner | None) -> Iterator[None]:
    """No agent and no second join at the same time."""
    try:
        held = data_dir.lock(folder)
    except StoreUnusable as error:
        remedy = next((f"; {remedy}" for sign, remedy in _REMEDIES.items() if sign in str(error)), "")
        raise CannotJoin(f"{error}{remedy}. Nothing was sent") from None
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, held)
        if owner is not None:
            _give(folder, held, owner)
        yield


def _give(folder: Path, lock: int, owner: Owner) -> None:
    try:
        os.fchown(lock, owner.user, owner.group)
        os.chown(folder, owner.user, owner.group)
    except OSError as error:
        remedy = "run it as root, or as the owner of the folder"
        raise CannotJoin(f"{folder}: cannot be given to user {owner.user}: {error.strerror}; {remedy}") from None
