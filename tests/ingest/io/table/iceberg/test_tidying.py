"""What no version needs goes when it is old enough; what any needs stays."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.support.tables.iceberg_table import IcebergTable

from fairlead_ingest.io.table.iceberg import compaction, tidying, versions


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IcebergTable:
    monkeypatch.setattr(versions, "TRIM_EVERY", 1)
    made = IcebergTable(tmp_path)
    with made.opened().transaction() as properties:
        properties.set_properties({"history.expire.min-snapshots-to-keep": "2"})
    for batch in range(8):
        made.commit(batch, batch)
    return made


def age(table: IcebergTable, hours: int) -> None:
    moment = time.time() - hours * 3600
    for path in (table.folder / "rows").rglob("*"):
        if path.is_file():
            os.utime(path, (moment, moment))


def test_metadata_of_forgotten_versions_goes_and_the_rest_is_read(table):
    assert tidying.tidy_metadata(table.opened(), table.place) == []
    age(table, 2)
    gone = tidying.tidy_metadata(table.opened(), table.place)
    assert gone and all(path.startswith("metadata/") for path in gone)
    assert table.opened().scan().to_arrow().num_rows == 8
    assert tidying.tidy_metadata(table.opened(), table.place) == []
    assert table.commit(8, 8) is True
    assert table.numbers() == list(range(9))


def test_a_running_job_tidies_by_itself(table, monkeypatch):
    monkeypatch.setattr(tidying, "TIDY_EVERY", 3)
    age(table, 2)
    before = len(list((table.folder / "rows" / "metadata").iterdir()))
    table.commit(8, 8)
    assert len(list((table.folder / "rows" / "metadata").iterdir())) < before


@pytest.mark.slow
def test_vacuum_takes_what_was_compacted_once_no_version_names_it(table):
    compaction.of(table.format, table.place).compact(target_bytes=1024 * 1024)
    age(table, 3)
    kept = table.format.vacuum(table.place, retention_hours=2, dry_run=True)
    assert not any(path.endswith(".parquet") for path in kept), "a version that is still there names them"
    for batch in range(8, 12):
        table.commit(batch, batch)
    age(table, 3)
    listed = table.format.vacuum(table.place, retention_hours=2, dry_run=True)
    assert sum(path.endswith(".parquet") for path in listed) == 8
    assert table.format.vacuum(table.place, retention_hours=2, dry_run=False) == listed
    assert table.numbers() == list(range(12))
    assert table.opened().scan().to_arrow().num_rows == 12


def test_statistics_of_other_engines_stay(table):
    """Those of a version and those of its partitions, which are other lists in the metadata."""
    version, kept = table.opened().metadata.current_snapshot_id, []
    for key in ("statistics", "partition-statistics"):
        file = table.folder / "rows/metadata" / f"{key}.stats"
        file.write_bytes(b"x")
        kept.append(file)
        said = {"snapshot-id": version, "statistics-path": f"file://{file}", "file-size-in-bytes": 1}
        blobs = {"file-footer-size-in-bytes": 1, "blob-metadata": []} if key == "statistics" else {}
        table.rewrite(key, [{**said, **blobs}])
    age(table, 2)
    assert tidying.tidy_metadata(table.opened(), table.place) != []
    assert all(file.exists() for file in kept)
