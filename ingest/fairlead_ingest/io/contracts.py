"""Reads what a contract is tried on: its file, messages of a topic, and the existing table.

Messages are the newest committed ones, or those since a time, read once and in order without moving any reader's
position. The table shows which columns it would accept or refuse, and which would no longer be filled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import Schema
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from fairlead_ingest import errors
from fairlead_ingest.contracts.comparison import ADDED, REFUSED, ContractChange
from fairlead_ingest.io.table.table_format import TableFormat, missing_columns, sql_type
from fairlead_ingest.io.table.tables import ICEBERG
from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.io.topics.range_reader import fetch, one_ahead
from fairlead_ingest.io.topics.retry import ask
from fairlead_ingest.rows import contract_file
from fairlead_ingest.rows.contract import EVOLVE, FREEZE, OWN_COLUMNS, RESCUED, Contract
from fairlead_ingest.source.offset_ranges import OffsetRange
from fairlead_ingest.table.store_path import Place
from fairlead_messaging.client.errors import Expired
from fairlead_messaging.client.io.sync_client import BulkClient
from fairlead_wire.errors import cause_of

SPLITS = 64
# A stretch this short is not narrowed further; messages before the wanted ones are read and skipped.
READ_ROWS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A range of a topic, of which the first ``skip`` messages are skipped."""

    wanted: OffsetRange
    skip: int = 0

    @property
    def rows(self) -> int:
        """About how many messages there are to read, without the skipped ones."""
        return max(0, self.wanted.rows - self.skip)


def stretch(client: BulkClient, topic: str, *, last: int | None = None, since_ms: int | None = None) -> Stretch:
    """The newest ``last`` messages, the messages since a time, or the newest ``last`` of those.

    Raises ``Wait`` and the client's errors, such as ``TopicMissing``.
    """
    begin = ask(client.offsets, topic, "earliest" if since_ms is None else max(0, since_ms))
    end = ask(client.offsets, topic, "latest").stable or ""
    after = begin.position or ""
    if after >= end:
        return Stretch(wanted=OffsetRange(topic=topic, generation=begin.generation, after=after, upto=after, rows=0))
    while True:
        try:
            plan = ask(client.plan, topic, after=after, upto=end, splits=SPLITS, generation=begin.generation)
        except Expired as gone:
            after = gone.oldest  # it expired in the meantime
            continue
        found = OffsetRange(topic=topic, generation=begin.generation, after=after, upto=end, rows=plan.rows)
        if last is None or plan.rows <= last:
            return Stretch(wanted=found)
        counted, closer = 0, after
        for part in reversed(plan.ranges):
            counted, closer = counted + part.rows, part.after
            if counted >= last:
                break
        if closer <= after or plan.rows <= READ_ROWS:
            return Stretch(wanted=found, skip=plan.rows - last)
        after = closer


def pages(client: BulkClient, found: Stretch) -> Iterator[pa.RecordBatch]:
    """The messages of a stretch, with ``id``, ``ts`` and ``payload``. Raises as ``stretch`` does."""
    topic = found.wanted.topic
    options = SourceOptions.of(
        {"url": client.base_url, "topics": json.dumps([topic]), "onExpired": "count", "onRecreated": "restart"}
    )
    skip = found.skip
    for table in one_ahead(fetch(client, found.wanted, options)):
        rows = table.slice(min(skip, table.num_rows))
        skip -= table.num_rows - rows.num_rows
        yield from rows.combine_chunks().to_batches()


def read(path: Path) -> Contract:
    """The contract in a file. Raises ``Stop``."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(contract_file.FILE_CHARS_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise errors.Stop(errors.SCHEMA_BROKEN, f"{path}: {cause_of(error)}") from None
    return contract_file.parse(text, str(path))


UNFILLED = "unfilled"
"""A column of the table that the contract does not fill; older rows have it, or a transform of the job adds it."""


def changes(name: str, table_format: TableFormat, table: Place, contract: Contract) -> list[ContractChange] | None:
    """What opening the table with this contract would change; None if there is no table yet. Raises ``Stop``.

    ``name`` is the table format's name in the settings.
    """
    rows = table_format.dataset(table)
    if rows is None:
        return None
    held = Schema.from_arrow(rows.schema)
    found = []
    for field in _as_stored(name, columns(contract)):
        try:
            new = missing_columns(table, held, pa.schema([field]))
        except errors.Stop:
            there = next(each for each in held.fields if each.name == field.name)
            wanted = Schema.from_arrow(pa.schema([field])).fields[0]
            what = f"is {sql_type(there)} in the table and {sql_type(wanted)} in the contract; a type cannot change"
            found.append(ContractChange(kind=REFUSED, column=field.name, what=what))
            continue
        twin = next((each.name for each in held.fields if each.name.lower() == field.name.lower()), None)
        if new and twin is not None:
            what = f"the table has {twin}, and column names are not case-sensitive"
            found.append(ContractChange(kind=REFUSED, column=field.name, what=what))
        elif new:
            found.append(ContractChange(kind=ADDED, column=field.name, what="will be added to the table"))
    if contract.mode == EVOLVE:
        return found
    filled = {*OWN_COLUMNS, *(name.lower() for name in contract.columns.names)}
    unfilled = [each.name for each in held.fields if each.name.lower() not in filled]
    what = "is in the table and not in the contract"
    return [*found, *(ContractChange(kind=UNFILLED, column=name, what=what) for name in unfilled)]


def check_takes(name: str, table_format: TableFormat, table: Place, schema: pa.Schema) -> None:
    """Raise ``Stop`` if the existing table cannot take rows with these columns."""
    rows = table_format.dataset(table)
    if rows is not None:
        missing_columns(table, Schema.from_arrow(rows.schema), _as_stored(name, schema))


def columns(contract: Contract) -> pa.Schema:
    """The columns a table gets from a contract."""
    schema = to_arrow_schema(StructType(list(contract.columns.fields)), timezone="UTC")
    return schema if contract.mode == FREEZE else schema.append(pa.field(RESCUED, pa.string()))


def _as_stored(name: str, schema: pa.Schema) -> pa.Schema:
    """The schema with the types a table of this format stores; Iceberg has fewer types."""
    if name != ICEBERG:
        return schema
    from fairlead_ingest.io.table.iceberg import columns as iceberg

    return iceberg.to_arrow(iceberg.to_iceberg(schema))
