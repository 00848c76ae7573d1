"""Encrypts SQLite's pages on their way to the disk: AES-256-XTS, as disk encryption does.

A page keeps its length, so files keep their layout and damage stays local: one flipped bit spoils 16 bytes, which the
checksum of their row detects.  The tweak is the page's number, so a page moved to another place cannot be read.  The
first ``CLEAR_BYTES`` of the first page stay readable, except for the magic.
"""

from __future__ import annotations

import itertools
from typing import Any, Final, Protocol

import apsw
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from fairlead_edge.io.file_access import CLEAR_BYTES, PAGE_BYTES, SEALED_MAGIC, SQLITE_MAGIC
from fairlead_edge.io.sqlite.wal import FRAME_BYTES, FRAME_HEADER_BYTES, HEADER_BYTES

KEY_BYTES: Final = 64
BLOCK_BYTES: Final = 16
TWEAK_BYTES: Final = 16


class Pages(Protocol):
    """Converts pages to their form on disk and back; ``name``: that of the data key, "" for none."""

    name: str

    def encrypt(self, number: int, page: bytes) -> bytes: ...

    def decrypt(self, number: int, page: bytes) -> bytes: ...


class PlainPages:
    """Pages without encryption."""

    name = ""

    def encrypt(self, number: int, page: bytes) -> bytes:
        return page

    def decrypt(self, number: int, page: bytes) -> bytes:
        return page


class EncryptedPages:
    """Pages under one key.  Of a short page, as at the end of a damaged file, only whole blocks are encrypted."""

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


_numbers: Final = itertools.count(1)


class EncryptedVfs(apsw.VFS):
    """A SQLite VFS that encrypts the database and its log; registered as ``name`` while this object lives.

        database  a sequence of pages
        log       a header, then frames: a header that names the page, and the page

    Frame headers and the log's header are not encrypted; SQLite computes their checksums over the plain pages.  Locks,
    shared memory and flushes are those of the underlying files.  A rollback journal exists only once, when a new file
    is switched to a write-ahead log, and is empty then.
    """

    def __init__(self, pages: Pages) -> None:
        self.name = f"fairlead-encrypted-{next(_numbers)}"
        self._pages = pages
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        kind = flags[0]
        if kind & apsw.SQLITE_OPEN_MAIN_DB:
            return _Database(name, flags, self._pages)
        if kind & apsw.SQLITE_OPEN_WAL:
            return _Log(name, flags, self._pages)
        return apsw.VFSFile("", name, flags)


class _Database(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int], pages: Pages) -> None:
        super().__init__("", name, flags)
        self._pages = pages

    def xRead(self, amount: int, offset: int) -> bytes:
        first = offset // PAGE_BYTES
        since = offset - first * PAGE_BYTES
        if since == 0 and amount == PAGE_BYTES:
            return self._pages.decrypt(first + 1, super().xRead(amount, offset))
        found = []
        for index in range(first, -(-(offset + amount) // PAGE_BYTES)):
            page = super().xRead(PAGE_BYTES, index * PAGE_BYTES)
            found.append(self._pages.decrypt(index + 1, page))
            if len(page) < PAGE_BYTES:
                break
        return b"".join(found)[since : since + amount]

    def xWrite(self, data: bytes, offset: int) -> None:
        number, since = divmod(offset, PAGE_BYTES)
        if since or len(data) != PAGE_BYTES:
            raise apsw.IOError("an encrypted file is written page by page")
        super().xWrite(self._pages.encrypt(number + 1, bytes(data)), offset)


class _Log(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int], pages: Pages) -> None:
        super().__init__("", name, flags)
        self._pages = pages
        self._head = (-1, 0)
        """Offset and page number of the last frame header written."""

    def xRead(self, amount: int, offset: int) -> bytes:
        since = (offset - HEADER_BYTES) % FRAME_BYTES
        read: bytes = super().xRead(amount, offset)
        if offset < HEADER_BYTES or since + amount <= FRAME_HEADER_BYTES:
            return read
        if since + amount > FRAME_BYTES or since not in (0, FRAME_HEADER_BYTES):
            raise apsw.IOError("an encrypted log is read frame by frame")
        skipped = FRAME_HEADER_BYTES - since
        head = read[:4] if since == 0 else super().xRead(4, offset - FRAME_HEADER_BYTES)
        return read[:skipped] + self._pages.decrypt(int.from_bytes(head, "big"), read[skipped:])

    def xWrite(self, data: bytes, offset: int) -> None:
        since = (offset - HEADER_BYTES) % FRAME_BYTES
        if offset >= HEADER_BYTES and since == 0 and len(data) == FRAME_HEADER_BYTES:
            self._head = (offset, int.from_bytes(data[:4], "big"))
        elif offset >= HEADER_BYTES and since + len(data) > FRAME_HEADER_BYTES:
            if since != FRAME_HEADER_BYTES or len(data) != PAGE_BYTES:
                raise apsw.IOError("an encrypted log is written frame by frame")
            at, number = self._head
            if at != offset - FRAME_HEADER_BYTES:
                number = int.from_bytes(super().xRead(4, offset - FRAME_HEADER_BYTES), "big")
            data = self._pages.encrypt(number, bytes(data))
        super().xWrite(data, offset)
