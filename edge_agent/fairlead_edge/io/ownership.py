"""Files that the agent's user may not use, because they belong to another: which, whose, and the command that helps.

They are looked for before a store is opened: SQLite would call it a read-only database or a file that cannot be opened.
"""

from __future__ import annotations

import errno
import os
import pwd
from collections.abc import Iterable
from pathlib import Path

from fairlead_edge.errors import NotPermitted


def user_name(number: int) -> str:
    """The name of a user, or the number where it has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def refuse_foreign(folder: Path, patterns: Iterable[str]) -> None:
    """Every file of the agent's in ``folder``, and one level below, can be read and written.  Raises ``NotPermitted``.

    Others are left out: on a disk of its own the folder holds a ``lost+found`` of root's.
    """
    try:
        found = sorted(path for pattern in patterns for path in folder.glob(pattern))
        for below in [path for path in found if path.is_dir() and not path.is_symlink()]:
            found += sorted(below.iterdir())
    except PermissionError as error:
        raise not_permitted(Path(error.filename), error, give=folder) from None
    except OSError:
        return  # a file that went meanwhile, or a disk that fails: said where it is opened
    for path in found:
        if not os.access(path, os.R_OK | os.W_OK, effective_ids=True) and _is_foreign(path):
            raise not_permitted(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)), give=folder)


def refuse_unreadable(named: Iterable[tuple[str, str]]) -> None:
    """``named``: settings and the files they name.  Raises ``NotPermitted``; who opens it says what is missing."""
    for setting, text in named:
        path = Path(text)
        try:
            path.open("rb").close()
        except PermissionError as error:
            raise not_permitted(path, error, setting=setting) from None
        except OSError:
            continue


def not_permitted(path: Path, error: OSError, *, give: Path | None = None, setting: str = "") -> NotPermitted:
    """``give``: the folder that should belong to the agent's user as a whole; None: the file alone."""
    try:
        place = path if path.exists() else path.parent
        owner = f"it belongs to user {user_name(place.stat().st_uid)}"
        if place != path:
            owner = f"folder {place} belongs to user {user_name(place.stat().st_uid)}"
    except OSError:
        owner = "a folder above it belongs to another user"
    own = user_name(os.geteuid())
    command = f"chown -R {own} {give}" if give is not None else f"chown {own} {path}"
    return NotPermitted(
        f"{f'{setting} ' if setting else ''}{path}: {os.strerror(error.errno or errno.EACCES)}: {owner}, and the agent"
        f" runs as user {own}; run it as the owner, or as root: {command}"
    )


def _is_foreign(path: Path) -> bool:
    try:
        return path.stat().st_uid != os.geteuid()
    except OSError:
        return False
