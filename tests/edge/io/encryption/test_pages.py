"""A page to the disk and back: its length and its place stay, and nothing of it can be read."""

from __future__ import annotations

import os

import pytest

from fairlead_edge.io.encryption.pages import EncryptedPages, PlainPages
from fairlead_edge.io.file_access import CLEAR_BYTES, SQLITE_MAGIC

PAGES = EncryptedPages(bytes(range(64)), "0a1b2c3d")
PAGE = (b"nobody may read this " * 200)[:4096]


@pytest.mark.parametrize("number", [2, 3, 1 << 31])
def test_a_page_comes_back_at_its_place_only(number: int) -> None:
    """Moved to another place it is noise, and one flipped bit spoils one block."""
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
    """The end of a damaged file."""
    sealed = PAGES.encrypt(number, PAGE)
    whole = size - (max(0, size - CLEAR_BYTES) if number == 1 else size) % 16
    assert PAGES.decrypt(number, sealed[:size])[:whole] == PAGE[:whole]
    assert len(PAGES.encrypt(number, PAGE[:size])) == size


def test_plain_pages_are_as_they_are() -> None:
    assert PlainPages().encrypt(1, PAGE) == PlainPages().decrypt(1, PAGE) == PAGE
