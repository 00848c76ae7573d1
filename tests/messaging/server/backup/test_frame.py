"""The frame: what its checksum covers."""

from __future__ import annotations

from fairlead_messaging.server import backup


def test_the_checksum_is_of_kind_and_content() -> None:
    """A block cannot be taken for an end."""
    rows, end = backup.framed(backup.ROWS, b"x"), backup.framed(backup.END, b"x")
    assert backup.HEAD.unpack_from(rows)[1:2] == (1,) and rows[backup.HEAD.size :] == b"x"
    assert backup.HEAD.unpack_from(rows)[2] != backup.HEAD.unpack_from(end)[2]
