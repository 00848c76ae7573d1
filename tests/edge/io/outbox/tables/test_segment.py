"""Packing of segments: there and back, and from several threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from fairlead_edge.io.outbox.tables import bodies


@pytest.mark.parametrize("content", [b"", b"x", b'{"temperature": 21.5}' * 1000, bytes(range(256)) * 10])
def test_what_is_packed_is_unpacked(content: bytes) -> None:
    """And never longer than it was."""
    encoding, packed = bodies.pack(content)
    assert len(packed) <= len(content)
    assert bodies.unpack(encoding, packed, len(content)) == content


def test_alike_bodies_take_a_fraction() -> None:
    """What the wear of flash is saved by."""
    encoding, packed = bodies.pack(b"".join(b'{"sensor": "boiler-%d", "celsius": %d}' % (n % 7, n) for n in range(500)))
    assert encoding == bodies.ZSTD and len(packed) < 5000


def test_a_short_one_stays_as_it_is() -> None:
    """It is not worth the time."""
    assert bodies.pack(b"x" * (bodies.PACKED_MIN - 1)) == (bodies.PLAIN, b"x" * (bodies.PACKED_MIN - 1))
    assert bodies.pack(b"x" * bodies.PACKED_MIN)[0] == bodies.ZSTD


def test_threads_do_not_disturb_each_other() -> None:
    """The writer packs while the reader unpacks."""
    contents = [bytes([n]) * 50_000 + b"end" for n in range(64)]
    with ThreadPoolExecutor(8) as threads:
        assert (
            list(threads.map(lambda content: bodies.unpack(*bodies.pack(content), len(content)), contents)) == contents
        )


@pytest.mark.parametrize(
    ("encoding", "packed", "size"),
    [
        ("", b"abc", 4),
        ("zstd", bodies.pack(b"a" * 99)[1], 98),
        ("zstd", bodies.pack(b"a" * 99)[1][:-1], 99),
        ("zstd", b"no frame", 99),
        ("gzip", b"abc", 3),
        ("", "text", 4),
    ],
)
def test_what_is_damaged_is_said_to_be(encoding: str, packed: bytes, size: int) -> None:
    """One kind of error whatever is wrong, and never more room than was announced."""
    with pytest.raises(ValueError):
        bodies.unpack(encoding, packed, size)
