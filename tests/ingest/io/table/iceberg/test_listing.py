"""Files of a version, from manifests alone."""

from __future__ import annotations

from pathlib import Path

from tests.support.tables.iceberg_table import TOPIC, IcebergTable

from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.iceberg import iceberg_table


def test_files_are_listed_oldest_first_with_topic_day_and_highest_id(tmp_path: Path) -> None:
    table = IcebergTable(tmp_path)
    assert iceberg_table.list_parts(table.opened()) == []
    table.commit(0, 1, 2)
    table.format.append(table.place, table.written(7, topic="b/t"), tables.UNNUMBERED)
    first, second = iceberg_table.list_parts(table.opened())
    assert (first.topic, str(first.date), first.rows, first.highest_id, first.number) == (
        TOPIC,
        "2026-11-20",
        2,
        "0002",
        1,
    )
    assert (second.topic, second.rows, second.number) == ("b/t", 1, 2)
    assert table.format.highest_ids(table.place) == {TOPIC: "0002", "b/t": "0007"}


def test_a_manifest_is_read_once(tmp_path: Path) -> None:
    """It never changes; a look for a message asks for all of them each second."""
    table = IcebergTable(tmp_path)
    table.commit(0, 1)
    iceberg_table.list_parts(table.opened())
    before = iceberg_table._read_manifest.cache_info().misses
    iceberg_table.list_parts(table.opened())
    assert iceberg_table._read_manifest.cache_info().misses == before


def test_rows_marked_as_deleted_by_others_are_seen(tmp_path: Path) -> None:
    table = IcebergTable(tmp_path)
    table.commit(0, 1)
    assert iceberg_table.has_deletes(table.opened()) is False
