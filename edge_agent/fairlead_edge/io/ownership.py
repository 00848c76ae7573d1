"""Refuses files that belong to another user, with an error that names the file, its owner and the command to fix it.

They are checked before a store is opened, because SQLite would only report a read-only or unopenable database.
"""

from __future__ import annotations

import errno
import os
import pwd
from collections.abc import Iterable
from pathlib import Path

from fairlead_edge.errors import NotPermitted


def user_name(number: int) -> str:
    """The name of a user, or the number if it has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def refuse_foreign(folder: Path, patterns: Iterable[str]) -> None:
    """Check that the agent can read and write its files in ``folder`` and one level below.  Raises ``NotPermitted``.

    Only files that match ``patterns`` are checked: the root of a file system has a ``lost+found`` that root owns.
    """
    try:
        found = sorted(path for pattern in patterns for path in folder.glob(pattern))
        for below in [path for path in found if path.is_dir() and not path.is_symlink()]:
            found += sorted(below.iterdir())
    except PermissionError as error:
        raise not_permitted(Path(error.filename), error, give=folder) from None
    except OSError:
        return  # a file disappeared, or the disk fails: opening the stores will report it
    for path in found:
        if not os.access(path, os.R_OK | os.W_OK, effective_ids=True) and _is_foreign(path):
            raise not_permitted(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)), give=folder)


def refuse_unreadable(named: Iterable[tuple[str, str]]) -> None:
    """Check the files that settings name (pairs of setting and path).  Raises ``NotPermitted``; other errors are left
    to the code that opens the files."""
    for setting, text in named:
        path = Path(text)
        try:
            path.open("rb").close()
        except PermissionError as error:
            raise not_permitted(path, error, setting=setting) from None
        except OSError:
            continue


def not_permitted(path: Path, error: OSError, *, give: Path | None = None, setting: str = "") -> NotPermitted:
    """The error for ``path``.  ``give``: the folder to suggest for ``chown -R``; None: suggest the file alone."""
    place, owner = place_and_owner(path)
    said = f"it belongs to user {owner}" if place == path else f"folder {place} belongs to user {owner}"
    own = user_name(os.geteuid())
    command = f"chown {own} {path}"
    if give is not None:
        # A folder that could not be created, or cannot be seen, is not one to give away.
        command = f"chown -R {own} {give}" if place.is_relative_to(give) else f"install -d -m 700 -o {own} {give}"
    return NotPermitted(
        f"{f'{setting} ' if setting else ''}{path}: {os.strerror(error.errno or errno.EACCES)}: {said}, and the agent"
        f" runs as user {own}; run it as the owner, or as root: {command}",
        path=str(path),
    )


def place_and_owner(path: Path) -> tuple[Path, str]:
    """``path``, or the nearest folder above it that this user can see, and the name of its owner."""
    for place in (path, *path.absolute().parents):
        try:
            return place, user_name(place.stat().st_uid)
        except OSError:
            continue
    return path, "root"


def _is_foreign(path: Path) -> bool:
    try:
        return path.stat().st_uid != os.geteuid()
    except OSError:
        return False
