"""What a table says to a contract."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.tables.table_formats import FORMATS, format_of

from fairlead_ingest.contracts.comparison import ContractChange
from fairlead_ingest.io import contracts
from fairlead_ingest.rows import contract_file


def found(table_format: str, table: Path, text: str) -> list[tuple[str, str]] | None:
    contract = contract_file.parse(text, "s")
    changes = contracts.changes(table_format, format_of(table_format, table.parent), table, contract)
    return None if changes is None else [(each.kind, each.column) for each in changes]


@pytest.mark.parametrize("table_format", FORMATS)
def test_columns_are_taken_refused_or_no_longer_filled(tmp_path: Path, table_format: str) -> None:
    """As opening the table would; all of them at once."""
    table = tmp_path / "rows"
    assert found(table_format, table, "a int") is None
    own = [pa.field("_topic", pa.string()), pa.field("_date", pa.date32())]
    columns = [*contracts.columns(contract_file.parse("a int, b array<double>, t timestamp", "s")), *own]
    format_of(table_format, tmp_path).ensure(table, pa.schema(columns))
    assert found(table_format, table, "a int, b array<double>, t timestamp") == []
    clashes = [("refused", "a"), ("refused", "b"), ("refused", "T")]
    assert found(table_format, table, "a bigint, b array<float>, T timestamp, n string") == [*clashes, ("added", "n")]
    assert found(table_format, table, "a int, t timestamp") == [("unfilled", "b")]
    assert found(table_format, table, '{"mode": "evolve", "columns": {"a": "int"}}') == [("added", "_rescued")]


def test_what_is_not_filled_breaks_nothing() -> None:
    """A transform of the job may fill it."""
    assert not ContractChange(kind=contracts.UNFILLED, what="").is_breaking
