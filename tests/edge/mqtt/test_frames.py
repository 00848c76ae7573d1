"""Packets come whole whatever pieces they arrive in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.edges import mqtt_packets as client

from fairlead_edge.mqtt.codec import PacketBytes, PacketReader
from fairlead_edge.mqtt.reasons import Code

BYTES_MAX = 4096


@given(
    st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=300)), max_size=8),
    st.lists(st.integers(1, 50), min_size=1, max_size=20),
)
def test_any_pieces_make_the_same_packets(sent: list[tuple[int, bytes]], sizes: list[int]) -> None:
    content = b"".join(client.packet(first, body) for first, body in sent)
    frames, found, at, turn = PacketReader(BYTES_MAX), list[PacketBytes](), 0, 0
    while at < len(content):
        size = sizes[turn % len(sizes)]
        found += frames.feed(content[at : at + size])
        at, turn = at + size, turn + 1
    assert found == [PacketBytes(*each) for each in sent]
    assert frames.waiting_bytes == 0
    assert frames.wrong is None


def test_a_packet_that_says_it_is_too_large_is_refused_before_it_comes() -> None:
    frames = PacketReader(100)
    assert frames.feed(client.packet(0x30, b"x" * 98)) == [PacketBytes(0x30, b"x" * 98)]
    assert frames.feed(b"\xc0\x00" + client.packet(0x30, b"x" * 99)[:2]) == [PacketBytes(0xC0, b"")]
    assert frames.wrong is not None
    assert frames.wrong.code is Code.PACKET_TOO_LARGE
    assert frames.waiting_bytes == 0
    assert frames.feed(client.PINGREQ) == []


def test_a_length_that_never_ends_is_malformed() -> None:
    for content in (b"\x30\xff\xff\xff\xff", b"\x30\x80\x00"):
        frames = PacketReader(BYTES_MAX)
        for byte in content:
            assert frames.feed(bytes([byte])) == []
        assert frames.wrong is not None
        assert frames.wrong.code is Code.MALFORMED_PACKET
