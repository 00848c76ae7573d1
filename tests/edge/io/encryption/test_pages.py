"""A page to the disk and back: its length and its place stay, and nothing of it can be read."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest

from fairlead_edge.io.encryption.pages import EncryptedPages, EncryptedVfs, PlainPages
from fairlead_edge.io.file_access import CLEAR_BYTES, SQLITE_MAGIC

PAGES = EncryptedPages(bytes(range(64)), "0a1b2c3d")
PAGE = (b"nobody may read this " * 200)[:4096]


@pytest.mark.parametrize("number", [2, 3, 1 << 31])
def test_a_page_comes_back_at_its_place_only(number: int) -> None:
    sealed = PAGES.encrypt(number, PAGE)
    assert len(sealed) == len(PAGE) and b"nobody" not in sealed
    assert PAGES.decrypt(number, sealed) == PAGE
    assert b"nobody" not in PAGES.decrypt(number + 1, sealed)
    flipped = bytearray(sealed)
    flipped[100] ^= 1
    spoilt = PAGES.decrypt(number, bytes(flipped))
    assert [at for at in range(0, 4096, 16) if spoilt[at : at + 16] != PAGE[at : at + 16]] == [96]


def test_the_first_page_keeps_its_header_and_says_that_it_is_encrypted() -> None:
    """Sizes and versions can be read of a damaged file; its magic is that of no plain store."""
    page = SQLITE_MAGIC + os.urandom(CLEAR_BYTES - 16) + PAGE[CLEAR_BYTES:]
    sealed = PAGES.encrypt(1, page)
    assert sealed.startswith(b"FLseal1:0a1b2c3d") and sealed[16:CLEAR_BYTES] == page[16:CLEAR_BYTES]
    assert b"nobody" not in sealed and PAGES.decrypt(1, sealed) == page
    assert not EncryptedPages(bytes(range(64)), "ffffffff").decrypt(1, sealed).startswith(SQLITE_MAGIC)


@pytest.mark.parametrize("size", [0, 7, 16, 100, CLEAR_BYTES, CLEAR_BYTES + 5, 4000])
@pytest.mark.parametrize("number", [1, 2])
def test_a_page_that_is_cut_short_is_changed_as_far_as_it_goes(number: int, size: int) -> None:
    sealed = PAGES.encrypt(number, PAGE)
    whole = size - (max(0, size - CLEAR_BYTES) if number == 1 else size) % 16
    assert PAGES.decrypt(number, sealed[:size])[:whole] == PAGE[:whole]
    assert len(PAGES.encrypt(number, PAGE[:size])) == size


def test_plain_pages_are_as_they_are() -> None:
    assert PlainPages().encrypt(1, PAGE) == PlainPages().decrypt(1, PAGE) == PAGE


# ---- what SQLite may ask of an encrypted file -----------------------------------------------------


def test_reads_of_any_length_and_whole_pages_only_to_write(tmp_path: Path) -> None:
    """SQLite reads its header by itself; a part of a page cannot be encrypted and is an error, never plain text."""
    vfs = EncryptedVfs(EncryptedPages(bytes(range(64)), "0a1b2c3d"))
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_READWRITE, 0]
    file = vfs.xOpen(str(tmp_path / "a.db"), flags)
    pages = [bytes([number]) * 4096 for number in (1, 2, 3)]
    for number, page in enumerate(pages):
        file.xWrite(page, number * 4096)
    whole = b"".join(pages)
    for offset, amount in ((0, 100), (24, 16), (4000, 200), (4096, 4096), (4090, 8192), (100, 5000)):
        assert file.xRead(amount, offset) == whole[offset : offset + amount]
    assert file.xRead(4096, 3 * 4096) == b"" and file.xRead(4096, 2 * 4096 + 4000) == whole[2 * 4096 + 4000 :]
    with pytest.raises(apsw.IOError):
        file.xWrite(b"abc", 0)
    file.xClose()
    assert not any(page[200:400] in (tmp_path / "a.db").read_bytes() for page in pages)


def test_frames_of_a_log(tmp_path: Path) -> None:
    (tmp_path / "a.db").touch()
    vfs = EncryptedVfs(EncryptedPages(bytes(range(64)), "0a1b2c3d"))
    flags = [apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_READWRITE, 0]
    file = vfs.xOpen(str(tmp_path / "a.db-wal"), flags)
    file.xWrite(b"h" * 32, 0)
    heads = [number.to_bytes(4, "big") + bytes(20) for number in (1, 7, 7)]
    pages = [bytes([number]) * 4096 for number in (5, 6, 8)]
    for number, (head, page) in enumerate(zip(heads, pages, strict=True)):
        file.xWrite(head, 32 + number * 4120)
        file.xWrite(page, 32 + number * 4120 + 24)
    file.xWrite(pages[0], 32 + 4120 + 24)  # written over, without its head
    for number, page in enumerate((pages[0], pages[0], pages[2])):
        at = 32 + number * 4120
        assert file.xRead(4120, at) == heads[number] + page and file.xRead(4096, at + 24) == page
        assert file.xRead(24, at) == heads[number]
    assert file.xRead(32, 0) == b"h" * 32
    with pytest.raises(apsw.IOError):
        file.xWrite(b"abc", 32 + 24)
    with pytest.raises(apsw.IOError):
        file.xRead(100, 32 + 100)
    file.xClose()
    raw = (tmp_path / "a.db-wal").read_bytes()
    assert raw[32 : 32 + 24] == heads[0] and pages[2] not in raw
