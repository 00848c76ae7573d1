"""Reads an Iceberg table: the rows of a version, or of some of its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs
from pyiceberg.table import Table

from fairlead_ingest.io.table import store_filesystem, table_format
from fairlead_ingest.io.table.iceberg import columns, deleted, file_io, iceberg_table
from fairlead_ingest.io.table.iceberg.iceberg_table import Part
from fairlead_ingest.source.offsets import Offsets
from fairlead_ingest.table.store_path import Place


def table_dataset(place: Place, table: Table) -> ds.Dataset:
    """The rows of the open version, without those that another engine has marked as deleted."""
    parts = iceberg_table.list_parts(table)
    if not parts:
        return ds.dataset(columns.to_arrow(table.schema()).empty_table())
    return parts_dataset(place, table, parts)


def parts_dataset(place: Place, table: Table, parts: Sequence[Part]) -> ds.Dataset:
    """The rows of some of its files."""
    parquet, below = ds.ParquetFileFormat(), _file_system(place)
    if iceberg_table.has_deletes(table):
        below = deleted.left_out(place, table, below)
    fragments = [
        parquet.make_fragment(file_io.relative(place, part.location), below, partition_expression=_known(part))
        for part in parts
    ]
    return ds.FileSystemDataset(fragments, columns.to_arrow(table.schema()), parquet, below)


def reached_by(place: Place, table: Table) -> Offsets:
    """The table's position in each topic, derived from its rows."""
    return table_format.reached_by_rows(table_dataset(place, table)) if iceberg_table.manifests(table) else Offsets()


def _file_system(place: Place) -> fs.FileSystem:
    if isinstance(place, Path):
        return fs.SubTreeFileSystem(str(place), fs.LocalFileSystem())
    return store_filesystem.below(place)


def _known(part: Part) -> pc.Expression:
    """What holds for all rows of a file, so that scans can skip it."""
    found = pc.field("_topic") == part.topic
    if part.date is not None:
        found = found & (pc.field("_date") == pa.scalar(part.date))
    if part.highest_id:
        found = found & (pc.field("_id") <= part.highest_id)
    return found
