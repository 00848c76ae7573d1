"""Small files: sealed as a whole, bound to their names, never twice with the same counter."""

from __future__ import annotations

import hashlib

import pytest

from fairlead_edge.io.encryption.small_files import SmallFiles


def files(secret: bytes = b"k", name: str = "0a1b2c3d") -> SmallFiles:
    return SmallFiles(lambda salt: hashlib.sha256(secret + salt).digest(), name)


def test_what_was_sealed_comes_back() -> None:
    """Also with older content behind its end, and after a restart."""
    sealed = files().seal(b"nobody may read this", "a")
    assert b"nobody" not in sealed
    assert files().unseal(sealed + b"older content", "a") == b"nobody may read this"


def test_every_sealing_differs() -> None:
    one = files()
    assert len({one.seal(b"same", "a") for _ in range(50)} | {files().seal(b"same", "a")}) == 51


def test_anything_else_is_refused() -> None:
    """Another name, another key, a flipped bit anywhere, a missing end, nothing at all."""
    sealed = files().seal(b"content", "a")
    with pytest.raises(ValueError, match="not what was sealed"):
        files().unseal(sealed, "b")
    with pytest.raises(ValueError):
        files(b"other").unseal(sealed, "a")
    with pytest.raises(ValueError, match="with this key"):
        files(name="ffffffff").unseal(sealed, "a")
    for at in range(len(sealed)):
        spoilt = bytearray(sealed)
        spoilt[at] ^= 1
        with pytest.raises(ValueError):
            files().unseal(bytes(spoilt), "a")
    for size in (0, 5, len(sealed) - 1):
        with pytest.raises(ValueError):
            files().unseal(sealed[:size], "a")
