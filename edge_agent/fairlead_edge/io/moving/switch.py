"""Replaces what belongs to the old hub or its cluster, when the stores are opened after the switch of a move.

identity       the staged pair and authorities are put in use; the old ones are removed, and the leftovers of an
               interrupted renewal, too; the epoch of the last session is reset
stores         the fencing number and the routes, with their copy, are forgotten; until the new hub has sent its routes,
               producers are asked to retry.  Other objects stay until the new hub has compared them
settings file  is written by the command; until then ``moved.json`` overrides a file that names the old hub

When a node is taken out of service, its identity and the cluster's objects, some of them Secrets, are removed.
Undelivered messages, messages for modules and dead letters stay.

Each step may be repeated.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path
from typing import Final

import msgspec

from fairlead_edge import node_routes
from fairlead_edge.errors import OutOfService
from fairlead_edge.io.encryption.opening import KEYRING_FILES, MESSAGES, OBJECTS
from fairlead_edge.io.identity import last_session
from fairlead_edge.io.identity.identity_files import FOLDER as IDENTITY
from fairlead_edge.io.identity.identity_files import IdentityFiles
from fairlead_edge.io.moving.files import FOLDER as MOVE
from fairlead_edge.io.moving.files import OUT_OF_SERVICE, LeftService, MovedHub, MoveFiles, MoveFilesError, MovePlan
from fairlead_edge.io.objects.sqlite_metastore import SqliteMetastore
from fairlead_edge.settings import EdgeSettings
from fairlead_wire.io import logs
from fairlead_wire.objects import api_group

ROUTES_COPY: Final = "routes.copy"
WRITTEN: Final = (
    IDENTITY,
    MOVE,
    last_session.FILE,
    f".{last_session.FILE}.new",
    f"{ROUTES_COPY}*",
    "routes.new",
    f"{OBJECTS}*",
    f"{MESSAGES}*",
    *KEYRING_FILES,
    *(f"{name}.new" for name in KEYRING_FILES),
    "moved.json",
    ".moved.json.new",
    "link.day*",
    ".link.day*",
    "token",
    "token.new",
    "reserve*",
)
"""Everything that agents write into their folder, drafts too, except the lock and the record of leaving."""
NO_SESSION: Final = 0
"""The epoch of the last session if there was none with this hub; the recorded time is kept."""

_log = logs.get("edge.move")


def in_force(settings: EdgeSettings, data_dir: Path) -> EdgeSettings:
    """The settings in force; completes the identity after a switch.  The caller holds the folder's lock.

    Raises ``MoveFilesError``, ``IdentityFilesError`` and ``OutOfService``.
    """
    files = MoveFiles(data_dir)
    if (left := files.left()) is not None:
        raise OutOfService(_out_of_service(files, left), now=False)
    plan = files.switched()
    if plan is not None and plan.until == OUT_OF_SERVICE:
        if not files.left_file.exists():
            raise OutOfService(_out_of_service(files, leave(files, plan)), now=True)
        plan = None  # it is from before the device joined again
        files.cancel()
    files.forget_left()
    if plan is not None:
        staged, own = files.staged, IdentityFiles.of(data_dir)
        own.make_folder()
        pair = staged.current()
        if pair is None:
            raise MoveFilesError(f"{files.folder}: the new identity is missing; join the hub again: fairlead edge join")
        try:
            authorities = staged.authorities.read_bytes()
        except OSError as error:
            raise MoveFilesError(f"{staged.authorities}: {error.strerror}") from None
        own.write_authorities(authorities)
        with contextlib.suppress(OSError):  # a hub may not have sent them
            own.write_issuers(staged.issuers.read_bytes())
        own.use(own.add(staged.key(pair), staged.chain(pair)))
        return _changed(settings, moved_of(files, plan.since, plan.until))
    moved = files.moved()
    if moved is None:
        return settings
    files.drop_leftover(moved.until)
    changed = _changed(settings, moved)
    if changed == settings or settings.hub_url != moved.since:
        files.forget_moved()  # the settings file has the new hub, or a person has decided otherwise
        return settings
    return changed


async def complete(store: SqliteMetastore, data_dir: Path) -> None:
    """Complete the switch in the store; called after ``in_force`` and before anything is served."""
    files = MoveFiles(data_dir)
    plan = files.switched()
    if plan is None:
        return
    await store.forget_cluster(api_group.GROUP, node_routes.PLURAL)
    (data_dir / ROUTES_COPY).unlink(missing_ok=True)
    own = IdentityFiles.of(data_dir)
    own.drop_pending()
    own.confirm()
    if (last := last_session.read(data_dir)) is not None:
        last_session.write(data_dir, msgspec.structs.replace(last, store_epoch=NO_SESSION))
    files.complete(moved_of(files, plan.since, plan.until))
    _log.info("move_completed", hub=plan.until)


def leave(files: MoveFiles, plan: MovePlan) -> LeftService:
    """Remove identity and objects of a node that goes out of service.  The caller holds the folder's lock.

    Identity files of other programs are not touched.  Raises ``MoveFilesError``.
    """
    progress = files.progress()
    remove(files.data_dir, (IDENTITY, last_session.FILE, f"{ROUTES_COPY}*", f"{OBJECTS}*"))
    left = LeftService(
        node=plan.node,
        hub=plan.since,
        at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        waiting=progress.waiting if progress is not None else 0,
    )
    files.leave(left)
    _log.info("left", hub=plan.since, waiting=left.waiting)
    return left


def remove(data_dir: Path, patterns: tuple[str, ...]) -> None:
    """Delete the files and folders that match ``patterns``.  Raises ``MoveFilesError``."""
    for path in sorted(found for pattern in patterns for found in data_dir.glob(pattern)):
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise MoveFilesError(f"{error.filename or path}: cannot be deleted: {error.strerror or error}") from None


def _out_of_service(files: MoveFiles, left: LeftService) -> str:
    return (
        f"{left.node} was taken out of service at {left.at}; to use this device with a hub again: fairlead edge join"
        f" (or, for a hub without certificates, delete {files.left_file})"
    )


def moved_of(files: MoveFiles, since: str, until: str) -> MovedHub:
    """The settings in force after the move."""
    own = IdentityFiles.of(files.data_dir)
    return MovedHub(since=since, until=until, tls_ca=str(own.authorities.absolute()), tls_pair=str(own.link.absolute()))


def _changed(settings: EdgeSettings, moved: MovedHub) -> EdgeSettings:
    return msgspec.structs.replace(
        settings,
        hub_url=moved.until,
        security="mtls",
        tls_ca=moved.tls_ca,
        tls_cert=moved.tls_pair,
        tls_key=moved.tls_pair,
    )
