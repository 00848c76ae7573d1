"""Bodies that came packed: whole, or refused."""

from __future__ import annotations

import gzip
import zlib

import pytest

from fairlead_wire.errors import Malformed
from fairlead_wire.http.content_encoding import PIECE_BYTES_MAX, Unpacker

PLAIN = b"a body of some length, " * 20_000


def unpacked(encoding: str, content: bytes, step: int) -> bytes:
    unpacker = Unpacker(encoding)
    found: list[bytes] = []
    for at in range(0, len(content), step):
        pieces = list(unpacker.feed(content[at : at + step]))
        assert encoding in ("", "identity") or all(0 < len(piece) <= PIECE_BYTES_MAX for piece in pieces)
        found += pieces
    unpacker.end()
    return b"".join(found)


def packed(encoding: str) -> bytes:
    match encoding:
        case "gzip" | "GZip":
            return gzip.compress(PLAIN, mtime=0)
        case "deflate":
            return zlib.compress(PLAIN)
    return PLAIN


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 100, 1_000_000])
@pytest.mark.parametrize("encoding", ["", "identity", "gzip", "GZip", "deflate"])
def test_a_whole_body_is_unpacked(encoding: str, step: int) -> None:
    assert unpacked(encoding, packed(encoding), step) == PLAIN


def test_members_follow_each_other_and_deflate_may_be_raw() -> None:
    assert unpacked("gzip", gzip.compress(b"a") + gzip.compress(b"b"), 7) == b"ab"
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    assert unpacked("deflate", raw.compress(PLAIN) + raw.flush(), 1000) == PLAIN
    assert unpacked("gzip", b"", 1) == b""


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize("cut", [1, 4, 8, 30])
def test_a_body_without_its_end_is_refused(encoding: str, cut: int) -> None:
    with pytest.raises(Malformed, match="ends before"):
        unpacked(encoding, packed(encoding)[:-cut], 1000)


@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        ("gzip", b"no gzip"),
        ("deflate", zlib.compress(b"a") + b"more"),
        ("gzip", gzip.compress(b"a", mtime=0) + b"more"),
        ("gzip", gzip.compress(PLAIN, mtime=0)[:-8] + b"12345678"),
    ],
)
def test_what_is_broken_is_refused(encoding: str, content: bytes) -> None:
    with pytest.raises(Malformed, match="not a complete"):
        unpacked(encoding, content, 1000)


def test_an_encoding_that_is_not_known_is_refused_by_name() -> None:
    with pytest.raises(Malformed, match="'br' is not supported: send gzip, deflate or none"):
        Unpacker("br")


def test_a_body_that_is_not_compressed_is_told_so() -> None:
    with pytest.raises(Malformed, match="not a complete gzip: it does not begin like one; is it compressed at all"):
        list(Unpacker("gzip").feed(b'{"messages": []}'))
    with pytest.raises(Malformed, match=r"its data is damaged \(invalid stored block lengths\)"):
        list(Unpacker("gzip").feed(b"\x1f\x8b\x08\x00" + b"x" * 20))
