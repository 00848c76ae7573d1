"""Versions of a table: the thousandth costs what the tenth did, and none is made on what was not looked at."""

from __future__ import annotations

import pytest
from pyiceberg.exceptions import CommitFailedException

from fairlead_ingest.io.table.iceberg import iceberg_table, versions
from fairlead_ingest.io.table.iceberg.versions import NewVersion, RemovedFileGone, TableChange


@pytest.mark.slow
def test_small_manifests_are_joined_and_old_versions_forgotten(table, monkeypatch):
    monkeypatch.setattr(versions, "MANIFESTS_MAX", 5)
    monkeypatch.setattr(versions, "TRIM_EVERY", 3)
    with table.opened().transaction() as properties:
        properties.set_properties({"history.expire.min-snapshots-to-keep": "4"})
    most = 0
    for batch in range(16):
        table.commit(batch, batch)
        most = max(most, len(table.opened().snapshots()))
        assert len(iceberg_table.manifests(table.opened())) <= 5
    assert 4 <= most <= 8
    assert table.numbers() == list(range(16))
    assert table.opened().scan().to_arrow().num_rows == 16
    assert table.format.state(table.place, "app").batch == 15
    size = table.format.size(table.place)
    assert size is not None and (size.rows, size.files, size.version) == (16, 16, 16)


def test_a_version_with_a_tag_is_kept(table, monkeypatch):
    monkeypatch.setattr(versions, "TRIM_EVERY", 1)
    table.commit(0, 0)
    opened = table.opened()
    head = opened.current_snapshot()
    assert head is not None
    opened.manage_snapshots().create_tag(head.snapshot_id, "audit").commit()
    with table.opened().transaction() as properties:
        properties.set_properties({"history.expire.min-snapshots-to-keep": "2"})
    for batch in range(1, 8):
        table.commit(batch, batch)
    assert table.opened().scan(snapshot_id=head.snapshot_id).to_arrow().num_rows == 1
    assert len(table.opened().snapshots()) <= 4


def test_of_two_versions_on_one_head_the_second_is_refused(table):
    table.commit(0, 1)
    first, second = (NewVersion(table.opened()) for _ in range(2))
    first.commit(TableChange())
    with pytest.raises(CommitFailedException):
        second.commit(TableChange())


def test_a_file_that_is_gone_cannot_be_replaced(table):
    table.commit(0, 1)
    before = table.format.version(table.place)
    with pytest.raises(RemovedFileGone):
        NewVersion(table.opened()).commit(TableChange(removed=frozenset(["file:///none.parquet"])))
    assert table.format.version(table.place) == before
