"""Which module knows a kind, and where companions lie."""

from __future__ import annotations

from pathlib import Path

from tests.support.tables.table_formats import IN_FOLDERS

from fairlead_ingest.io.table import delta, parquet, tables


def test_every_sink_one_can_set_is_there() -> None:
    """And is the module of its name."""
    assert [tables.of(name) for name in IN_FOLDERS] == [delta, parquet]


def test_a_companion_lies_beside_its_table() -> None:
    """Whatever the table's name looks like."""
    assert tables.beside(Path("/a/rows.v2"), tables.GAPS) == Path("/a/rows.v2_gaps")
