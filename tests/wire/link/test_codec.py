"""Frames: bounded before they are parsed, content untouched."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from fairlead_wire import message
from fairlead_wire.errors import FrameTooLarge, LocalError, Malformed
from fairlead_wire.link import codec

HELLO = message.Hello(node="edge-1", agent="0.1.0", store_epoch=2**53 - 1, fence=3, bits=2, held=17, root="ab")


def test_an_ack_keeps_the_seeds_words():
    """Operation "ack" and ParentID are on the wire as the seed names them."""
    frame = codec.encode(message.Ack(parent_id=17, cumulative=True))
    assert b'"operation":"ack"' in frame and b'"parentID":17' in frame


@given(st.binary(max_size=3000))
def test_content_passes_through_untouched(content):
    """Whatever the bytes, packed or not, they come out as they went in."""
    encoding, packed = codec.pack(content)
    header = message.Update(
        id=1, resource="api/v1/nodes/x", uid="u", resource_version="1", digest="d", encoding=encoding
    )
    decoded, received = codec.decode_from_hub(codec.encode(header, packed))
    assert decoded == header
    assert codec.unpack(encoding, received) == content


@given(st.binary(max_size=200))
def test_garbage_is_malformed_and_nothing_worse(data):
    for decode in (codec.decode_from_edge, codec.decode_from_hub):
        try:
            decode(data)
        except (Malformed, FrameTooLarge):
            continue
        pytest.fail(f"{data!r} was taken for a frame")


@given(st.data())
def test_a_damaged_frame_is_malformed_or_another_header(data):
    """Cutting or flipping any byte never escapes as a foreign exception."""
    frame = bytearray(codec.encode(HELLO))
    index = data.draw(st.integers(0, len(frame) - 1))
    frame[index] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(frame)))
    for damaged in (bytes(frame), bytes(frame[:cut])):
        try:
            codec.decode_from_edge(damaged)
        except (Malformed, FrameTooLarge):
            continue


def test_each_direction_has_its_own_verbs():
    with pytest.raises(Malformed):
        codec.decode_from_edge(codec.encode(message.Delete(id=1, resource="api/v1/nodes/x", uid="u")))
    with pytest.raises(Malformed):
        codec.decode_from_hub(codec.encode(HELLO))


def test_nesting_counts_levels_outside_of_strings():
    """Exact where it matters; with too few brackets to be over the limit they are not counted."""
    deep = codec.NESTING_MAX + 1
    assert codec.nesting(b'{"a":' * deep + b"1" + b"}" * deep) == deep
    assert codec.nesting(b"[" + b"[],{}," * deep + b"1]") == 2
    assert codec.nesting(b'"' + b"[" * deep + b'\\"["') == 0
    assert codec.nesting(b"[[[]]]") == 0


def test_a_long_frame_is_refused_before_it_is_parsed():
    with pytest.raises(FrameTooLarge):
        codec.decode_from_edge(b"\x01" + b"\x00" * codec.FRAME_BYTES_MAX)
    with pytest.raises(FrameTooLarge):
        codec.decode_from_edge(b"\x01\xff\xff\xff\xff{}")
    with pytest.raises(LocalError):
        codec.encode(HELLO, b"\x00" * codec.FRAME_BYTES_MAX)


def test_a_decompression_bomb_is_refused_by_its_declared_size():
    bomb = zstandard.ZstdCompressor(level=19).compress(b"\x00" * (codec.CONTENT_BYTES_MAX + 1))
    assert len(bomb) < 2000
    with pytest.raises(FrameTooLarge):
        codec.unpack("zstd", bomb)


def test_compressed_content_must_say_its_size_and_be_whole():
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(b"a" * 1000)
    with pytest.raises(Malformed):
        codec.unpack("zstd", silent)
    with pytest.raises(Malformed):
        codec.unpack("zstd", b"not zstd at all")
    _, packed = codec.pack(b"abc" * 1000)
    with pytest.raises(Malformed):
        codec.unpack("zstd", packed[:-3])
    with pytest.raises(FrameTooLarge):
        codec.unpack("", b"a" * 11, limit=10)


def test_threads_pack_and_unpack_side_by_side():
    """Compression contexts are not shared: what one thread packs, no other thread garbles."""
    contents = [bytes([n]) * 5000 + str(n).encode() * 400 for n in range(64)]

    def there_and_back(content):
        return codec.unpack(*codec.pack(content))

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(there_and_back, contents * 10)) == contents * 10
