"""Catalogs in a database, where none has to run: SQLite, and addresses that are none."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.tables.iceberg_table import IcebergTable

from fairlead_ingest import errors
from fairlead_ingest.io.table.iceberg import catalogs, compaction
from fairlead_ingest.io.table.iceberg.file_io import TableFiles
from fairlead_ingest.table.catalog import Catalog
from fairlead_ingest.table.store_path import FROM_ENVIRONMENT


@pytest.mark.parametrize(
    ("uri", "said"), [("mysql+nodriver://host/db", "install the driver"), ("postgresql://h:x/db", "no address")]
)
def test_an_address_that_nothing_can_take_says_why(uri: str, said: str) -> None:
    """Only SQLite's driver comes with Python."""
    with pytest.raises(errors.Stop, match=f"{errors.BAD_OPTION}: .*{said}"):
        catalogs.connect(Catalog(type="sql", uri=uri), FROM_ENVIRONMENT)


def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(errors.Stop, match=errors.CATALOG_UNFIT):
        catalogs.connect(Catalog(type="sql", uri=f"sqlite:///{tmp_path}/catalog.db"), FROM_ENVIRONMENT)


def test_how_files_are_read_is_said_by_no_property_of_a_table(tmp_path: Path) -> None:
    """Other writers of the table may set those, for readers of theirs."""
    table = IcebergTable(tmp_path)
    with table.opened().transaction() as others:
        others.set_properties(
            {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO", "fairlead.storage": '{"endpoint_url": "http://other"}'}
        )
    found = catalogs.connect(table.catalog, FROM_ENVIRONMENT).load_table(("fairlead", "rows"))
    assert isinstance(found.io, TableFiles)
    assert "other" not in found.io.properties["fairlead.storage"]
    assert table.commit(0, 1) is True and table.numbers() == [1]


class Loaded:
    """What a hostile writer would have a job make."""

    def __init__(self, *_: object) -> None:
        raise AssertionError("it was loaded")


def test_code_that_a_property_of_a_table_names_is_not_loaded(tmp_path: Path) -> None:
    """Also where it came between the look at a table and the commit."""
    table = IcebergTable(tmp_path)
    table.commit(0, 1)
    decided, files = table.decided(1, 2), table.written(2)
    table.rewrite("properties", {"write.py-location-provider.impl": f"{__name__}.Loaded"})
    said = f"{errors.TABLE_UNFIT}: the table's property write.py-location-provider.impl names code to load"
    with pytest.raises(errors.Stop, match=said):
        table.format.append(table.place, files, decided)  # type: ignore[arg-type]
    with pytest.raises(errors.Stop, match=said):
        table.commit(1, 2)
    with pytest.raises(errors.Stop, match=said):
        compaction.of(table.format, table.place)
