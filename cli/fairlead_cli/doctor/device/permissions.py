"""Who may read the key and the token, and does everything in the agent's folder belong to one user?"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from fairlead_cli.doctor.finding import Finding, ok, problem, warning

OTHERS_READ: Final = 0o004
OTHERS_WRITE: Final = 0o022
GROUP: Final = 0o070


class File(msgspec.Struct, frozen=True, kw_only=True):
    """``what`` it is to the agent: ``tls_key``, ``token`` …; ``owner`` is a user's number."""

    what: str
    path: str
    mode: int
    owner: int


def judge_secret(file: File) -> Finding:
    """A key or a token: for its owner alone."""
    mode = stat.S_IMODE(file.mode)
    check, shown = f"permissions.{file.what}", f"{file.what} {file.path} has mode {mode:04o}"
    if mode & OTHERS_READ or mode & OTHERS_WRITE:
        return problem(
            check, f"{shown}: other users of this machine can use it", f"chmod 600 {file.path}, then renew it"
        )
    if mode & GROUP:
        return warning(check, f"{shown}: its group can read it", f"chmod 600 {file.path}, unless the group is meant")
    return ok(check, f"{shown}, for its owner alone")


def judge_readable(named: Mapping[str, str], unreadable: Mapping[str, str], user: int) -> Iterator[Finding]:
    """``named``: setting → the file it names; ``unreadable``: file → why the agent's ``user`` cannot read it."""
    wrong = {setting: path for setting, path in named.items() if path in unreadable}
    for setting, path in sorted(wrong.items()):
        text = f"{setting} {path} cannot be read by user {user}, who owns data_dir: {unreadable[path]}"
        remedy = f"chown {user} {path}"
        if unreadable[path] == os.strerror(errno.ENOENT):
            is_tokens = setting.endswith("tokens_file")
            remedy = f"fairlead edge module-token MODULE --tokens-file {path}" if is_tokens else "make the file"
        yield problem("permissions.readable", text, f"the agent does not start: {remedy}, or correct {setting}")
    if named and not wrong:
        yield ok("permissions.readable", f"user {user} can read the {len(named)} files that the settings name")


def judge_folder(folder: File, inside: Iterable[File]) -> Iterator[Finding]:
    """The agent's folder and the files in it."""
    if stat.S_IMODE(folder.mode) & OTHERS_WRITE:
        text = f"{folder.path} has mode {stat.S_IMODE(folder.mode):04o}: others can put a token of their own in place"
        yield warning("permissions.data_dir", text, f"chmod 700 {folder.path}")
    strange = [file for file in inside if file.owner != folder.owner]
    if strange:
        first = strange[0]
        text = (
            f"{len(strange)} files of {folder.path} belong to another user than the folder, for example "
            f"{first.path} to user {first.owner} (folder: {folder.owner}): was the agent once run as another user?"
        )
        yield problem("permissions.owner", text, f"chown -R {folder.owner} {folder.path} while the agent is stopped")
    else:
        yield ok("permissions.owner", f"all files of {folder.path} belong to user {folder.owner}")
