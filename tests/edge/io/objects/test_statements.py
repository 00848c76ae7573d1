"""The catalogue against the tables: every statement is one SQLite can run, is explained, and is used."""

from __future__ import annotations

import apsw
from tests.support.sql import assert_each_is_explained, assert_each_is_used, statements_of

from fairlead_edge.io.objects import schema, statements
from fairlead_edge.io.sqlite.rows import rows


def test_every_statement_fits_the_tables() -> None:
    """A column that is misspelled or gone shows here, not on a node."""
    connection = apsw.Connection(":memory:")
    schema.create(connection)
    made = [make(table) for table in statements.TABLES_OF_OBJECTS for make in (
        statements.row, statements.rows_above, statements.all_rows, statements.delete_row,
    )]  # fmt: skip
    for statement in (*statements_of(statements), *made):
        rows(connection, f"EXPLAIN {statement}", ("",) * statement.count("?"))


def test_every_statement_is_explained_and_used() -> None:
    """What is used nowhere is deleted."""
    assert_each_is_explained(statements)
    assert_each_is_used(statements)
