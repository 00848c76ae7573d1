"""What the hub said of tables, kept for a node without a link."""

from __future__ import annotations

import pytest
from tests.support.edges.outbox_tables import count, tables

from fairlead_edge.io.outbox.tables import receipt_tables
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.receipts.receipt import ReadingTable, TopicReach


def topic(name: str, as_of: float) -> TopicReach:
    table = ReadingTable(reader="r", name="x", start="", position="1" * 40, batch=3)
    return TopicReach(topic=name, service="s", generation=1, as_of=as_of, tables=[table])


def test_the_latest_of_each_topic_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = tables()
    receipt_tables.keep_topics(connection, topics=[topic("n/a", 1.0), topic("n/b", 2.0)])
    receipt_tables.keep_topics(connection, topics=[topic("n/a", 3.0)])
    assert receipt_tables.read_topics(connection) == {"n/a": topic("n/a", 3.0), "n/b": topic("n/b", 2.0)}
    monkeypatch.setattr(receipt_tables, "TOPICS_MAX", 1)
    receipt_tables.keep_topics(connection, topics=[])
    assert set(receipt_tables.read_topics(connection)) == {"n/a"}


def test_what_the_disk_changed_is_forgotten() -> None:
    connection = tables()
    receipt_tables.keep_topics(connection, topics=[topic("n/a", 1.0)])
    rows(connection, "UPDATE reached SET content = x'00'")
    assert (receipt_tables.read_topics(connection), count(connection, "reached")) == ({}, 1)
