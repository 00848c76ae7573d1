"""A query is started again when more executors came than it counts on."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any

from fairlead_ingest.io.spark.executors import LOOK, ExecutorWatcher

NOW = datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC)


def session(cores: int, master: str = "spark://h:7077") -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, defaultParallelism=cores))


def looks(watcher: ExecutorWatcher, count: int) -> list[int]:
    return [watcher.have_come(NOW + number * LOOK) for number in range(count)]


def test_more_executors_are_noticed_at_the_second_look() -> None:
    """The first may have come in the middle of many."""
    watcher = ExecutorWatcher(session(4))
    watcher.start(2)
    assert looks(watcher, 4) == [0, 0, 4, 4]
    watcher.start(4)
    assert looks(watcher, 4) == [0, 0, 0, 0]


def test_fewer_executors_need_nothing() -> None:
    """Each works off several tasks."""
    watcher = ExecutorWatcher(session(2))
    watcher.start(4)
    assert looks(watcher, 4) == [0, 0, 0, 0]


def test_one_machine_has_the_cores_it_has() -> None:
    """Nothing is asked."""
    watcher = ExecutorWatcher(session(8, "local[8]"))
    watcher.start(2)
    assert looks(watcher, 4) == [0, 0, 0, 0]
