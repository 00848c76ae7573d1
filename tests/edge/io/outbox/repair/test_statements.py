"""The catalogue against the tables: every statement is one SQLite can run, is explained, and is used."""

from __future__ import annotations

from tests.support.edges.outbox_tables import tables
from tests.support.sql import assert_each_is_explained, assert_each_is_used, statements_of

from fairlead_edge.io.outbox.repair import statements
from fairlead_edge.io.sqlite.rows import rows


def test_every_statement_fits_the_tables() -> None:
    """A column that is misspelled or gone shows here, not on a disk that fails."""
    connection = tables()
    found = statements_of(statements)
    assert len(found) > 30
    for statement in found:
        numbered = len({f"?{number}" for number in range(1, 9) if f"?{number}" in statement})
        rows(connection, f"EXPLAIN {statement}", ("[]",) * (numbered or statement.count("?")))


def test_every_statement_is_explained_and_used() -> None:
    """What is used nowhere is deleted."""
    assert_each_is_explained(statements)
    assert_each_is_used(statements)
