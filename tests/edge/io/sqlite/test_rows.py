"""Rows of one statement."""

from __future__ import annotations

import apsw

from fairlead_edge.io.sqlite.rows import rows


def test_all_rows_and_nothing_left_open() -> None:
    """A statement that is not read to its end would keep its snapshot."""
    connection = apsw.Connection(":memory:")
    rows(connection, "CREATE TABLE t(a)")
    assert rows(connection, "INSERT INTO t VALUES (?), (?) RETURNING a", [1, 2]) == [(1,), (2,)]
    assert rows(connection, "SELECT a FROM t WHERE a > ?", (1,)) == [(2,)]
