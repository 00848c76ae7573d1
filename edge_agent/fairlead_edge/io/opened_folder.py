"""Opens the agent's folder and its stores, in the only safe order.

    lock ──▶ identity and settings after a move ──▶ use reserve ──▶ token ──▶ encryption ──▶ objects ──▶ messages
         ──▶ take reserve

A move is completed first, because it changes the settings by which the stores are opened.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import NamedTuple

import apsw

from fairlead_edge import node_routes
from fairlead_edge.agent_status import Encryption
from fairlead_edge.errors import NotOurs, StoreUnusable, StoreVersionUnknown
from fairlead_edge.io import data_dir, ownership
from fairlead_edge.io.encryption import opening as encryption
from fairlead_edge.io.file_access import PLAIN, FileAccess
from fairlead_edge.io.moving import switch
from fairlead_edge.io.objects.sqlite_metastore import SqliteMetastore
from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.settings import EdgeSettings


class OpenedFolder(NamedTuple):
    """The open folder.  ``settings`` are those in force: after a move they may differ from the settings file."""

    settings: EdgeSettings
    folder: data_dir.DataDir
    token: str
    """The token of local clients."""
    store: SqliteMetastore
    outbox: SqliteOutbox
    access: encryption.OpenedStores

    @property
    def encryption(self) -> Encryption:
        """How the stores are encrypted, for the agent's status."""
        access = self.access
        return Encryption(access.extent, access.key, access.objects is not PLAIN, access.messages is not PLAIN)


async def open_folder(settings: EdgeSettings, stack: contextlib.AsyncExitStack, *, thorough: bool) -> OpenedFolder:
    """Open the folder; ``stack`` closes what was opened, even if a later step fails.  ``thorough``: check all rows.

    Raises ``StoreUnusable`` (``NotPermitted`` for files of another user), ``MoveFilesError``, ``IdentityFilesError``
    and ``BadKey``.
    """
    folder = data_dir.DataDir(Path(settings.data_dir))
    stack.callback(folder.close)
    ownership.refuse_foreign(folder.path, switch.WRITTEN)
    settings = switch.in_force(settings, folder.path)
    tls_files = (("tls_ca", settings.tls_ca), ("tls_cert", settings.tls_cert), ("tls_key", settings.tls_key))
    ownership.refuse_unreadable((name, path) for name, path in tls_files if path)
    folder.use_reserve()
    token = folder.token()
    wanted = encryption.EncryptionOptions(
        settings.store.encryption_key, settings.store.previous_encryption_key, settings.store.encrypt
    )
    access = encryption.prepare(folder.path, wanted, os.environ)
    store = SqliteMetastore(
        folder.path,
        node=settings.node,
        bytes_max=settings.store.object_bytes,
        wall_milliseconds=int(time.time() * 1000),
        usable=node_routes.is_usable,
        access=access.objects,
    )
    stack.push_async_callback(store.close)
    await switch.complete(store, folder.path)
    outbox = _open_outbox(folder.path / encryption.MESSAGES, settings, thorough, access.messages)
    stack.push_async_callback(outbox.close)
    folder.take_reserve()
    return OpenedFolder(settings, folder, token, store, outbox, access)


def _open_outbox(path: Path, settings: EdgeSettings, thorough: bool, access: FileAccess) -> SqliteOutbox:
    try:
        epoch, limit = data_dir.new_epoch(), settings.store.message_bytes
        return SqliteOutbox(
            path,
            epoch=epoch,
            max_bytes=limit,
            refused=settings.store.refused_input,
            node=settings.node,
            thorough=thorough,
            access=access,
        )
    except NotOurs as error:
        raise StoreUnusable(f"{path}: {error}") from error
    except (apsw.Error, StoreVersionUnknown, OSError) as error:
        raise StoreUnusable(f"{path}: cannot be opened: {error}") from error
