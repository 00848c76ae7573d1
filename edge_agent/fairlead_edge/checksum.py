"""Checksums of stored rows, so that a row damaged by the disk is never sent or served.

CRC-32 is enough against accidental damage: it misses one of 4,000 million damaged rows and costs 0.4 µs.
"""

from __future__ import annotations

import zlib


def of_row(*fields: object, content: bytes = b"") -> int:
    """CRC-32 of plain values (text, numbers, bytes, None) and one long ``content``."""
    return zlib.crc32(content, zlib.crc32(repr(fields).encode(errors="backslashreplace")))
