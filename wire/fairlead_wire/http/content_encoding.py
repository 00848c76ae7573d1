"""Undoes the Content-Encoding of a request's body, piece by piece.

The HTTP library accepts a gzip body that ends within its data or before its checksum: a broken connection would look
like a complete request.  Servers read bodies as they arrive (``auto_decompress=False``) and unpack them here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from fairlead_wire.errors import Malformed

PIECE_BYTES_MAX: Final = 64 * 1024
"""A body is unpacked in pieces of at most this size: the caller counts them, and stops when there are too many."""
_GZIP: Final = zlib.MAX_WBITS | 16
_ZLIB: Final = zlib.MAX_WBITS
_RAW: Final = -zlib.MAX_WBITS
_ENCODINGS: Final = {"": 0, "identity": 0, "gzip": _GZIP, "x-gzip": _GZIP, "deflate": _ZLIB}


class Unpacker:
    """Unpacks one body.  ``encoding`` is its Content-Encoding.  Every method raises ``Malformed`` with the reason."""

    def __init__(self, encoding: str = "") -> None:
        self._encoding = encoding.strip()
        found = _ENCODINGS.get(self._encoding.lower())
        if found is None:
            raise Malformed(f"Content-Encoding {self._encoding[:80]!r} is not known here: send gzip, deflate or none")
        self._window = found
        self._stream = zlib.decompressobj(found) if found else None
        self._has_begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Unpack these bytes of the body."""
        if not self._window:
            yield data
            return
        is_more = False
        while data or is_more:
            if self._stream is None or self._stream.eof:
                if self._window != _GZIP:
                    raise self._wrong("bytes follow its end")
                self._stream = zlib.decompressobj(_GZIP)  # RFC 1952: members follow each other
            if not self._has_begun and self._window == _ZLIB and data[0] & 0xF != zlib.DEFLATED:
                self._stream = zlib.decompressobj(_RAW)  # as some clients send it, against RFC 9110
            self._has_begun = True
            try:
                piece = self._stream.decompress(data, PIECE_BYTES_MAX)
            except zlib.error as error:
                raise self._wrong(str(error)) from None
            data = self._stream.unconsumed_tail or self._stream.unused_data
            is_more = len(piece) == PIECE_BYTES_MAX and not self._stream.eof
            if piece:
                yield piece

    def end(self) -> None:
        """Call at the end: the body must be complete."""
        if self._window and self._has_begun and self._stream is not None and not self._stream.eof:
            raise self._wrong("it ends before its end mark and checksum")

    def _wrong(self, why: str) -> Malformed:
        return Malformed(f"the body is not a complete {self._encoding[:80]}: {why}")
