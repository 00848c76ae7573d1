"""The frame: what its checksum covers."""

from __future__ import annotations

from fairlead_messaging.server.backup import frame


def test_the_checksum_is_of_kind_and_content() -> None:
    """A block cannot be taken for an end."""
    rows, end = frame.framed(frame.ROWS, b"x"), frame.framed(frame.END, b"x")
    assert frame.HEAD.unpack_from(rows)[1:2] == (1,) and rows[frame.HEAD.size :] == b"x"
    assert frame.HEAD.unpack_from(rows)[2] != frame.HEAD.unpack_from(end)[2]
