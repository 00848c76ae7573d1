"""The files of a move, in the agent's folder.

move/identity/      key, certificate and authorities of the new hub
move/staged.json    which hub that is; written when the identity is complete
move/plan.json      the target, and what to do with undelivered messages; while it exists, the agent delivers
move/switched.json  the same file, renamed: from this rename on, the node belongs to the new hub
move/progress.json  the agent's progress
moved.json          all is done except the settings file, which may belong to another user; overrides it until then
left.json           the node is out of service; no agent starts here until the device joins a hub again
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec

from fairlead_edge.drain import Undelivered
from fairlead_edge.io import durable_file
from fairlead_edge.io.identity.identity_files import IdentityFiles, Owner, give_folder
from fairlead_wire.errors import FairleadError

FOLDER: Final = "move"
OUT_OF_SERVICE: Final = ""
"""``MovePlan.until`` of a node that leaves its hub without a new one."""
FILE_BYTES_MAX: Final = 64 * 1024

T = TypeVar("T", bound=msgspec.Struct)


class MoveFilesError(FairleadError):
    """A file of the move cannot be read or written; the text names it."""


class MovePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a move.  ``since`` and ``until``: the hubs' URLs; ``until`` may be ``OUT_OF_SERVICE``."""

    node: str
    since: str
    until: str
    deadline_seconds: float
    undelivered: Undelivered = "stay"


class MoveProgress(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent is doing for the move."""

    step: Literal["deliver", "close", "gave up"]
    waiting: int = 0
    connected: bool = False
    held: str = ""
    """The part of the data plan that lets nothing leave now."""


class Staged(msgspec.Struct, frozen=True, kw_only=True):
    """The hub of the staged identity."""

    until: str


class MovedHub(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the new hub, in force as long as the settings file still names ``since``."""

    since: str
    until: str
    tls_ca: str
    tls_pair: str


class LeftService(msgspec.Struct, frozen=True, kw_only=True):
    """The node that this device was, and its hub.  ``at``: RFC 3339.  ``waiting``: undelivered messages on the disk."""

    node: str
    hub: str
    at: str
    waiting: int = 0
    purged: bool = False


class MoveFiles:
    """The files of a move below ``data_dir``.  They are given to ``owner``, which only root can do."""

    def __init__(self, data_dir: Path, *, owner: Owner | None = None) -> None:
        self.data_dir = data_dir
        self.folder = data_dir / FOLDER
        self.staged = IdentityFiles(self.folder / "identity", owner=owner)
        self._owner = owner
        self._plan = self.folder / "plan.json"
        self._switched = self.folder / "switched.json"
        self._staged = self.folder / "staged.json"
        self._progress = self.folder / "progress.json"
        self._moved = data_dir / "moved.json"
        self.left_file = data_dir / "left.json"

    def make_folder(self) -> None:
        """Create the folder if it is missing."""
        with _sentence(self.folder):
            self.folder.mkdir(mode=0o700, exist_ok=True)
            if self._owner is not None:
                give_folder(self.folder, self._owner)

    def plan(self) -> MovePlan | None:
        return _read(self._plan, MovePlan)

    def switched(self) -> MovePlan | None:
        return _read(self._switched, MovePlan)

    def progress(self) -> MoveProgress | None:
        return _read(self._progress, MoveProgress)

    def moved(self) -> MovedHub | None:
        return _read(self._moved, MovedHub)

    def left(self) -> LeftService | None:
        """The record that the node has left; None if there is none, or the device has joined a hub since."""
        link = IdentityFiles.of(self.data_dir).link
        with _sentence(link):
            has_joined = link.is_symlink()
        return None if has_joined else _read(self.left_file, LeftService)

    def leave(self, left: LeftService) -> None:
        """Record that the node is out of service, and remove the plan."""
        self._write(self.left_file, left)
        with _sentence(self.folder):
            shutil.rmtree(self.folder, ignore_errors=True)

    def forget_left(self) -> None:
        """Remove the record of leaving, because the device has joined a hub again."""
        if self.left_file.exists():
            with _sentence(self.left_file):
                self.left_file.unlink(missing_ok=True)
                durable_file.flush(self.data_dir)

    def note_staged(self, until: str) -> None:
        """Record that the identity for ``until`` is complete, so that another attempt needs no new token."""
        self._write(self._staged, Staged(until=until))

    def staged_for(self) -> str:
        """The hub of the staged identity; "" if there is none."""
        found = _read(self._staged, Staged)
        return found.until if found is not None else ""

    def ask(self, plan: MovePlan) -> None:
        """Write the plan, which makes the agent begin the move."""
        with _sentence(self._progress):
            self._progress.unlink(missing_ok=True)
        self._write(self._plan, plan)

    def write_progress(self, progress: MoveProgress) -> None:
        with contextlib.suppress(MoveFilesError):  # progress is only for people
            self._write(self._progress, progress, durable=False)

    def cancel(self) -> None:
        """Remove the plan and the new identity; the node stays where it is."""
        with _sentence(self._plan):
            self._plan.unlink(missing_ok=True)
            durable_file.flush(self.folder)
            shutil.rmtree(self.folder, ignore_errors=True)

    def give_up(self, progress: MoveProgress) -> None:
        """Remove the plan and keep the new identity for another attempt."""
        self.write_progress(progress)
        with _sentence(self._plan):
            self._plan.unlink(missing_ok=True)
            durable_file.flush(self.folder)

    def switch(self) -> None:
        """Rename the plan; from then on, the node belongs to the new hub."""
        with _sentence(self._plan):
            os.replace(self._plan, self._switched)
            durable_file.flush(self.folder)

    def complete(self, moved: MovedHub) -> None:
        """Record that everything except the settings file is done, and remove the plan."""
        self._write(self._moved, moved)
        with _sentence(self.folder):
            self._switched.unlink(missing_ok=True)
            durable_file.flush(self.folder)
            shutil.rmtree(self.folder, ignore_errors=True)

    def drop_leftover(self, until: str) -> None:
        """Remove what a crash after the last step of a move to ``until`` left; a prepared move is not touched."""
        if self.plan() is None and self.switched() is None and self.staged_for() == until:
            shutil.rmtree(self.folder, ignore_errors=True)

    def forget_moved(self) -> None:
        """Remove ``moved.json``, because the settings file names the new hub now."""
        with _sentence(self._moved):
            self._moved.unlink(missing_ok=True)
            durable_file.flush(self.data_dir)

    def _write(self, path: Path, value: msgspec.Struct, *, durable: bool = True) -> None:
        owner = None if self._owner is None else (self._owner.user, self._owner.group)
        with _sentence(path):
            durable_file.replace(path, msgspec.json.encode(value), owner=owner, durable=durable)


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(FILE_BYTES_MAX), type=kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MoveFilesError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise MoveFilesError(f"{path}: cannot be read: {error}") from None


@contextlib.contextmanager
def _sentence(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise MoveFilesError(f"{path}: {error.strerror or error}") from None
