"""What the port does for its stores; what they promise is in tests/conformance."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead_messaging.server.store.ordered_kv import take_of


def test_the_beginning_of_a_scan_is_read_no_further_than_its_limits() -> None:
    """The row by which there are enough bytes is the last one, and none after it is asked for."""
    asked = []

    def rows() -> Iterator[tuple[bytes, bytes]]:
        for number in range(9):
            asked.append(number)
            yield b"%d" % number, b"four"

    assert take_of(rows(), 100, 10) == ([b"0", b"1", b"2"], [b"four"] * 3)
    assert asked == [0, 1, 2]
    assert take_of(rows(), 2, 100) == ([b"0", b"1"], [b"four"] * 2)
