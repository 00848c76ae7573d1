"""Decodes the Content-Encoding of a request body, piece by piece.

The HTTP library accepts a gzip body that is cut off, so a broken connection would look like a complete request.
Servers therefore read raw bodies (``auto_decompress=False``) and decompress them here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from fairlead_wire.errors import Malformed

PIECE_BYTES_MAX: Final = 64 * 1024
"""Largest piece that ``feed`` yields.  The caller adds up the pieces and stops at its own limit."""
_GZIP: Final = zlib.MAX_WBITS | 16
_ZLIB: Final = zlib.MAX_WBITS
_RAW: Final = -zlib.MAX_WBITS
_ENCODINGS: Final = {"": 0, "identity": 0, "gzip": _GZIP, "x-gzip": _GZIP, "deflate": _ZLIB}


class Unpacker:
    """Decompresses one body.  ``encoding`` is its Content-Encoding.  Every method may raise ``Malformed``."""

    def __init__(self, encoding: str = "") -> None:
        self._encoding = encoding.strip()
        found = _ENCODINGS.get(self._encoding.lower())
        if found is None:
            raise Malformed(f"Content-Encoding {self._encoding[:80]!r} is not supported: send gzip, deflate or none")
        self._window = found
        self._stream = zlib.decompressobj(found) if found else None
        self._has_begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decompress the next bytes of the body."""
        if not self._window:
            yield data
            return
        has_more = False
        while data or has_more:
            if self._stream is None or self._stream.eof:
                if self._window != _GZIP:
                    raise self._malformed("bytes follow its end")
                self._stream = zlib.decompressobj(_GZIP)  # RFC 1952: a body may have several members
            if not self._has_begun and self._window == _ZLIB and data[0] & 0xF != zlib.DEFLATED:
                self._stream = zlib.decompressobj(_RAW)  # some clients send raw deflate, contrary to RFC 9110
            self._has_begun = True
            try:
                piece = self._stream.decompress(data, PIECE_BYTES_MAX)
            except zlib.error as error:
                raise self._malformed(_in_words(str(error))) from None
            data = self._stream.unconsumed_tail or self._stream.unused_data
            has_more = len(piece) == PIECE_BYTES_MAX and not self._stream.eof
            if piece:
                yield piece

    def end(self) -> None:
        """Call after the last bytes; raises if the body is incomplete."""
        if self._window and self._has_begun and self._stream is not None and not self._stream.eof:
            raise self._malformed("it ends before its end mark and checksum")

    def _malformed(self, why: str) -> Malformed:
        return Malformed(f"the body is not a complete {self._encoding[:80]}: {why}")


def _in_words(said: str) -> str:
    """zlib's "Error -3 while decompressing data: incorrect header check" for people."""
    why = said.rpartition(": ")[2]
    return (
        f"it does not begin like one; is it compressed at all? ({why})"
        if "header" in why
        else f"its data is damaged ({why})"
    )
