"""The object store's rows: checked, and kinds that follow from them."""

from __future__ import annotations

import apsw
import pytest
from tests.support.edges.held import config_map, put
from tests.support.sql import assert_each_is_explained, assert_each_is_used, statements_of

from fairlead_edge.io.objects import schema
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.objects import metastore


@pytest.fixture
def connection() -> apsw.Connection:
    opened = apsw.Connection(":memory:")
    schema.create(opened)
    held = metastore.hold(put(config_map("a")), local_version=7, now=3)
    opened.execute(schema.INSERT_OBJECT, schema.values(held))
    return opened


def test_a_row_is_read_as_it_was_written(connection: apsw.Connection) -> None:
    [(_, held)] = schema.every(connection, "objects")
    assert held == metastore.hold(put(config_map("a")), local_version=7, now=3)
    assert schema.damaged(connection, "objects", after=0, limit=9) == (None, [])


@pytest.mark.parametrize(
    "change",
    [
        "content = CAST(replace(content, 'a', 'b') AS BLOB)",
        "content = 'text'",
        "uid = 'other'",
        "name = CAST(x'ff' AS TEXT)",
        "digest = ''",
        "resource_version = '99'",
        "local_version = 8",
        "stored_at = 4.0",
        "stored_at = 'x'",
        "version = 'v2'",
        "checksum = NULL",
    ],
)
def test_any_change_to_a_row_is_noticed(connection: apsw.Connection, change: str) -> None:
    connection.execute(f"UPDATE objects SET {change}")
    [(number, held)] = schema.every(connection, "objects")
    assert held is None
    assert schema.damaged(connection, "objects", after=0, limit=9) == (None, [number])


def test_a_damaged_fact_is_no_fact(connection: apsw.Connection) -> None:
    """A fence that was not obeyed would lock every hub out."""
    schema.remember(connection, "fence", 5)
    assert schema.fact(connection, "fence") == 5
    connection.execute("UPDATE facts SET value = 5000000")
    assert schema.fact(connection, "fence") is None


def test_kinds_follow_from_objects(connection: apsw.Connection) -> None:
    connection.execute("INSERT INTO kinds VALUES('', 'v1', 'configmaps', 'ConfigMuh', 0), ('', '\x01', 'x', 'X', 1)")
    connection.execute("INSERT INTO kinds VALUES('apps', 'v1', 'deployments', 'Deployment', 1)")
    schema.repair_kinds(connection)
    assert sorted(rows(connection, "SELECT * FROM kinds")) == [
        ("", "v1", "configmaps", "ConfigMap", 1),
        ("apps", "v1", "deployments", "Deployment", 1),
    ]


def test_every_statement_fits_the_tables() -> None:
    connection = apsw.Connection(":memory:")
    schema.create(connection)
    made = [make(table) for table in schema.TABLES_OF_OBJECTS for make in (
        schema.row, schema.rows_above, schema.all_rows, schema.delete_row,
    )]  # fmt: skip
    for statement in (*statements_of(schema), *made):
        rows(connection, f"EXPLAIN {statement}", ("",) * statement.count("?"))


@pytest.mark.slow
def test_every_statement_is_explained_and_used() -> None:
    assert_each_is_explained(schema)
    assert_each_is_used(schema)
