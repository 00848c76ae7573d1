"""Spark is asked for executors again when none is left."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from fairlead_ingest.io.spark.connect import SparkAway
from fairlead_ingest.io.spark.executors import GONE, GONE_AT_START, PRESENCE_LOOK, ExecutorPresence

NOW = datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC)


def session(master: str = "spark://h:7077", *, executors: int = 1, dynamic: str = "false") -> Any:
    tracker = SimpleNamespace(getExecutorInfos=lambda: ["driver"] * (1 + executors))
    jvm = SimpleNamespace(sc=lambda: SimpleNamespace(statusTracker=lambda: tracker))
    context = SimpleNamespace(master=master, _jsc=jvm)
    return SimpleNamespace(sparkContext=context, conf=SimpleNamespace(get=lambda *_: dynamic))


def present(watched: Any) -> None:
    presence = ExecutorPresence(watched)
    for number in range(GONE // PRESENCE_LOOK + 2):
        presence.check(NOW + number * PRESENCE_LOOK)


def test_a_master_that_does_not_know_the_application_is_noticed() -> None:
    """It ended the executors, and gives no others."""
    with pytest.raises(SparkAway, match="no executor for 60 s"):
        present(session(executors=0))


def test_executors_that_are_there_or_may_come_and_go_are_no_reason() -> None:
    """Kubernetes gives others by itself; with dynamic allocation an idle job has none."""
    present(session())
    present(session(executors=0, dynamic="true"))
    present(session("k8s://https://h:6443", executors=0))
    present(session("local[2]", executors=0))


def test_executors_that_come_back_in_time_are_enough() -> None:
    """A worker that was killed and started again."""
    watched = session(executors=0)
    presence = ExecutorPresence(watched)
    presence.check(NOW)
    presence.check(NOW + GONE / 2)
    watched.sparkContext._jsc = session().sparkContext._jsc
    presence.check(NOW + GONE)
    watched.sparkContext._jsc = session(executors=0).sparkContext._jsc
    presence.check(NOW + GONE + PRESENCE_LOOK)
    presence.check(NOW + GONE + 2 * PRESENCE_LOOK)


def test_before_the_first_batch_it_is_waited_for_longer() -> None:
    """A new application is the last in the queue of a master that others use."""
    presence = ExecutorPresence(session(executors=0), GONE_AT_START)
    for number in range(GONE_AT_START // PRESENCE_LOOK):
        presence.check(NOW + number * PRESENCE_LOOK)
    with pytest.raises(SparkAway, match="no executor for 300 s"):
        presence.check(NOW + GONE_AT_START)
