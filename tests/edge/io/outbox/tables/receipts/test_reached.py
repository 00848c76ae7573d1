"""What the hub said of tables, kept for a node without a link."""

from __future__ import annotations

import pytest
from tests.support.edges.outbox_tables import count, tables

from fairlead_edge.io.outbox.tables.receipts import reached
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.receipts.reached import ReadingTable, TopicReach


def topic(name: str, as_of: float) -> TopicReach:
    table = ReadingTable(reader="r", name="x", start="", position="1" * 40, batch=3)
    return TopicReach(topic=name, service="s", generation=1, as_of=as_of, tables=[table])


def test_the_latest_of_each_topic_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = tables()
    reached.keep(connection, topics=[topic("n/a", 1.0), topic("n/b", 2.0)])
    reached.keep(connection, topics=[topic("n/a", 3.0)])
    assert reached.read(connection) == {"n/a": topic("n/a", 3.0), "n/b": topic("n/b", 2.0)}
    monkeypatch.setattr(reached, "TOPICS_MAX", 1)
    reached.keep(connection, topics=[])
    assert set(reached.read(connection)) == {"n/a"}


def test_what_the_disk_changed_is_forgotten() -> None:
    connection = tables()
    reached.keep(connection, topics=[topic("n/a", 1.0)])
    rows(connection, "UPDATE reached SET content = x'00'")
    assert (reached.read(connection), count(connection, "reached")) == ({}, 1)
