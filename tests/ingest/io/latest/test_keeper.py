"""The thread that keeps a latest table while rows are committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.processes import wait_until
from tests.support.tables.latest_rows import Row, append, content, model

from fairlead_ingest import errors
from fairlead_ingest.io.latest import keeper, latest_table
from fairlead_ingest.io.latest import refresh as refreshing
from fairlead_ingest.io.latest.keeper import LatestKeeper
from fairlead_ingest.io.metrics import IngestMetrics
from fairlead_ingest.settings import Pipeline

SECONDS = 60.0


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return tmp_path / "rows"


@pytest.fixture
def metrics() -> IngestMetrics:
    return IngestMetrics()


@pytest.fixture
def kept(rows: Path, metrics: IngestMetrics) -> Iterator[LatestKeeper]:
    found = keeper.keeper_of(pipeline(rows), rows, metrics)
    assert found is not None
    yield found
    found.close()


def pipeline(rows: Path, **latest: Any) -> Pipeline:
    values = {"key": ["node"], "seconds": 0.0, **latest}
    job = {"name": "p", "topics": ["ns/t"], "table": str(rows), "checkpoint": str(rows.parent / "c"), "latest": values}
    return Pipeline.model_validate(job)


def value(metrics: IngestMetrics, name: str) -> float | None:
    return metrics.registry.get_sample_value(f"fairlead_ingest_{name}", {"pipeline": "p"})


def settled(kept: LatestKeeper) -> None:
    wait_until("the latest table is brought up", kept.is_settled, seconds=SECONDS)


@pytest.mark.slow
def test_each_commit_that_is_noted_is_brought_in(rows, kept, metrics):
    held = [Row(node="a", number=1)]
    append(rows, held)
    kept.start()
    settled(kept)
    for number in range(2, 5):
        held.append(Row(node=f"n{number % 2}", number=number))
        append(rows, held[-1:])
        kept.note()
        settled(kept)
        assert content(rows.with_name("rows_latest"), kept.definition) == model(held, kept.definition)
    assert (value(metrics, "latest_keys"), value(metrics, "latest_stopped")) == (3, 0)


def test_a_close_brings_in_what_is_due_later(rows, metrics):
    found = keeper.keeper_of(pipeline(rows, seconds=86_400.0), rows, metrics)
    assert found is not None
    held = [Row(node="a", number=1)]
    append(rows, held)
    for number in (2, 3):
        found.start()
        settled(found)
        held.append(Row(node="b", number=number))
        append(rows, held[-1:])
        found.note()
        found.close()
        assert content(rows.with_name("rows_latest"), found.definition) == model(held, found.definition)
    found.close()


@pytest.mark.slow
def test_what_may_heal_is_tried_again(rows, kept, metrics, monkeypatch):
    real = refreshing.refresh
    trouble: list[Exception] = [
        errors.Wait(errors.STORE_AWAY, "no answer"),
        OSError(28, "No space left on device"),
        ZeroDivisionError("unforeseen"),
    ]

    def refresh(*arguments: Any, **more: Any) -> Any:
        if trouble:
            raise trouble.pop()
        return real(*arguments, **more)

    monkeypatch.setattr(keeper, "refresh", refresh)
    monkeypatch.setattr(keeper, "RETRY_SECONDS", (0.01, 0.02))
    append(rows, [Row(node="a", number=1)])
    kept.start()
    wait_until("it is tried again", lambda: value(metrics, "latest_keys") == 1, seconds=SECONDS)
    assert value(metrics, "latest_failures_total") == 3


def test_what_does_not_heal_is_said_and_tried_again_later(rows, metrics):
    append(rows, [Row(node="a", number=1)])
    found = keeper.keeper_of(pipeline(rows, key=["nod"]), rows, metrics)
    assert found is not None
    found.start()
    with pytest.raises(errors.Stop, match="no column 'nod'"):
        settled(found)
    assert value(metrics, "latest_stopped") == 1
    found.close()


def test_a_long_build_is_given_up_when_the_job_ends(rows, kept, monkeypatch):
    monkeypatch.setattr(keeper, "CLOSE_SECONDS", 0.01)
    real = refreshing.refresh

    def refresh(*arguments: Any, on_rows: Any, **more: Any) -> Any:
        while True:
            on_rows(1)

    monkeypatch.setattr(keeper, "refresh", refresh)
    append(rows, [Row(node="a", number=1)])
    kept.start()
    thread = kept.thread
    assert thread is not None
    kept.close()
    thread.join(SECONDS)
    assert not thread.is_alive()
    monkeypatch.setattr(keeper, "refresh", real)
    kept.start()
    settled(kept)


@pytest.fixture
def vacuumed(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The hours that each vacuum keeps; nothing is deleted."""
    asked: list[float] = []

    def vacuum(table: Path, hours: float) -> int:
        asked.append(hours)
        return 0

    monkeypatch.setattr(latest_table, "vacuum", vacuum)
    return asked


@pytest.mark.slow
def test_older_files_are_deleted_as_time_goes(rows, kept, vacuumed, monkeypatch):
    monkeypatch.setattr(keeper, "VACUUM_COMMITS", 2)
    kept.start()
    for number in range(1, 5):
        append(rows, [Row(node="a", number=number)])
        kept.note()
        settled(kept)
    kept.close()
    assert vacuumed == [2, 2]


def test_older_files_are_deleted_also_where_refreshes_are_rare(rows, metrics, vacuumed, monkeypatch):
    """Each may write a whole large table again: hundreds of them would fill the disk."""
    monkeypatch.setattr(keeper, "VACUUM_SECONDS", 0.0)
    found = keeper.keeper_of(pipeline(rows), rows, metrics)
    assert found is not None
    found.start()
    append(rows, [Row(node="a", number=1)])
    found.note()
    settled(found)
    found.close()
    assert vacuumed


def test_without_a_key_there_is_none(rows, metrics):
    assert keeper.keeper_of(pipeline(rows, key=[]), rows, metrics) is None
