"""Bytes ⇄ (header, content), bounded before anything is parsed.

    0x01 │ header length, 4 bytes big endian │ header, JSON │ content, bytes to the end

One binary WebSocket message is one frame.  The header is small and typed; the content is passed through
unchanged, so an object is encoded, digested and compressed once, however many nodes receive it.
"""

from __future__ import annotations

import re
import threading
from typing import Final

import msgspec
import zstandard

from fairlead_wire import message
from fairlead_wire.errors import FrameTooLarge, LocalError, Malformed
from fairlead_wire.link import peer_json

FORMAT: Final = 0x01
PREFIX_BYTES: Final = 5
HEADER_BYTES_MAX: Final = 64 * 1024
FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
"""Largest frame that either side sends or accepts."""
CONTENT_BYTES_MAX: Final = 8 * 1024 * 1024
"""Largest uncompressed content; an etcd object is at most 1.5 MiB."""
COMPRESS_BYTES_MIN: Final = 256
"""Below this size compression seldom makes a frame shorter."""

NESTING_MAX: Final = 200
"""Most levels of arrays and objects in content that other programs decode as well."""

# An unterminated string matches to the end of the text; restarting after each quote in it would take hours.
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|([\[{])|([\]}])', re.DOTALL)
_SURROGATES: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_ZSTD_LEVEL: Final = 1
_encoder = msgspec.json.Encoder()
_from_edge = msgspec.json.Decoder(message.FromEdge)
_from_hub = msgspec.json.Decoder(message.FromHub)
_from_device = msgspec.json.Decoder(message.FromDevice)
_to_device = msgspec.json.Decoder(message.ToDevice)


class _Contexts(threading.local):
    """One pair of compression contexts per thread: they are costly to make and not thread-safe."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_content_size=True)
        self.decompressor = zstandard.ZstdDecompressor()


_contexts = _Contexts()


def encode(header: message.AnyHeader, content: bytes = b"") -> bytes:
    """Encode one frame.  Raises ``LocalError`` if it exceeds a limit: the caller must split or refuse it earlier."""
    head = _encoder.encode(header)
    size = PREFIX_BYTES + len(head) + len(content)
    if len(head) > HEADER_BYTES_MAX or size > FRAME_BYTES_MAX:
        raise LocalError(f"frame of {size} bytes (header {len(head)}) is over the limit of {FRAME_BYTES_MAX}")
    return b"".join((bytes((FORMAT,)), len(head).to_bytes(4, "big"), head, content))


def decode_from_edge(frame: bytes) -> tuple[message.FromEdge, bytes]:
    """Decode a frame from an edge.  Raises ``FrameTooLarge`` or ``Malformed``, which end the session."""
    head, content = _split(frame)
    return peer_json.decode(_from_edge, head), content


def decode_from_hub(frame: bytes) -> tuple[message.FromHub, bytes]:
    """Decode a frame from a hub.  Raises ``FrameTooLarge`` or ``Malformed``, which end the session."""
    head, content = _split(frame)
    return peer_json.decode(_from_hub, head), content


def decode_from_device(frame: bytes) -> tuple[message.FromDevice, bytes]:
    """Decode a frame from a device without a certificate.  Raises ``FrameTooLarge`` or ``Malformed``."""
    head, content = _split(frame)
    return peer_json.decode(_from_device, head), content


def decode_to_device(frame: bytes) -> tuple[message.ToDevice, bytes]:
    """Decode a frame to a device without a certificate.  Raises ``FrameTooLarge`` or ``Malformed``."""
    head, content = _split(frame)
    return peer_json.decode(_to_device, head), content


def _split(frame: bytes) -> tuple[bytes, bytes]:
    if len(frame) > FRAME_BYTES_MAX:
        raise FrameTooLarge(size=len(frame), limit=FRAME_BYTES_MAX)
    if len(frame) < PREFIX_BYTES or frame[0] != FORMAT:
        raise Malformed("not a frame: wrong first byte or too short")
    length = int.from_bytes(frame[1:PREFIX_BYTES], "big")
    if length > HEADER_BYTES_MAX:
        raise FrameTooLarge(size=length, limit=HEADER_BYTES_MAX)
    if PREFIX_BYTES + length > len(frame):
        raise Malformed(f"header of {length} bytes is cut off")
    return frame[PREFIX_BYTES : PREFIX_BYTES + length], frame[PREFIX_BYTES + length :]


def nesting(text: bytes) -> int:
    """The nesting depth of brackets outside strings; 0 if there are too few brackets to exceed ``NESTING_MAX``.

    The depth at which a decoder fails depends on its caller's stack.  Content below this limit decodes everywhere.
    """
    if text.count(b"[") + text.count(b"{") <= NESTING_MAX:
        return 0
    deepest = depth = 0
    for found in _BRACKETS.finditer(text):
        if found[1]:
            depth += 1
            deepest = max(deepest, depth)
        elif found[2]:
            depth -= 1
    return deepest


def without_lone_surrogates(text: bytes) -> bytes:
    """Replace each escaped lone surrogate in JSON by U+FFFD, without changing the length.

    A single lone surrogate makes decoders refuse the whole text, even in a value that they skip.
    """
    return _SURROGATES.sub(lambda found: rb"\ufffd" if found[1] else found[0], text)


def pack(content: bytes) -> tuple[message.Encoding, bytes]:
    """Compress ``content`` if that makes it shorter.  Returns the encoding for the header, and the bytes."""
    if len(content) < COMPRESS_BYTES_MIN:
        return "", content
    packed = _contexts.compressor.compress(content)
    return ("zstd", packed) if len(packed) < len(content) else ("", content)


def unpack(encoding: message.Encoding, content: bytes, limit: int = CONTENT_BYTES_MAX) -> bytes:
    """Undo ``pack``.  A decompression bomb is refused by its declared size, before it is decompressed."""
    if not encoding:
        if len(content) > limit:
            raise FrameTooLarge(size=len(content), limit=limit)
        return content
    try:
        declared = zstandard.frame_content_size(content)
        if declared < 0:
            raise Malformed("compressed content does not declare its size")
        if declared > limit:
            raise FrameTooLarge(size=declared, limit=limit)
        return _contexts.decompressor.decompress(content, max_output_size=limit)
    except zstandard.ZstdError as error:
        raise Malformed(f"compressed content: {error}") from None
