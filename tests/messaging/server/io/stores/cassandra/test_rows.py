"""Ranges in parts, values in pieces; the statements themselves are tried in tests/conformance."""

from __future__ import annotations

import itertools

import pytest

from fairlead_messaging.server.io.stores.cassandra.rows import _Narrowed, _Whole
from fairlead_messaging.server.io.stores.cassandra.session import TooManyTombstones


def test_values_are_put_together_over_pages() -> None:
    """What is left of a longer value before is passed over."""
    whole = _Whole()
    assert list(whole.take([(b"a", 0, 2, b"1")])) == []
    assert list(whole.take([(b"a", 1, 2, b"2"), (b"a", 2, 3, b"stale"), (b"b", 0, 1, b"")])) == [
        (b"a", b"12"), (b"b", b"")
    ]  # fmt: skip


@pytest.mark.parametrize("down", [False, True])
def test_parts_cover_a_range_without_a_gap(down: bool) -> None:
    """From either end, after any number of refusals."""
    ask = _Narrowed(b"a", b"c")
    ask.narrow()
    ask.narrow()
    parts = []
    while (part := ask.last() if down else ask.first()) is not None:
        parts.append(part)
        if down:
            ask.drop_last()
        else:
            ask.drop_first()
    ordered = parts[::-1] if down else parts
    assert ordered[0][0] == b"a" and ordered[-1][1] == b"c" and len(parts) > 1
    assert all(before[1] == after[0] for before, after in itertools.pairwise(ordered))


def test_one_key_cannot_be_narrowed() -> None:
    """Then there is no way around."""
    ask = _Narrowed(b"a", b"a\x00")
    with pytest.raises(TooManyTombstones):
        for _ in range(1000):
            ask.narrow()
