"""A query is started again when more executors came than it counts on."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from fairlead_ingest.io.pipeline.executor_watcher import GONE, GONE_AT_START, LOOK, ExecutorPresence, ExecutorWatcher
from fairlead_ingest.io.pipeline.spark_away import SparkAway

NOW = datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC)


def session(cores: int, master: str = "spark://h:7077", *, executors: int = 1, dynamic: str = "false") -> Any:
    tracker = SimpleNamespace(getExecutorInfos=lambda: ["driver"] * (1 + executors))
    jvm = SimpleNamespace(sc=lambda: SimpleNamespace(statusTracker=lambda: tracker))
    context = SimpleNamespace(master=master, defaultParallelism=cores, _jsc=jvm)
    return SimpleNamespace(sparkContext=context, conf=SimpleNamespace(get=lambda *_: dynamic))


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


def present(watched: Any) -> None:
    presence = ExecutorPresence(watched)
    for number in range(GONE // LOOK + 2):
        presence.check(NOW + number * LOOK)


def test_a_master_that_does_not_know_the_application_is_noticed() -> None:
    """It ended the executors, and gives no others."""
    with pytest.raises(SparkAway, match="no executor for 60 s"):
        present(session(2, executors=0))


def test_executors_that_are_there_or_may_come_and_go_are_no_reason() -> None:
    """Kubernetes gives others by itself; with dynamic allocation an idle job has none."""
    present(session(2))
    present(session(2, executors=0, dynamic="true"))
    present(session(2, "k8s://https://h:6443", executors=0))
    present(session(2, "local[2]", executors=0))


def test_executors_that_come_back_in_time_are_enough() -> None:
    """A worker that was killed and started again."""
    watched = session(2, executors=0)
    presence = ExecutorPresence(watched)
    presence.check(NOW)
    presence.check(NOW + GONE / 2)
    watched.sparkContext._jsc = session(2).sparkContext._jsc
    presence.check(NOW + GONE)
    watched.sparkContext._jsc = session(2, executors=0).sparkContext._jsc
    presence.check(NOW + GONE + LOOK)
    presence.check(NOW + GONE + 2 * LOOK)


def test_before_the_first_batch_it_is_waited_for_longer() -> None:
    """A new application is the last in the queue of a master that others use."""
    presence = ExecutorPresence(session(2, executors=0), GONE_AT_START)
    for number in range(GONE_AT_START // LOOK):
        presence.check(NOW + number * LOOK)
    with pytest.raises(SparkAway, match="no executor for 300 s"):
        presence.check(NOW + GONE_AT_START)
