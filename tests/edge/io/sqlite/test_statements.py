"""The statements of any store, each of which SQLite can run."""

from __future__ import annotations

import apsw
import pytest
from tests.support.sql import assert_each_is_explained, assert_each_is_used

from fairlead_edge.io.sqlite import statements as sql
from fairlead_edge.io.sqlite.rows import rows


def test_a_table_is_walked_from_both_ends() -> None:
    """Names are those of the program's own tables."""
    connection = apsw.Connection(":memory:")
    rows(connection, "CREATE TABLE t(queue, at, what, PRIMARY KEY(queue, at)) WITHOUT ROWID")
    columns = [str(row[1]) for row in rows(connection, sql.table_info("t"))]
    assert columns == ["queue", "at", "what"]
    for at in range(5):
        rows(connection, sql.insert("t", columns, replace=False), (1, at, f"w{at}"))
        rows(connection, sql.insert("t", columns, replace=False), (2, at, "other"))
    rows(connection, sql.insert("t", columns, replace=True), (1, 4, "new"))
    rows(connection, sql.insert("t", columns, replace=False), (1, 4, "late"))
    upwards = rows(connection, sql.rows_from("t", ["what"], "at", "queue"), (1, 3))
    assert upwards == [(3, "w3"), (4, "new")]
    assert rows(connection, sql.rows_back_to("t", ["what"], "at", "queue"), (1, 3)) == upwards[::-1]
    assert rows(connection, sql.rows_between("t", ["what"], "at", "queue"), (1, 0, 1)) == [(1, "w1"), (0, "w0")]
    assert rows(connection, sql.rows_from("t", ["what"], "at", ""), (4,)) == [(4, "new"), (4, "other")]
    backwards = rows(connection, sql.in_order("t", ["at"], ["queue", "at"], backwards=True))
    assert backwards == rows(connection, sql.in_order("t", ["at"], ["queue", "at"], backwards=False))[::-1]


@pytest.mark.slow
def test_every_statement_is_explained_and_used() -> None:
    assert_each_is_explained(sql)
    assert_each_is_used(sql)


# ---- rows of one statement ------------------------------------------------------------------------


def test_all_rows_and_nothing_left_open() -> None:
    """A statement that is not read to its end would keep its snapshot."""
    connection = apsw.Connection(":memory:")
    rows(connection, "CREATE TABLE t(a)")
    assert rows(connection, "INSERT INTO t VALUES (?), (?) RETURNING a", [1, 2]) == [(1,), (2,)]
    assert rows(connection, "SELECT a FROM t WHERE a > ?", (1,)) == [(2,)]
