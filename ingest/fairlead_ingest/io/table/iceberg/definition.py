"""Creates Iceberg tables and adds columns to them; partitions and properties."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError, TableAlreadyExistsError
from pyiceberg.table import Table, TableProperties

from fairlead_ingest import errors
from fairlead_ingest.io.table import table_format
from fairlead_ingest.io.table.iceberg import columns, file_io, versions
from fairlead_ingest.io.table.iceberg.iceberg_table import OpenTables
from fairlead_ingest.table.store_path import Place

METADATA_VERSIONS_MAX: Final = 20
"""How many older ``metadata.json`` files are kept; each is complete."""
ENSURE_TRIES: Final = 5
PROPERTIES: Final = {
    TableProperties.FORMAT_VERSION: "2",
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: str(METADATA_VERSIONS_MAX),
    TableProperties.MIN_SNAPSHOTS_TO_KEEP: str(versions.VERSIONS_KEPT),
    TableProperties.PARQUET_COMPRESSION: "zstd",
}
FORMAT_VERSION_MAX: Final = 2


def ensure(tables: OpenTables, table: Place, schema: pa.Schema) -> None:
    """Create ``table`` or add missing columns. Raises ``Stop``, ``Wait``."""
    for _ in range(ENSURE_TRIES):
        with tables.explained(table):
            try:
                found = tables.find(table)
                return _create(tables, table, schema) if found is None else _grow(table, found, schema)
            except (CommitFailedException, TableAlreadyExistsError):
                continue  # another job was first; read again what it created
    raise errors.Wait(errors.CATALOG_AWAY, f"{table}: other jobs keep changing its columns")


def _create(tables: OpenTables, table: Place, schema: pa.Schema) -> None:
    if isinstance(table, Path):
        table_format.refuse_other(table, "iceberg")
    name, catalog = tables.identifier(table), tables.catalog(table)
    try:
        if not catalog.namespace_exists(name[:-1]):
            catalog.create_namespace(name[:-1])
    except NamespaceAlreadyExistsError:
        pass  # another job has just created it
    fields = columns.to_iceberg(schema)
    catalog.create_table(
        name,
        fields,
        location=file_io.location_of(table),
        partition_spec=columns.partitions(fields),
        properties={**PROPERTIES, TableProperties.DEFAULT_NAME_MAPPING: fields.name_mapping.model_dump_json()},
    )


def _grow(table: Place, found: Table, schema: pa.Schema) -> None:
    held = found.schema()
    if not columns.is_partitioned_as_ours(held, found.spec()):
        raise errors.not_ours(table, "an Iceberg")
    if found.format_version > FORMAT_VERSION_MAX:
        raise errors.Stop(
            errors.TABLE_UNFIT, f"{table}: Iceberg format version {found.format_version} is not supported, only 2"
        )
    missing = columns.missing_fields(table, held, schema)
    if TableProperties.DEFAULT_NAME_MAPPING not in found.properties:
        with found.transaction() as transaction:
            transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: held.name_mapping.model_dump_json()})
    if missing:
        grown = columns.to_iceberg(schema)
        with found.update_schema() as update:
            for name in missing:
                update.add_column(name, grown.find_field(name).field_type)
