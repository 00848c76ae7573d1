"""Tables and catalogs, open: what cannot be ours, and what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.tables.iceberg_table import SCHEMA, IcebergTable

from fairlead_ingest import errors
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.iceberg.format import IcebergFormat
from fairlead_ingest.table.catalog import Catalog


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    return IcebergTable(tmp_path)


def test_a_table_at_another_place_is_not_taken_for_ours(table: IcebergTable, tmp_path: Path) -> None:
    """Two jobs whose folders end alike, in one namespace."""
    with pytest.raises(errors.Stop, match="lies at file:"):
        table.format.ensure(tmp_path / "other" / "rows", SCHEMA)


def test_without_a_catalog_it_says_what_is_missing(tmp_path: Path) -> None:
    """Tasks write without one."""
    bare = IcebergFormat(None)
    assert bare.writing(tmp_path / "rows").close() == []
    with pytest.raises(errors.Stop, match=r"catalog. uri: required"):
        bare.version(tmp_path / "rows")


def test_a_catalog_that_cannot_be_opened_is_said_in_a_sentence(tmp_path: Path) -> None:
    """Before anything is written."""
    away = tables.of("iceberg", Catalog(type="sql", uri=f"sqlite:///{tmp_path}/none/catalog.db"))
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_CATALOG_UNFIT: .*unable to open database file"):
        away.version(tmp_path / "rows")
