"""What ``fairlead edge join`` reads and changes on the device: the settings file, the files' owner, the folder's lock.

All is checked before anything is sent, so that a file that cannot be written does not cost a token.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from fairlead_edge.errors import NotPermitted, StoreUnusable
from fairlead_edge.identity import settings_text
from fairlead_edge.identity.settings_text import CannotEdit
from fairlead_edge.io import data_dir, durable_file, ownership
from fairlead_edge.io.identity.identity_files import IdentityFiles, Owner
from fairlead_edge.settings import EdgeSettings
from fairlead_wire.errors import FairleadError
from fairlead_wire.identity import node_names
from fairlead_wire.io import settings as settings_io
from fairlead_wire.io import users

FILE_BYTES_MAX: Final = 1024 * 1024
NEW_FILE_MODE: Final = 0o640
CA_FILE_MODE: Final = 0o644
SYSTEM_FOLDER: Final = Path("/etc/fairlead")
SYSTEM_DATA_DIR: Final = "/var/lib/fairlead-edge"
PREFIX: Final = "FAIRLEAD_EDGE_"


class CannotConfigure(FairleadError):
    """The settings file cannot be read or written; it was not changed."""


class DeviceSettings:
    """The settings file of a device, read at construction.  Raises ``CannotConfigure``."""

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self.path = path
        self._environ = environ
        self._text = self._read()
        self._values: dict[str, Any] = {}
        if self._text is not None:
            try:
                self._values = tomllib.loads(self._text)
            except (ValueError, RecursionError) as error:
                raise CannotConfigure(f"{path}: not TOML: {error}; correct it, or move it away") from None

    @property
    def exists(self) -> bool:
        return self._text is not None

    @property
    def node(self) -> str:
        """The node that the settings name; "" if none, as in the file that comes with the package."""
        found = self._effective("node")
        return found if node_names.is_node_name(found) else ""

    def text(self, key: str) -> str:
        """The text of a top-level key as the agent will see it; "" if there is none."""
        return self._effective(key)

    def source(self, key: str) -> str:
        """Where the value of a key comes from, for people: a variable, or the file."""
        variable = f"{PREFIX}{key.upper()}"
        return f"the variable {variable}" if variable in self._environ else str(self.path)

    @property
    def data_dir(self) -> Path:
        """The folder that the settings name; by default one beside the file, or the system's for the system's file."""
        if found := self._effective("data_dir"):
            return Path(found).expanduser()
        if self.path.parent == SYSTEM_FOLDER:
            return Path(SYSTEM_DATA_DIR)
        return self.path.absolute().parent / f"{self.path.stem}-data"

    def write(self, wanted: Mapping[str, str], *, owner: Owner | None, dry: bool = False) -> bool:
        """Atomically write ``wanted`` into the file; returns False if it has these values already and was not changed.

        ``dry``: do everything but the last step.  Raises ``CannotConfigure``.
        """
        values = {key: value for key, value in wanted.items() if self._effective(key) != value}
        if self._effective("security", "mtls") != "mtls":
            values["security"] = "mtls"
        self._refuse_overridden(values)
        if not values:
            self._check(self.path, wanted)
            return False
        try:
            text = settings_text.fresh(values) if self._text is None else settings_text.edited(self._text, values)
        except CannotEdit as error:
            lines = ", ".join(f'{key} = "{value}"' for key, value in values.items())
            raise CannotConfigure(f"{self.path}: {error}; write these into it by hand: {lines}") from None
        file = self.path.resolve()  # a symbolic link stays one
        draft = durable_file.draft_of(file)
        try:
            self._write(draft, text, owner)
            self._check(draft, wanted)
            if not dry:
                os.replace(draft, file)
                durable_file.flush(file.parent)
        except OSError as error:
            remedy = "; run it as root, or as the owner of its folder" if isinstance(error, PermissionError) else ""
            remedy = "; free some room on this disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else remedy
            raise CannotConfigure(f"{self.path}: cannot be written: {error.strerror or error}{remedy}") from None
        finally:
            draft.unlink(missing_ok=True)
        return True

    @property
    def ca_file(self) -> Path:
        """A file beside the settings with the authorities by which local programs verify this node's agent."""
        return self.path.with_name(f"{self.path.stem}-ca.crt")

    def publish_issuers(self, files: IdentityFiles) -> str:
        """Copy the issuers to ``ca_file``, which all users may read; returns a message for people, "" without issuers.

        The node's link does not need this file, so a folder that cannot be written is no error.
        """
        try:
            content = files.issuers.read_bytes()
        except OSError:
            return ""
        try:
            durable_file.replace(self.ca_file.resolve(), content, mode=CA_FILE_MODE)
        except OSError as error:
            why = error.strerror or str(error)
            return f"{self.ca_file} cannot be written ({why}): copy {files.issuers} to where local programs can read it"
        return f"{self.ca_file}: local programs verify this node with it"

    def _effective(self, key: str, otherwise: str = "") -> str:
        """The value the agent will see: a variable overrides the file."""
        value = self._environ.get(f"{PREFIX}{key.upper()}", self._values.get(key, otherwise))
        return value if isinstance(value, str) else otherwise

    def _refuse_overridden(self, values: Mapping[str, str]) -> None:
        for key, value in values.items():
            variable = f"{PREFIX}{key.upper()}"
            if variable in self._environ:
                raise CannotConfigure(f"the variable {variable} is set and overrides the file; set it to {value!r}"
                                      f" or unset it")  # fmt: skip

    def _check(self, path: Path, wanted: Mapping[str, str]) -> None:
        """Check that the agent can start with these settings."""
        try:
            settings_io.load("edge", EdgeSettings, path, self._environ)
        except settings_io.SettingsError as error:
            first = error.mistakes[0]
            key = f"{first.key}: " if first.key else ""
            raise CannotConfigure(f"{self.path}: {key}{first.reason}; correct it, then run this again") from None

    def _read(self) -> str | None:
        try:
            with self.path.open("rb") as file:
                content = file.read(FILE_BYTES_MAX + 1)
            if len(content) > FILE_BYTES_MAX:
                raise CannotConfigure(f"{self.path}: is larger than {FILE_BYTES_MAX} bytes")
            return content.decode()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            raise CannotConfigure(f"{self.path}: is not UTF-8; correct it, or move it away") from None
        except PermissionError as error:
            raise CannotConfigure(f"{self.path}: {error.strerror}; run it as root, or as the agent's user") from None
        except OSError as error:
            raise CannotConfigure(f"{self.path}: {error.strerror or error}") from None

    def _write(self, draft: Path, text: str, owner: Owner | None) -> None:
        """Write with mode and owner of the replaced file; a new file gets the current user and the agent's group."""
        draft.parent.mkdir(parents=True, exist_ok=True)
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, durable_file.NEW_FILE, 0o600), "w") as file:
            if self.exists:
                before = self.path.stat()
                if os.geteuid() == 0:
                    os.fchown(file.fileno(), before.st_uid, before.st_gid)
                os.fchmod(file.fileno(), before.st_mode & 0o777)
            else:
                if owner is not None:
                    os.fchown(file.fileno(), -1, owner.group)
                os.fchmod(file.fileno(), NEW_FILE_MODE)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


