"""The frames of a backup, and what stands in the first and the last."""

from __future__ import annotations

import struct
import zlib
from typing import Final

import msgspec

MAGIC: Final = b"fairlead-messaging-backup\n"
FORMAT: Final = 1
HEAD: Final = struct.Struct(">cII")
ROW: Final = struct.Struct(">II")
HEADER, ROWS, END = b"H", b"R", b"E"
FRAME_BYTES_MAX: Final = 256 * 1024 * 1024
"""Of a frame's content, packed or not: far above the largest row, which one request must have brought."""


class BackupHeader(msgspec.Struct, frozen=True):
    """Of what it is a backup; ``taken_ms`` is the time of its snapshot."""

    format: int
    program: str
    service: str
    taken_ms: int


class End(msgspec.Struct, frozen=True):
    """``sha256`` of every byte before this frame."""

    rows: int
    bytes: int
    sha256: str


def framed(kind: bytes, content: bytes) -> bytes:
    """One frame."""
    return HEAD.pack(kind, len(content), zlib.crc32(content, zlib.crc32(kind))) + content
