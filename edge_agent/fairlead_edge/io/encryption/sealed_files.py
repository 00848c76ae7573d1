"""A store's files under one data key: each store has keys of its own, derived from it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import apsw
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fairlead_edge.io.encryption import pages
from fairlead_edge.io.encryption.keyring import DataKey
from fairlead_edge.io.encryption.small_files import SmallFiles
from fairlead_edge.io.encryption.vfs import EncryptedVfs
from fairlead_edge.io.file_access import SEALED_SCHEMA
from fairlead_edge.io.sqlite import statements as sql
from fairlead_edge.io.sqlite.rows import rows

_PURPOSE: Final = "fairlead-edge/1"


def _derived(key: DataKey, purpose: str, size: int, salt: bytes = b"") -> bytes:
    return HKDF(algorithm=SHA256(), length=size, salt=salt, info=f"{_PURPOSE} {purpose}".encode()).derive(key.secret)


def pages_of(key: DataKey | None, store: str) -> pages.Pages:
    """The pages of this store's SQLite files."""
    if key is None:
        return pages.PlainPages()
    return pages.EncryptedPages(_derived(key, f"pages of {store}", pages.KEY_BYTES), key.name)


def small_files_of(key: DataKey, random: Callable[[int], bytes] = os.urandom) -> SmallFiles:
    """The small files of all stores; each is bound to its name."""
    return SmallFiles(lambda salt: _derived(key, "small files", 32, salt), key.name, random)


class SealedFiles:
    """``file_access.FileAccess`` of ``store`` (the name of its SQLite file).  ``random`` salts its small files."""

    schema_end = SEALED_SCHEMA

    def __init__(self, key: DataKey, store: str, random: Callable[[int], bytes] = os.urandom) -> None:
        self._vfs = EncryptedVfs(pages_of(key, store))
        self._small = small_files_of(key, random)

    def connect(
        self,
        path: Path,
        *,
        flags: int = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE,
        statementcachesize: int = 100,
    ) -> apsw.Connection:
        connection = apsw.Connection(str(path), flags=flags, vfs=self._vfs.name, statementcachesize=statementcachesize)
        rows(connection, sql.TEMPORARY_IN_MEMORY)  # what is sorted lies in no file of its own
        return connection

    def seal(self, content: bytes, name: str) -> bytes:
        return self._small.seal(content, name)

    def unseal(self, content: bytes, name: str) -> bytes:
        return self._small.unseal(content, name)
