"""Converts between Arrow's and Iceberg's columns, and makes manifest entries for the files of tasks.

Tasks do not use the catalog, so their files have column names but no field ids; the table's name mapping supplies them,
as for imported files. Bounds come from the tasks, so files are not read again.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids, schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType, StringType, TimestamptzType

from fairlead_ingest.io.table import table_format
from fairlead_ingest.io.table.files import PARTITION_COLUMNS, WrittenFile
from fairlead_ingest.io.table.iceberg import file_io
from fairlead_ingest.rows import ddl
from fairlead_ingest.table.store_path import Place

_FIRST_PARTITION_ID = 1000
_EPOCH = datetime.date(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


def to_iceberg(schema: pa.Schema) -> Schema:
    """Convert to Iceberg's types, with field ids from 1."""
    return assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(schema))


def to_arrow(schema: Schema) -> pa.Schema:
    """Convert to Arrow's types, without the large types that pyiceberg chooses for texts."""
    found = schema_to_pyarrow(schema, include_field_ids=False)
    return pa.schema([pa.field(each.name, _small(each.type)) for each in found])


def partitions(schema: Schema) -> PartitionSpec:
    """Partitions by topic and date, with identity transforms."""
    return PartitionSpec(
        *(
            PartitionField(
                source_id=schema.find_field(name).field_id,
                field_id=_FIRST_PARTITION_ID + index,
                transform=IdentityTransform(),
                name=name,
            )
            for index, name in enumerate(PARTITION_COLUMNS)
        )
    )


def is_partitioned_as_ours(schema: Schema, spec: PartitionSpec) -> bool:
    found = [(schema.find_column_name(field.source_id), str(field.transform)) for field in spec.fields]
    return found == [(name, "identity") for name in PARTITION_COLUMNS]


def missing_fields(table: Place, held: Schema, wanted: pa.Schema) -> list[str]:
    """The fields of ``wanted`` that ``held`` lacks. Raises ``Stop`` if a type would change."""
    there = {field.name: field.type for field in to_arrow(held)}
    found = []
    for field in to_arrow(to_iceberg(wanted)):
        if field.name not in there:
            found.append(field.name)
        elif there[field.name] != field.type:
            is_now, wanted_now = ddl.of_arrow(there[field.name]), ddl.of_arrow(field.type)
            raise table_format.another_type(table, field.name, is_now, wanted_now)
    return found


def data_files(place: Place, table: Table, files: Sequence[WrittenFile]) -> list[DataFile]:
    """The manifest entries of ``table`` for the files of tasks."""
    schema, spec, location = table.schema(), table.spec(), file_io.location_of(place)
    return [data_file(file, location, schema, spec) for file in files]


def data_file(file: WrittenFile, location: str, schema: Schema, spec: PartitionSpec) -> DataFile:
    """The manifest entry for a task's file."""
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{location}/{file.path}",
        file_format=FileFormat.PARQUET,
        partition=Record(file.topic, (datetime.date.fromisoformat(file.date) - _EPOCH).days),
        record_count=file.rows,
        file_size_in_bytes=file.size,
        lower_bounds=_bounds(file.minimum, schema),
        upper_bounds=_bounds(file.maximum, schema),
        spec_id=spec.spec_id,
    )


def _bounds(texts: Mapping[str, str], schema: Schema) -> dict[int, bytes]:
    found = {}
    for name, text in texts.items():
        field = schema.find_field(name)
        value = _value(field.field_type, text)
        if value is not None and isinstance(field.field_type, PrimitiveType):
            found[field.field_id] = to_bytes(field.field_type, value)
    return found


def _value(kind: Any, text: str) -> str | int | None:
    if isinstance(kind, StringType):
        return text
    if isinstance(kind, TimestamptzType):
        return (datetime.datetime.fromisoformat(text) - _EPOCH_UTC) // _MICROSECOND
    return None


def _small(kind: pa.DataType) -> pa.DataType:
    simple: dict[pa.DataType, Callable[[], pa.DataType]] = {
        pa.large_string(): pa.string,
        pa.large_binary(): pa.binary,
    }
    if kind in simple:
        return simple[kind]()
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(_small(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _small(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(_small(kind.key_type), _small(kind.item_type))
    return kind
