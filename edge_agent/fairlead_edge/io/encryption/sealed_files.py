"""A store's files under one data key, from which the keys of each store are derived.

Small files beside the stores are sealed as a whole with AES-256-GCM, bound to the name of the file:

    magic, name of the data key, size, salt, counter, ciphertext with its tag

Some of them are written after each commit for years, more often than one key may be used with random nonces.  Therefore
each opening derives a key from the data key and a random salt, and uses a counter as its nonce.
"""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

import apsw
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fairlead_edge.io.encryption import pages
from fairlead_edge.io.encryption.keyring import DataKey
from fairlead_edge.io.encryption.pages import EncryptedVfs
from fairlead_edge.io.file_access import KEY_NAME_BYTES, SEALED_MAGIC, SEALED_SCHEMA
from fairlead_edge.io.sqlite import statements as sql
from fairlead_edge.io.sqlite.rows import rows

_HEAD: Final = struct.Struct(f">{len(SEALED_MAGIC)}s{KEY_NAME_BYTES}sI16sQ")
TAG_BYTES: Final = 16
SALT_BYTES: Final = 16
_COUNTER_BYTES: Final = 12

Derive = Callable[[bytes], bytes]
"""Derives a key of 32 bytes from a salt."""


class SmallFiles:
    """Seals and unseals small files.  ``name`` is that of the data key behind ``derive``."""

    def __init__(self, derive: Derive, name: str, random: Callable[[int], bytes] = os.urandom) -> None:
        self._derive = derive
        self._name = name.encode()
        self._salt = random(SALT_BYTES)
        self._cipher = AESGCM(derive(self._salt))
        self._counter = itertools.count()

    def seal(self, content: bytes, name: str) -> bytes:
        count = next(self._counter)
        head = _HEAD.pack(SEALED_MAGIC, self._name, len(content) + TAG_BYTES, self._salt, count)
        return head + self._cipher.encrypt(count.to_bytes(_COUNTER_BYTES, "big"), content, head + name.encode())

    def unseal(self, content: bytes, name: str) -> bytes:
        """The sealed content.  Raises ``ValueError``: it is damaged, or was sealed with another key."""
        head, body = content[: _HEAD.size], content[_HEAD.size :]
        try:
            magic, key, size, salt, count = _HEAD.unpack(head)
            if magic != SEALED_MAGIC or key != self._name or size > len(body):
                raise ValueError("it was not sealed with this key")
            cipher = AESGCM(self._derive(salt))
            return cipher.decrypt(count.to_bytes(_COUNTER_BYTES, "big"), body[:size], head + name.encode())
        except (struct.error, InvalidTag):
            raise ValueError("it was changed after it was sealed") from None


_PURPOSE: Final = "fairlead-edge/1"


def _derived(key: DataKey, purpose: str, size: int, salt: bytes = b"") -> bytes:
    return HKDF(algorithm=SHA256(), length=size, salt=salt, info=f"{_PURPOSE} {purpose}".encode()).derive(key.secret)


def pages_of(key: DataKey | None, store: str) -> pages.Pages:
    """The pages of this store's SQLite files."""
    if key is None:
        return pages.PlainPages()
    return pages.EncryptedPages(_derived(key, f"pages of {store}", pages.KEY_BYTES), key.name)


def small_files_of(key: DataKey, random: Callable[[int], bytes] = os.urandom) -> SmallFiles:
    """The sealer for small files of all stores."""
    return SmallFiles(lambda salt: _derived(key, "small files", 32, salt), key.name, random)


class SealedFiles:
    """The encrypted ``file_access.FileAccess`` of ``store`` (the name of its SQLite file)."""

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
        rows(connection, sql.TEMPORARY_IN_MEMORY)  # or SQLite would sort in unencrypted temporary files
        return connection

    def seal(self, content: bytes, name: str) -> bytes:
        return self._small.seal(content, name)

    def unseal(self, content: bytes, name: str) -> bytes:
        return self._small.unseal(content, name)
