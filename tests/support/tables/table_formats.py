"""Table formats by name, each with what it needs besides a folder: for Iceberg a catalog, here in SQLite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, get_args

import pyarrow as pa

from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.rows import envelope, transforms
from fairlead_ingest.settings import TableFormatName
from fairlead_ingest.table.catalog import Catalog
from fairlead_ingest.table.store_path import Place

FORMATS: Final[tuple[str, ...]] = get_args(TableFormatName)
# The columns of a job without a contract.
ROWS_SCHEMA = pa.schema(
    [
        *[field for field in envelope.PAGE_SCHEMA if field.name not in transforms.PASSENGERS],
        ("_ingested_at", envelope.TIMESTAMP),
        ("_batch", pa.int64()),
        ("_date", pa.date32()),
    ]
)


def catalog_of(name: str, folder: Path) -> Catalog | None:
    """The catalog in ``folder`` if the format has one."""
    return Catalog(type="sql", uri=f"sqlite:///{folder}/catalog.db") if name == "iceberg" else None


def format_of(name: str, folder: Path) -> TableFormat:
    return tables.of(name, catalog_of(name, folder))


def append_rows(
    table_format: TableFormat,
    table: Place,
    rows: pa.Table | Sequence[Mapping[str, object]],
    schema: pa.Schema | None = None,
) -> None:
    """Commit these rows without a batch number; rows given as dictionaries need the schema."""
    writing = table_format.writing(table)
    writing.add(rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows, schema=schema))
    table_format.append(table, writing.close(), tables.UNNUMBERED)


def settings_of(name: str, folder: Path) -> dict[str, Any]:
    """The settings of a job for this format."""
    found = catalog_of(name, folder)
    return {"table_format": name, **({} if found is None else {"catalog": {"uri": found.uri}})}
