"""Asking how far a table is behind may not hold its job up."""

from __future__ import annotations

import datetime
import socket
import time
from typing import Any

import pytest

from fairlead_ingest.io import status
from fairlead_ingest.io.metrics import IngestMetrics
from fairlead_ingest.io.pipeline import watchers
from fairlead_ingest.io.pipeline.job import Job
from fairlead_ingest.settings import IngestSettings
from fairlead_ingest.source.offsets import Offsets, TopicOffset

TOPICS = [f"default/t{number}" for number in range(100)]
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def job(url: str) -> Job:
    values = {"messaging_url": url, "topics": TOPICS, "table": "/nowhere/rows", "checkpoint": "/nowhere/checkpoint"}
    settings = IngestSettings.model_validate({**values, "security": "insecure"})
    made: Any = None  # the session: nothing is started
    return Job(made, settings, settings.jobs()[0], IngestMetrics())


@pytest.mark.verify
def test_a_silent_service_is_waited_for_once_not_at_each_topic() -> None:
    """A stop and the other pipelines come after it: a hundred topics were eight minutes."""
    with socket.create_server(("127.0.0.1", 0), backlog=200) as deaf:
        looking = job(f"http://127.0.0.1:{deaf.getsockname()[1]}")
        begin = time.monotonic()
        looking.measure_lag(NOW)
        looking._commits.reached = Offsets(topics={topic: TopicOffset.at(1, "0a") for topic in TOPICS})
        looking._commits.report_positions()
        assert time.monotonic() - begin < 30.0
        looking.finish()


def test_a_slow_service_is_asked_about_each_topic_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many at a time as there is time for, the others first the next time."""
    asked: list[str] = []

    def slow(topic: str, *_: object) -> dict[str, Any]:
        asked.append(topic)
        time.sleep(0.02)
        return {"state": "ok", "lag_messages": 0, "lag_seconds": 0.0}

    monkeypatch.setattr(status, "of_topic", slow)
    monkeypatch.setattr(watchers, "ASK_SECONDS_MAX", 0.2)
    looking = job("http://127.0.0.1:9")
    looking.measure_lag(NOW)
    assert 0 < len(asked) <= 11
    for times in range(1, 100):
        if len(asked) >= len(TOPICS):
            break
        looking.measure_lag(NOW + times * datetime.timedelta(seconds=watchers.LAG_SECONDS))
    assert asked[:100] == TOPICS
