"""Bytes come in the sizes they are asked for."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from fairlead_messaging.server.backup import Copied, Pieces


@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(0, 30), min_size=1))
def test_pieces_are_read_in_other_sizes(pieces: list[bytes], sizes: list[int]) -> None:
    """Nothing is lost or doubled; less than asked for comes at the end alone."""
    source, whole = Pieces(iter(pieces)), io.BytesIO(b"".join(pieces))
    for size in sizes:
        assert source.read(size) == whole.read(size)


def test_what_is_read_is_copied() -> None:
    sink = io.BytesIO()
    source = Copied(io.BytesIO(b"abcdef"), sink)
    assert (source.read(4), sink.getvalue()) == (b"abcd", b"abcd")
    assert (source.read(4), source.read(4), sink.getvalue()) == (b"ef", b"", b"abcdef")
