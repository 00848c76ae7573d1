"""Names that come in their order, however little time there is."""

from __future__ import annotations

from fairlead_ingest.io.pipeline.query import RoundRobin


def test_all_come_once_where_there_is_time() -> None:
    """Beginning where the last time ended."""
    names = RoundRobin(["a", "b", "c"])
    assert list(names.take(60.0)) == ["a", "b", "c"]
    assert list(names.take(-1.0)) == ["a"]
    assert list(names.take(60.0)) == ["b", "c", "a"]
    assert list(RoundRobin([]).take(60.0)) == []
