"""The released tree: its tracked files, version and time."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NO_GIT_EPOCH = 1_580_601_600
"""2020-02-02, as in hatchling: for a tree without history and without SOURCE_DATE_EPOCH."""
UNKNOWN_COMMIT = "unknown"


class ReleaseError(Exception):
    """An error that the user can fix; the text is the whole message."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """One state of the project.

    Attributes:
      version: As in pyproject.toml, the only place where it is written down for programs.
      epoch: Seconds since 1970 of the commit: the time of every file in every archive.
      commit: The full hash; "unknown" without a history.
      changed: Tracked files differ from the commit; such a thing is for trying out.
    """

    root: Path
    version: str
    epoch: int
    commit: str
    changed: bool


def read(root: Path = ROOT, environ: Mapping[str, str] = os.environ) -> Source:
    """Read a checkout or an unpacked sdist."""
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    commit = _git(root, "rev-parse", "HEAD")
    given = environ.get("SOURCE_DATE_EPOCH", "")
    if given and not (given.isascii() and given.isdigit()):
        raise ReleaseError(f"SOURCE_DATE_EPOCH is {given!r}; give seconds since 1970, or leave it out")
    epoch = given or (_git(root, "log", "-1", "--format=%ct") if commit else "") or NO_GIT_EPOCH
    changed = bool(commit) and bool(_git(root, "status", "--porcelain", "--untracked-files=no"))
    return Source(root=root, version=version, epoch=int(epoch), commit=commit or UNKNOWN_COMMIT, changed=changed)


def tracked(root: Path) -> list[Path]:
    """The project's files, sorted and relative to its root; without a history, all files that are not ignored."""
    listed = _git(root, "ls-files", "-z")
    if listed:
        return sorted(path for name in listed.split("\0") if name and (root / (path := Path(name))).is_file())
    ignored = _ignored(root)
    found = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return sorted(path for path in found if not any(fnmatch(part, name) for part in path.parts for name in ignored))


def _ignored(root: Path) -> list[str]:
    """Files built in an unpacked sdist do not belong to it, as in a checkout."""
    listed = root / ".gitignore"
    return [line.strip("/") for line in listed.read_text().splitlines() if line] if listed.exists() else []


def stage(source: Source, target: Path) -> Path:
    """A copy of the tracked files with plain modes and the commit's time."""
    for path in tracked(source.root):
        copy = target / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.root / path, copy)
        copy.chmod(0o755 if os.access(source.root / path, os.X_OK) else 0o644)
        os.utime(copy, (source.epoch, source.epoch))
    return target


def _git(root: Path, *arguments: str) -> str:
    """The output of git for this folder; "" if it is not a checkout.

    Raises ReleaseError where it is one and git says nothing: which files belong to it is not known then.
    """
    if not (root / ".git").exists():
        return ""
    if shutil.which("git") is None:
        raise ReleaseError(f"{root} is a checkout, and git is not installed; install git and try again")
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise ReleaseError(f"git {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout.strip()
