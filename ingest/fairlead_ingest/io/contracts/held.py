"""What a table that is there says to a contract: the columns it takes, those it refuses, those no longer filled."""

from __future__ import annotations

import pyarrow as pa
from deltalake import Schema
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from fairlead_ingest import errors
from fairlead_ingest.contracts.comparison import ADDED, REFUSED, ContractChange
from fairlead_ingest.io.table.table_format import TableFormat, missing_columns
from fairlead_ingest.io.table.tables import ICEBERG
from fairlead_ingest.rows.schema import EVOLVE, FREEZE, OWN_COLUMNS, RESCUED, Contract
from fairlead_ingest.table.store_path import Place

UNFILLED = "unfilled"
"""A column of the table that the contract does not fill: older rows have it, or a transform of the job gives it."""


def changes(name: str, table_format: TableFormat, table: Place, contract: Contract) -> list[ContractChange] | None:
    """What opening the table with this contract would do; None where there is no table yet. Raises ``Stop``.

    ``name``: of the table format, as a setting.
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
            what = f"is {there.type} in the table and {wanted.type} in the contract; a type never changes"
            found.append(ContractChange(kind=REFUSED, column=field.name, what=what))
            continue
        twin = next((each.name for each in held.fields if each.name.lower() == field.name.lower()), None)
        if new and twin is not None:
            what = f"the table has {twin}, which is the same name to its readers"
            found.append(ContractChange(kind=REFUSED, column=field.name, what=what))
        elif new:
            found.append(ContractChange(kind=ADDED, column=field.name, what="the table gets this column"))
    if contract.mode == EVOLVE:
        return found
    filled = {*OWN_COLUMNS, *(name.lower() for name in contract.columns.names)}
    unfilled = [each.name for each in held.fields if each.name.lower() not in filled]
    what = "is in the table and not in the contract"
    return [*found, *(ContractChange(kind=UNFILLED, column=name, what=what) for name in unfilled)]


def columns(contract: Contract) -> pa.Schema:
    """Those a table gets from a contract."""
    schema = to_arrow_schema(StructType(list(contract.columns.fields)), timezone="UTC")
    return schema if contract.mode == FREEZE else schema.append(pa.field(RESCUED, pa.string()))


def _as_stored(name: str, schema: pa.Schema) -> pa.Schema:
    """With the types that a table of this format has for ours: Iceberg has fewer."""
    if name != ICEBERG:
        return schema
    from fairlead_ingest.io.table.iceberg import columns as iceberg

    return iceberg.to_arrow(iceberg.to_iceberg(schema))