_REMEDIES: Final = {
    "in use": "stop it first (systemctl stop fairlead-edge)",
    "No space left on device": "free some room on this disk",
}


class CannotJoin(FairleadError):
    """Joining failed; the text names the remedy.  What was in use before is still in use."""


def owner_of(folder: Path, user: str) -> Owner | None:
    """The user that will run the agent if root runs this: ``user``, else the folder's owner, else whose home it is.

    None: the current user.  Raises ``CannotJoin``.
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
    """The user's name; "" for the user of this process."""
    if owner is None or owner.user == os.geteuid():
        return ""
    return users.name(owner.user)


@contextlib.contextmanager
def locked(folder: Path, owner: Owner | None) -> Iterator[None]:
    """Lock the folder against a running agent and a second join.  Raises ``CannotJoin``."""
    try:
        held = data_dir.lock(folder)
    except NotPermitted:
        place, user = ownership.place_and_owner(folder / "lock")
        other = "" if user == "root" else f" or as user {user},"
        raise CannotJoin(
            f"data_dir {folder}: Permission denied: {place} belongs to user {user}; run it with sudo,{other} or name"
            " another settings file with --config. Nothing was sent"
        ) from None
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
        who, remedy = users.name(owner.user), "run it as root, or as the owner of the folder"
        raise CannotJoin(f"{folder}: cannot be given to user {who}: {error.strerror}; {remedy}") from None
