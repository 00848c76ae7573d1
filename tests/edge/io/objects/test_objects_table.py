"""What one write, one read or one opening does to the table of objects."""

from __future__ import annotations

import apsw
import pytest
from tests.support.edges.held import config_map, put

from fairlead_edge.io.objects import objects_table
from fairlead_edge.objects import metastore
from fairlead_edge.objects.metastore import Absent, Remove, Removed, Stored, Unchanged

WRITE = put(config_map("a"))


@pytest.fixture
def table() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    objects_table.prepare(connection, "edge-1", 1 << 24, 1000)
    return connection


def test_each_change_raises_the_version_by_one(table: apsw.Connection) -> None:
    first = objects_table.current_version(table)
    stored = objects_table.put(table, WRITE, 1.0, metastore.anything)
    assert isinstance(stored, Stored) and stored.change.version == first + 1
    assert objects_table.put(table, WRITE, 2.0, metastore.anything) == Unchanged()
    assert objects_table.remove(table, Remove(resource=WRITE.resource, uid="another")) == Absent()
    removed = objects_table.remove(table, Remove(resource=WRITE.resource, uid=WRITE.uid))
    assert isinstance(removed, Removed) and removed.change.version == first + 2
    assert objects_table.current_version(table) == first + 2


def test_only_damaged_rows_are_set_aside(table: apsw.Connection) -> None:
    objects_table.put(table, WRITE, 1.0, metastore.anything)
    before = objects_table.current_version(table)
    assert objects_table.set_aside(table, [1]) == (0, before)
    table.execute("UPDATE objects SET content = x'7b7d'")
    assert objects_table.set_aside(table, [1, 99]) == (1, before + 1)
    assert objects_table.entries(table, 0, frozenset([0])) == []
