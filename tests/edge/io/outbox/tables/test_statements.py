"""The catalogue against the tables: every statement is one SQLite can run, is explained, and is used."""

from __future__ import annotations

from tests.support.edges.outbox_tables import tables
from tests.support.sql import assert_each_is_explained, assert_each_is_used, statements_of

from fairlead_edge.io.outbox.tables import statements
from fairlead_edge.io.sqlite.rows import rows


def test_every_statement_fits_the_tables() -> None:
    """A column that is misspelled or gone shows here, not on a node."""
    connection = tables()
    found = statements_of(statements)
    assert len(found) > 100
    for statement in found:
        places = max(statement.count("?"), *(number for number in range(9) if f"?{number}" in statement or not number))
        distinct = len({f"?{number}" for number in range(1, 9) if f"?{number}" in statement})
        rows(connection, f"EXPLAIN {statement}", ("[]",) * (distinct or places))


def test_every_statement_is_explained_and_used() -> None:
    """What is used nowhere is deleted."""
    assert_each_is_explained(statements)
    assert_each_is_used(statements)
