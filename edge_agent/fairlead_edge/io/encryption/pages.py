"""One page of a SQLite file, to and from what lies on disk: AES-256-XTS, as whole disks are encrypted.

It keeps its length, so that every file has its layout, and damage to a disk stays where it is: one flipped bit spoils
16 bytes, and the checksum of the row they belong to shows it.  The tweak is the page's number: a page that was moved
to another place is no page.  The first ``CLEAR_BYTES`` of the first page stay readable, but for the magic.
"""

from __future__ import annotations

from typing import Final, Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from fairlead_edge.io.file_access import CLEAR_BYTES, SEALED_MAGIC, SQLITE_MAGIC

KEY_BYTES: Final = 64
BLOCK_BYTES: Final = 16
TWEAK_BYTES: Final = 16


class Pages(Protocol):
    """To what lies on disk, and back; ``name`` of the data key, "" of none."""

    name: str

    def encrypt(self, number: int, page: bytes) -> bytes: ...

    def decrypt(self, number: int, page: bytes) -> bytes: ...


class PlainPages:
    """They lie on disk as SQLite made them."""

    name = ""

    def encrypt(self, number: int, page: bytes) -> bytes:
        return page

    def decrypt(self, number: int, page: bytes) -> bytes:
        return page


class EncryptedPages:
    """With one key; a page may be cut short, as at the end of a damaged file: whole blocks of it are changed."""

    def __init__(self, key: bytes, name: str) -> None:
        assert len(key) == KEY_BYTES
        self.name = name
        self._cipher = algorithms.AES(key)
        self._magic = SEALED_MAGIC + name.encode()

    def encrypt(self, number: int, page: bytes) -> bytes:
        if number != 1:
            return self._changed(number, page, encrypt=True)
        head, rest = page[:CLEAR_BYTES], page[CLEAR_BYTES:]
        if head.startswith(SQLITE_MAGIC):
            head = self._magic + head[len(SQLITE_MAGIC) :]
        return head + self._changed(number, rest, encrypt=True)

    def decrypt(self, number: int, page: bytes) -> bytes:
        if number != 1:
            return self._changed(number, page, encrypt=False)
        head, rest = page[:CLEAR_BYTES], page[CLEAR_BYTES:]
        if head.startswith(self._magic):
            head = SQLITE_MAGIC + head[len(self._magic) :]
        return head + self._changed(number, rest, encrypt=False)

    def _changed(self, number: int, content: bytes, *, encrypt: bool) -> bytes:
        whole = len(content) - len(content) % BLOCK_BYTES
        if not whole:
            return content
        cipher = Cipher(self._cipher, modes.XTS(number.to_bytes(TWEAK_BYTES, "little")))
        changing = cipher.encryptor() if encrypt else cipher.decryptor()
        return changing.update(content[:whole]) + content[whole:]
