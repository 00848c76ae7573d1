"""The tables of a job: ``of`` returns a table format, the other functions serve every format.

    delta     Delta tables, with delta-rs
    iceberg   Iceberg tables, with pyiceberg; readers find them by name in a catalog

Three tables belong together and have the same format: the rows, ``<table>_dead_letters`` and ``<table>_gaps``. The
first repair creates a fourth, ``<table>_repairs``. Both formats pass one conformance suite.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from fairlead_ingest import errors
from fairlead_ingest.io.table import delta
from fairlead_ingest.io.table.table_format import TableFormat, reached_by_rows
from fairlead_ingest.rows.envelope import TIMESTAMP
from fairlead_ingest.settings import IngestSettings, Pipeline
from fairlead_ingest.source.offsets import Offsets
from fairlead_ingest.table.catalog import Catalog
from fairlead_ingest.table.commit import Append
from fairlead_ingest.table.store_path import DEAD_LETTERS as DEAD_LETTERS
from fairlead_ingest.table.store_path import GAPS as GAPS
from fairlead_ingest.table.store_path import REPAIRS as REPAIRS
from fairlead_ingest.table.store_path import Place, StorePath
from fairlead_wire import distribution

P = TypeVar("P", bound=Path | StorePath)

DELTA = "delta"
ICEBERG = "iceberg"
# A commit outside a stream, as of a backfill; it does not move positions.
UNNUMBERED = Append()
DEAD_LETTERS_SCHEMA = pa.schema(
    [
        ("error", pa.string()),
        ("payload", pa.binary()),
        ("_topic", pa.string()),
        ("_id", pa.string()),
        ("_published_at", TIMESTAMP),
        ("_ingested_at", TIMESTAMP),
        ("_batch", pa.int64()),
        ("_date", pa.date32()),
        # Added to tables of an older version when a job opens them; null in older rows.
        ("code", pa.string()),
        ("fields", pa.list_(pa.string())),
    ]
)
GAPS_SCHEMA = pa.schema(
    [
        ("reason", pa.string()),
        ("from_generation", pa.int64()),
        ("from_position", pa.string()),
        ("to_generation", pa.int64()),
        ("to_position", pa.string()),
        ("rows", pa.int64()),
        ("_topic", pa.string()),
        ("_ingested_at", TIMESTAMP),
        ("_batch", pa.int64()),
        ("_date", pa.date32()),
        # For losses reported by an edge agent. Added to tables of an older version when a job opens them.
        ("node", pa.string()),
        ("queue", pa.string()),
        ("from_sequence", pa.int64()),
        ("to_sequence", pa.int64()),
        ("count", pa.int64()),
    ]
)
REPAIRS_SCHEMA = pa.schema(
    [
        # The letter's code, and how it was repaired.
        ("code", pa.string()),
        ("method", pa.string()),
        ("_topic", pa.string()),
        ("_id", pa.string()),
        ("_published_at", TIMESTAMP),
        ("_repaired_at", TIMESTAMP),
        ("_date", pa.date32()),
    ]
)


def of(name: str, catalog: Catalog | None = None) -> TableFormat:
    """The table format ``name``, with its ``catalog`` if it uses one. Raises ``Stop`` if its libraries are not
    installed."""
    return _iceberg(catalog) if name == ICEBERG else delta


def of_pipeline(settings: IngestSettings, pipeline: Pipeline) -> TableFormat:
    """The table format of one pipeline of a job. Raises ``Stop`` as ``of``."""
    return of(pipeline.table_format or settings.table_format, settings.catalog_of(pipeline.table_format))


def _iceberg(catalog: Catalog | None) -> TableFormat:
    """Import Iceberg only if needed: it takes half a second and may not be installed."""
    try:
        from fairlead_ingest.io.table.iceberg import format as iceberg
    except ImportError as error:
        raise errors.Stop(
            errors.BAD_OPTION, f'table_format = "iceberg": {error}; {distribution.install("iceberg")}'
        ) from None
    return iceberg.of(catalog)


def beside(table: P, suffix: str) -> P:
    """The place of a side table."""
    return cast(P, table.with_name(table.name + suffix))


def count(table_format: TableFormat, table: Place) -> int:
    """The number of rows in the table, 0 if there is no table."""
    found = table_format.size(table)
    return 0 if found is None else found.rows


def letter_counts(table_format: TableFormat, table: Place) -> tuple[int, int]:
    """The numbers of open and repaired dead letters of ``table``, from the logs alone."""
    letters, repaired = (count(table_format, beside(table, suffix)) for suffix in (DEAD_LETTERS, REPAIRS))
    # A letter that two backfills wrote exists twice but is marked once, so this is an estimate.
    return max(0, letters - repaired), repaired


def reached(table_format: TableFormat, table: Place, topics: Sequence[str]) -> Offsets:
    """The table's position in each of ``topics``, from its log or else from its rows (a backfill logs no positions)."""
    known = table_format.reached(table)
    unknown = [topic for topic in topics if topic not in known.topics]
    rows = table_format.dataset(table) if unknown else None
    if rows is None:
        return known
    by_rows = reached_by_rows(rows, unknown)
    return Offsets(service=known.service, topics={**known.topics, **by_rows.topics})


def existing(table_format: TableFormat, table: Place) -> ds.Dataset:
    """The rows of a table. Raises ``Stop`` if there is no table."""
    found = table_format.dataset(table)
    if found is None:
        raise errors.no_table(table)
    return found


def identities(table_format: TableFormat, table: Place, from_ms: int | None, until_ms: int | None) -> pa.Table:
    """The (topic, id) of rows published from ``from_ms`` to before ``until_ms``, in milliseconds since 1970."""
    condition = pc.scalar(True)
    for bound, compare in ((from_ms, pc.greater_equal), (until_ms, pc.less)):
        if bound is not None:
            condition = condition & compare(pc.field("_published_at"), pa.scalar(bound * 1000, TIMESTAMP))
    return existing(table_format, table).to_table(columns=["_topic", "_id"], filter=condition)
