"""Opening Iceberg tables: refusing what is not ours, and listing the files of a version."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from tests.support.tables.iceberg_table import SCHEMA, TOPIC

from fairlead_ingest import errors
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.iceberg import iceberg_table
from fairlead_ingest.io.table.iceberg.format import IcebergFormat
from fairlead_ingest.table.catalog import Catalog


def test_a_table_at_another_place_is_not_taken_for_ours(table, tmp_path):
    with pytest.raises(errors.Stop, match=" at file:"):
        table.format.ensure(tmp_path / "other" / "rows", SCHEMA)


def test_without_a_catalog_it_says_what_is_missing(tmp_path):
    bare = IcebergFormat(None)
    assert bare.writing(tmp_path / "rows").close() == []
    with pytest.raises(errors.Stop, match=r"catalog. uri: required"):
        bare.version(tmp_path / "rows")


def test_a_catalog_that_cannot_be_opened_is_said_in_a_sentence(tmp_path):
    away = tables.of("iceberg", Catalog(type="sql", uri=f"sqlite:///{tmp_path}/none/catalog.db"))
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_CATALOG_UNFIT: .*unable to open database file"):
        away.version(tmp_path / "rows")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format-version", 9),
        ("format-version", 3),
        ("manifest-list", "gs://elsewhere/list.avro"),
        ("manifest-list", __file__),
        ("manifest-list", str(Path(__file__).parent)),
        ("properties", {"write.metadata.path": "gs://elsewhere"}),
        ("properties", {"write.metadata.path": "/tmp/elsewhere"}),
        ("properties", {"write.data.path": "s3://bucket:hunter2/elsewhere"}),
        ("properties", {"write.metadata.previous-versions-max": "many"}),
        ("properties", {"write.object-storage.enabled": "perhaps"}),
        ("properties", {"fairlead.newest": "{"}),
    ],
)
def test_metadata_that_says_what_it_should_not_stops_a_job_in_a_sentence(table, key, value):
    table.commit(0, 1)
    table.rewrite(key, value)
    with pytest.raises(errors.Stop, match=errors.TABLE_UNFIT) as error:
        table.commit(1, 2)
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_metadata_is_not_shown(table, tmp_path):
    (tmp_path / "00001-x.metadata.json").write_text("not-for-logs")
    with sqlite3.connect(tmp_path / "catalog.db") as asked:
        asked.execute("update iceberg_tables set metadata_location = ?", [f"{tmp_path}/00001-x.metadata.json"])
    with pytest.raises(errors.Stop, match=f"{errors.TABLE_UNFIT}: .*metadata.*Invalid JSON") as error:
        table.format.version(table.place)
    assert "not-for" not in str(error.value)


@pytest.mark.parametrize("kept", ["9" * 5000, "²", "-1", "many"])
def test_how_many_versions_are_kept_is_a_number_or_the_usual(table, kept):
    with table.opened().transaction() as others:
        others.set_properties({"history.expire.min-snapshots-to-keep": kept})
    assert table.commit(0, 1) is True and table.numbers() == [1]


def test_a_summary_of_others_is_not_taken_for_ours(table):
    table.commit(0, 1)
    said = {"operation": "append", "fairlead": "{", "total-records": "many", "total-data-files": "1"}
    table.rewrite("summary", said)
    found = table.format.size(table.place)
    assert found is not None and found.rows == 1
    assert len(table.format.last_entries(table.place, 5)) == 1
    assert table.commit(1, 2) is True


@pytest.mark.parametrize("end", ["", "2", "/../../elsewhere", "/a/../.."])
def test_new_files_go_below_the_table_or_nowhere(table, end):
    """What another writer set as the place of metadata is kept to where it is inside, and said where it is not."""
    table.rewrite("properties", {"write.metadata.path": f"file://{table.place}/metadata{end}"})
    if ".." in end:
        with pytest.raises(errors.Stop, match=r"write.metadata.path names .* not below the table"):
            table.commit(0, 1)
    else:
        assert table.commit(0, 1) and table.format.version(table.place) is not None
    assert not (table.folder / "elsewhere").exists()


def test_who_only_reads_makes_no_catalog(tmp_path):
    """SQLite makes the file of a database that is asked; the job that makes the table makes it."""
    reading = IcebergFormat(Catalog(type="sql", uri=f"sqlite:///{tmp_path}/catalog.db"))
    place = tmp_path / "rows"
    assert reading.version(place) is None and reading.size(place) is None and reading.last_entries(place, 3) == []
    with pytest.raises(errors.Stop, match=r"there is no table here: the catalog sqlite:.*catalog\.db does not exist"):
        reading.open.required(place)
    assert list(tmp_path.iterdir()) == []
    reading.ensure(place, SCHEMA)
    assert (tmp_path / "catalog.db").exists() and reading.size(place) is not None


def test_files_are_listed_oldest_first_with_topic_day_and_highest_id(table):
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


def test_a_manifest_is_read_once(table):
    """It never changes; a look for a message asks for all of them each second."""
    table.commit(0, 1)
    iceberg_table.list_parts(table.opened())
    before = iceberg_table._read_manifest.cache_info().misses
    iceberg_table.list_parts(table.opened())
    assert iceberg_table._read_manifest.cache_info().misses == before
