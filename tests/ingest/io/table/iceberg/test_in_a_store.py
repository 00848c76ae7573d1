"""Iceberg tables in a real object store that is killed, slow, busy, and loses its answers; the catalog is SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.tables.iceberg_table import IcebergTable, commit_until_in
from tests.support.tables.marked_deleted import mark_deleted
from tests.support.tables.object_store import ObjectStore
from tests.support.tables.store_proxy import StoreProxy

from fairlead_ingest import errors
from fairlead_ingest.io.table import object_store
from fairlead_ingest.io.table.iceberg import compaction
from fairlead_ingest.table.commit import Collided

pytestmark = [pytest.mark.process, pytest.mark.verify]
BATCHES = 12
TRIES_MAX = 60


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path / "store") as running:
        yield running


def test_a_store_that_is_busy_and_loses_answers_has_each_batch_once(store, tmp_path):
    """Of data files, manifests, lists of them and the table's metadata, also beside a compaction."""
    with StoreProxy(store, tmp_path) as proxy:
        table = IcebergTable(tmp_path, place=proxy.place("rows"))
        proxy.weather(delay=(0.0, 0.02), busy=0.15, lost=0.15)
        for batch in range(BATCHES):
            commit_until_in(table, batch, TRIES_MAX)
            if batch % 5 == 4:
                for _ in range(TRIES_MAX):
                    try:
                        compaction.of(table.format, table.place).compact(target_bytes=1024 * 1024)
                        break
                    except (Collided, errors.Wait):
                        continue
        happened = proxy.happened()
        assert happened["lost"] > 5 and happened["503"] > 5
    direct = IcebergTable(tmp_path, place=store.place("rows"), catalog=table.catalog)
    assert direct.numbers() == list(range(BATCHES))
    state = direct.format.state(direct.place, "app")
    assert (state.batch, state.commit_sequence, state.totals.rows) == (BATCHES - 1, BATCHES, BATCHES)


def test_a_store_killed_at_each_step_of_a_commit_costs_no_batch_and_makes_none_twice(store, tmp_path, monkeypatch):
    """kill -9 before and after it has the data file, the manifest, their list, and the metadata that names it."""
    table = IcebergTable(tmp_path, place=store.place("rows"))
    calls, last = 0, 0

    def may_die(of: Any, name: str) -> None:
        act = getattr(of, name)

        def acting(*given: Any) -> Any:
            nonlocal calls
            for is_after in (False, True):
                answer = act(*given) if is_after else None
                calls += 1
                if calls == last:
                    store.kill()
            return answer

        monkeypatch.setattr(of, name, acting)

    may_die(object_store.Upload, "finish")
    may_die(object_store, "write")
    table.commit(0, 0)
    batch, killed = 1, 0
    while True:
        calls, last = 0, batch
        try:
            table.commit(batch, batch)
        except (Collided, errors.Wait) as error:
            assert store.running is None, error
        else:
            if calls < last:
                break
        if store.running is None:
            killed += 1
            store.start()
        calls, last = 0, 0
        commit_until_in(table, batch, TRIES_MAX)
        batch += 1
    assert killed == 8, "a commit puts four objects"
    assert table.numbers() == list(range(batch + 1))
    state = table.format.state(table.place, "app")
    assert (state.batch, state.commit_sequence, state.totals.rows) == (batch, batch + 1, batch + 1)


def test_rows_that_another_engine_marked_are_left_out_of_files_in_a_store(store, tmp_path):
    table = IcebergTable(tmp_path, place=store.place("rows"))
    table.commit(0, *range(10))
    table.commit(1, *range(10, 20))
    found = table.format.open.required(table.place)
    (first, _), _ = table.format.files(table.place)
    mark_deleted(found, {f"{table.place}/{first}": range(9)})
    assert table.numbers() == [9, *range(10, 20)]
    assert table.commit(2, 20) is True
    assert table.numbers() == [9, *range(10, 21)]
