"""How large batches are planned beside live topics, on the real service."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.topics.messaging_service import MessagingService

from fairlead_ingest.io.checkpoint import batch_notes
from fairlead_ingest.io.topics import batch_planner
from fairlead_ingest.io.topics.batch_planner import BatchPlanner
from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.source import batch_size
from fairlead_ingest.source.offsets import Offsets
from fairlead_messaging.client.io.sync_client import BulkClient

LIMIT = 100


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_size, "ROWS_MIN", 2)
    monkeypatch.setattr(batch_planner, "START_ROWS", 10)


def planner(
    messaging: MessagingService, checkpoint: Path, topics: Sequence[str], targets: dict[str, str] | None = None
) -> BatchPlanner:
    options = SourceOptions.of(
        {
            "url": messaging.url,
            "topics": ",".join(topics),
            "waitMs": "0",
            "batchSeconds": "1",
            "checkpoint": str(checkpoint),
        }
    )
    return BatchPlanner(options, BulkClient(messaging.url), targets)


def publish(messaging: MessagingService, topic: str, count: int) -> None:
    messaging.publish(topic, [b"%d" % number for number in range(count)])


def filled(messaging: MessagingService, topic: str, count: int) -> None:
    """Create the topic and publish that many messages."""
    messaging.create(topic)
    publish(messaging, topic, count)


def rows(end: Offsets | None, topic: str) -> int:
    assert end is not None
    return end.topics[topic].rows


def test_beside_live_topics_a_backlog_is_taken_in_small_steps(messaging, topic, tmp_path):
    """The live ones come whole, into each batch; a backlog alone is taken as fast as it goes."""
    backlog, live = f"{topic}-backlog", f"{topic}-live"
    filled(messaging, backlog, 500)
    messaging.create(live)
    planning = planner(messaging, tmp_path, [backlog, live])
    end = planning.next(Offsets(), LIMIT, None)
    assert end is not None
    assert (rows(end, backlog), rows(end, live)) == (LIMIT, 0)
    publish(messaging, live, 4)
    end = planning.next(end, LIMIT, None)
    assert (rows(end, backlog), rows(end, live)) == (6, 4)
    assert end is not None
    end = planning.next(end, LIMIT, None)
    # Nothing new, but it had some lately.
    assert (rows(end, backlog), rows(end, live)) == (10, 0)


def test_the_step_grows_with_what_the_last_batch_took(messaging, topic, tmp_path):
    """As the sink's note beside the batch says; without a note it stays."""
    backlog, live = f"{topic}-backlog", f"{topic}-live"
    filled(messaging, backlog, 500)
    filled(messaging, live, 1)
    planning = planner(messaging, tmp_path, [backlog, live])
    end = planning.next(Offsets(), LIMIT, None)
    assert end is not None
    assert rows(end, backlog) == 9
    batch_notes.note_times(tmp_path, 0, end, 0.1)
    for folder, moment in (("offsets", 1_000_000.0), ("commits", 1_000_000.15)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0").touch()
        os.utime(tmp_path / folder / "0", (moment, moment))
    end = planning.next(end, LIMIT, None)
    assert rows(end, backlog) == 20
    assert end is not None
    batch_notes.prepare_notes(tmp_path, end)
    end = planning.next(end, LIMIT, None)
    assert rows(end, backlog) == 20


def test_with_an_end_in_sight_nothing_is_held_back(messaging, topic, tmp_path):
    backlog, live = f"{topic}-backlog", f"{topic}-live"
    targets = {}
    for name, count in ((backlog, 500), (live, 1)):
        filled(messaging, name, count)
        targets[name] = BulkClient(messaging.url).offsets(name, "latest").stable or ""
    end = planner(messaging, tmp_path, [backlog, live], targets).next(Offsets(), LIMIT, None)
    assert (rows(end, backlog), rows(end, live)) == (99, 1)


def test_equal_backlogs_alone_are_not_held_back(messaging, topic, tmp_path):
    both = [f"{topic}-{number}" for number in range(2)]
    for name in both:
        filled(messaging, name, 300)
    end = planner(messaging, tmp_path, both).next(Offsets(), LIMIT, None)
    assert [rows(end, name) for name in both] == [50, 50]


def test_a_busy_topic_among_quiet_ones_is_no_backlog(messaging, topic, tmp_path):
    """It has more than its equal share, and fits into the batch all the same; also asked side by side."""
    quiet = [f"{topic}-{number}" for number in range(9)]
    for name in quiet:
        filled(messaging, name, 1)
    publish(messaging, topic, 60)
    end = planner(messaging, tmp_path, [*quiet, topic]).next(Offsets(), LIMIT, None)
    assert [rows(end, name) for name in (*quiet, topic)] == [1] * 9 + [60]
