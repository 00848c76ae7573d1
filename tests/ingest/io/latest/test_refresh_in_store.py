"""A latest table in an object store: the same model, lost answers, requests."""

from __future__ import annotations

import itertools
import random
import uuid
from collections.abc import Iterator

import pytest
from tests.support.tables.latest_rows import Row, append, content, model
from tests.support.tables.object_store import ObjectStore
from tests.support.tables.store_proxy import StoreProxy

from fairlead_ingest import errors
from fairlead_ingest.io.latest import latest_table
from fairlead_ingest.io.latest.refresh import refresh
from fairlead_ingest.io.table.delta import delta_table
from fairlead_ingest.latest.definition import LatestDefinition
from fairlead_ingest.table.store_path import StorePath

pytestmark = pytest.mark.process
BY_NODE = LatestDefinition(key=("node",), delete_when={"op": ("d",)})
REQUESTS_MAX = 18
"""Of a refresh that folds one commit, between checkpoints of the two logs."""


@pytest.fixture(scope="module")
def proxy(store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProxy]:
    with StoreProxy(store, tmp_path_factory.mktemp("proxy")) as running:
        yield running


def places(proxy: StoreProxy) -> tuple[StorePath, StorePath]:
    name = uuid.uuid4().hex
    return proxy.place(f"{name}/rows"), proxy.place(f"{name}/rows_latest")


def test_answers_that_are_lost_and_a_store_that_is_busy_change_nothing(proxy):
    rows, latest = places(proxy)
    choice = random.Random(21)
    numbers = itertools.count(1)
    held: list[Row] = []
    for _ in range(12):
        news = [
            Row(node=f"n{choice.randrange(5)}", number=next(numbers), op=choice.choice([None, "d"])) for _ in range(3)
        ]
        append(rows, news)
        held += news
        proxy.mishaps([choice.choice(["lost", "503", "409", ""]) for _ in range(choice.randrange(3))])
        for _ in range(5):
            try:
                found = refresh(rows, latest, BY_NODE)
            except errors.Wait:
                continue
            break
        proxy.mishaps([])
        assert found is not None
        assert content(latest, BY_NODE) == model(held, BY_NODE)
    assert proxy.happened()["lost"] > 2
    state = latest_table.open_state(latest)
    assert state is not None
    assert len({file.path for file in state.files}) == len(state.files) == 1


def test_a_refresh_is_few_requests(proxy):
    rows, latest = places(proxy)
    append(rows, [Row(node="a", number=1)])
    refresh(rows, latest, BY_NODE)
    counts = []
    for number in range(2, 6):
        append(rows, [Row(node="a", number=number)])
        before = proxy.requests()
        refresh(rows, latest, BY_NODE)
        counts.append(proxy.requests() - before)
    before = proxy.requests()
    refresh(rows, latest, BY_NODE)
    counts.append(proxy.requests() - before)
    assert min(counts[:-1]) <= REQUESTS_MAX
    assert counts[-1] < REQUESTS_MAX // 2


def test_two_jobs_in_a_store_do_the_same_thing(proxy, monkeypatch):
    rows, latest = places(proxy)
    append(rows, [Row(node="a", number=1)])
    refresh(rows, latest, BY_NODE)
    append(rows, [Row(node="a", number=2)])
    real, kept = latest_table.commit, delta_table._kept
    others = [True]

    def commit(*arguments: object) -> None:
        if others:
            others.pop()
            # Another process has tables of its own open.
            monkeypatch.setattr(delta_table, "_kept", delta_table._OpenTables())
            refresh(rows, latest, BY_NODE)
            monkeypatch.setattr(delta_table, "_kept", kept)
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(latest_table, "commit", commit)
    found = refresh(rows, latest, BY_NODE)
    assert found is not None
    assert (found.changed, found.mark.version) == (0, 2)
    assert content(latest, BY_NODE)[("a",)][0] == Row(number=2).id


def test_the_stores_vacuum_takes_what_no_version_needs(store):
    name = uuid.uuid4().hex
    rows, latest = store.place(f"{name}/rows"), store.place(f"{name}/rows_latest")
    append(rows, [Row(node="a", number=1)])
    refresh(rows, latest, BY_NODE)
    assert latest_table.vacuum(latest, 1) == 0
    assert content(latest, BY_NODE) == model([Row(node="a", number=1)], BY_NODE)


def test_a_store_that_is_away_is_waited_for(tmp_path):
    with ObjectStore(tmp_path) as store:
        rows, latest = store.place("w/rows"), store.place("w/rows_latest")
        append(rows, [Row(node="a", number=1)])
        refresh(rows, latest, BY_NODE)
        append(rows, [Row(node="b", number=2)])
        store.kill()
        with pytest.raises(errors.Wait, match=errors.STORE_AWAY):
            refresh(rows, latest, BY_NODE)
        store.start()
        refresh(rows, latest, BY_NODE)
        assert sorted(content(latest, BY_NODE)) == [("a",), ("b",)]
