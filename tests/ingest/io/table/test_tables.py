"""Which module knows a kind, and where companions lie."""

from __future__ import annotations

from pathlib import Path

from fairlead_ingest.io.table import delta, tables
from fairlead_ingest.table.catalog import Catalog


def test_a_format_is_found_by_its_name(tmp_path):
    assert tables.of("delta") is delta
    assert type(tables.of("iceberg", Catalog(type="sql", uri=f"sqlite:///{tmp_path}/c.db"))).__name__ == "IcebergFormat"


def test_a_companion_lies_beside_its_table():
    assert tables.beside(Path("/a/rows.v2"), tables.GAPS) == Path("/a/rows.v2_gaps")
