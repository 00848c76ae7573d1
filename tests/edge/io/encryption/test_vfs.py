"""What SQLite may ask of an encrypted file."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from fairlead_edge.io.encryption.pages import EncryptedPages
from fairlead_edge.io.encryption.vfs import EncryptedVfs


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
    """Their heads lie open, their pages do not; read whole or page by page."""
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
