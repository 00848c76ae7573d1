"""Bodies end to end, compressed where it pays; safe on any thread, for compressors are not shared between them."""

from __future__ import annotations

import threading
from typing import Final

import zstandard

LEVEL: Final = 1
PLAIN: Final = ""
ZSTD: Final = "zstd"

_own = threading.local()


def pack(content: bytes) -> tuple[str, bytes]:
    """The encoding and the bytes to store."""
    if not hasattr(_own, "compressor"):
        _own.compressor = zstandard.ZstdCompressor(level=LEVEL)
    packed: bytes = _own.compressor.compress(content)
    return (ZSTD, packed) if len(packed) < len(content) else (PLAIN, content)


def unpack(encoding: str, content: bytes) -> bytes:
    """Undo ``pack``."""
    if encoding == PLAIN:
        return content
    if not hasattr(_own, "decompressor"):
        _own.decompressor = zstandard.ZstdDecompressor()
    unpacked: bytes = _own.decompressor.decompress(content)
    return unpacked
