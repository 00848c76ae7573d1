"""Watching a job from outside its query: commits, lag and table size are reported without delaying it."""

from __future__ import annotations

import datetime
import json
import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError
from prometheus_client import generate_latest
from tests.support.tables.table_formats import FORMATS, append_rows, format_of
from tests.support.topics.job_settings import job_settings
from tests.support.topics.messaging_service import MessagingService

from fairlead_ingest import errors
from fairlead_ingest.io import status
from fairlead_ingest.io.checkpoint import spark_checkpoint
from fairlead_ingest.io.event_publisher import EventPublisher
from fairlead_ingest.io.metrics import IngestMetrics
from fairlead_ingest.io.pipeline import watchers
from fairlead_ingest.io.pipeline.job import Job
from fairlead_ingest.io.pipeline.watchers import PUBLISHED_AGAIN_MAX, SIZE_SECONDS, CommitWatcher, SizeWatcher
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.io.table.tables import of
from fairlead_ingest.pipeline.events import Numbered
from fairlead_ingest.settings import Pipeline
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table import commit
from fairlead_ingest.table.commit import Append
from fairlead_ingest.table.commit_info import BatchCounts
from fairlead_messaging.client.io.sync_client import BulkClient

SCHEMA = pa.schema([("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])


class Published:
    """Keeps the numbers of what would be published."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def publish_numbered(self, producer: str, events: list[Numbered]) -> None:
        assert producer == "ingest/fairlead:q"
        self.numbers += [each.number for each in events]


COUNTS = BatchCounts(rows=10, filtered=1)


class Lab:
    """A table, a checkpoint with an identity, and a service."""

    def __init__(self, sink: str, folder: Path, service: MessagingService, topic: str) -> None:
        self.table_format, self.folder, self.topic, self.service = format_of(sink, folder), folder, topic, service
        self.table_format.ensure(folder / "rows", SCHEMA)
        self.metrics, self.published = IngestMetrics(), Published()
        (folder / "checkpoint" / "offsets").mkdir(parents=True)
        (folder / "checkpoint" / "metadata").write_text(json.dumps({"id": "q"}))
        self.client = BulkClient(service.url)

    def watcher(self, starting_position: str = "earliest") -> CommitWatcher:
        return CommitWatcher(
            Pipeline(name="p", topics=[self.topic], table="", checkpoint="", starting_position=starting_position),
            self.table_format,
            self.folder / "rows",
            self.folder / "checkpoint",
            self.metrics,
            cast(EventPublisher, self.published),
            lambda: self.client,
        )

    def commit(
        self,
        batch: int,
        place: TopicOffset,
        application: str | None = None,
        counts: BatchCounts = COUNTS,
    ) -> None:
        table = self.folder / "rows"
        name = application or spark_checkpoint.application(self.folder / "checkpoint")
        end = Offsets(service="s", topics={self.topic: place})
        decided = commit.decide(
            self.table_format.state(table, name), application=name, batch=batch, end=end, counts=counts
        )
        assert isinstance(decided, Append)
        self.table_format.append(table, [], decided)
        (self.folder / "checkpoint" / "offsets" / str(batch)).write_text("v1")

    def rows(self) -> Any:
        return self.metrics.registry.get_sample_value("fairlead_ingest_rows_total", {"pipeline": "p"})


@pytest.fixture(params=FORMATS)
def lab(request: pytest.FixtureRequest, messaging: MessagingService, topic: str, tmp_path: Path) -> Lab:
    return Lab(request.param, tmp_path, messaging, topic)


def test_each_batch_is_reported_once_and_the_service_knows_how_far_the_table_goes(lab):
    lab.service.publish(lab.topic, [b"1", b"2"])
    plan = lab.client.plan(lab.topic, after="")
    watcher = lab.watcher()
    watcher.start()
    assert watcher.observe() == 0
    lab.commit(0, TopicOffset.at(plan.generation, ""))
    lab.commit(1, TopicOffset(generation=plan.generation, position=plan.upto or ""))
    assert (watcher.observe(), watcher.observe()) == (2, 0)
    assert lab.rows() == 20
    assert lab.published.numbers == [0, 2]
    assert watcher.reached.topics[lab.topic].position == plan.upto
    assert watcher._reported == {lab.topic: plan.upto}


def test_a_batch_of_dead_letters_alone_is_a_warning(lab, caplog):
    """A batch with rows as well is not, and neither is one of which all was filtered."""
    watcher = lab.watcher()
    watcher.start()
    for batch, counts in enumerate(
        (BatchCounts(rows=0, dead_letters=7), BatchCounts(rows=1, dead_letters=7), BatchCounts(filtered=3))
    ):
        lab.commit(batch, TopicOffset.at(1, ""), counts=counts)
    assert watcher.observe() == 3
    said = [vars(record)["fields"] for record in caplog.records if record.getMessage() == "batch_all_dead_letters"]
    assert [(each["batch"], each["dead_letters"]) for each in said] == [(0, 7)]


def test_commits_of_others_in_between_hide_none(lab):
    lab.commit(0, TopicOffset.at(1, ""))
    watcher = lab.watcher()
    watcher.start()
    for batch in range(1, 13):
        lab.commit(batch, TopicOffset.at(1, ""))
        lab.commit(batch, TopicOffset.at(1, ""), "fairlead:other")
    assert watcher.observe() == 12
    assert lab.rows() == 120


def test_a_run_publishes_the_last_commits_of_the_one_before_again(lab):
    """It may have been killed before it could; counted they are not again."""
    for batch in range(PUBLISHED_AGAIN_MAX + 3):
        lab.commit(batch, TopicOffset.at(1, ""))
    watcher = lab.watcher()
    watcher.start()
    assert watcher.observe() == 0
    assert lab.published.numbers == [2 * batch for batch in range(3, PUBLISHED_AGAIN_MAX + 3)]
    assert lab.rows() is None


def test_the_service_knows_which_table_reached_the_position_and_where_it_began(lab):
    lab.service.publish(lab.topic, [b"1"])
    plan = lab.client.plan(lab.topic, after="")
    watcher = lab.watcher()
    watcher.start()
    lab.commit(0, TopicOffset.at(plan.generation, plan.upto or ""))
    for _ in range(2):
        watcher.observe()
        [reader] = lab.service.readers(lab.topic)
        table = reader["table"]
        assert (table["name"], table["batch"], table["rowless"]) == (str(lab.folder / "rows"), 0, 1)
        assert (table["start"], reader["position"]) == ("", plan.upto)
        watcher = lab.watcher()
        watcher.start()
        watcher.report_positions()


@pytest.mark.parametrize("starting_position", ["earliest", "latest"])
def test_a_table_claims_nothing_of_before_its_beginning(lab, starting_position):
    places = []
    for _ in range(3):
        lab.service.publish(lab.topic, [b"1"])
        places.append(lab.client.plan(lab.topic, after=""))
    watcher = lab.watcher(starting_position=starting_position)
    watcher.start()
    begin = ""
    for batch, place in enumerate(places):
        generation = place.generation
        end = TopicOffset(
            generation=generation, position=place.upto or "", start_generation=generation, start_position=begin
        )
        lab.commit(batch, end)
        begin = end.position
    watcher.observe()
    [reader] = lab.service.readers(lab.topic)
    # Where older entries of a log say no positions, less is claimed.
    begins = {""} if starting_position == "earliest" else {places[0].upto, places[2].upto}
    assert reader["table"]["start"] in begins
    assert reader["position"] == places[2].upto


TOPICS = [f"default/t{number}" for number in range(100)]
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def job(url: str) -> Job:
    settings = job_settings(Path("/nowhere"), url, *TOPICS)
    made: Any = None  # the session: nothing is started
    return Job(made, settings, settings.jobs()[0], IngestMetrics())


@pytest.mark.verify
def test_a_silent_service_is_waited_for_once_not_at_each_topic():
    """A stop and the other pipelines come after it: a hundred topics were eight minutes."""
    with socket.create_server(("127.0.0.1", 0), backlog=200) as deaf:
        looking = job(f"http://127.0.0.1:{deaf.getsockname()[1]}")
        begin = time.monotonic()
        looking.measure_lag(NOW)
        looking._commits.reached = Offsets(topics={topic: TopicOffset.at(1, "0a") for topic in TOPICS})
        looking._commits.report_positions()
        assert time.monotonic() - begin < 30.0
        looking.finish()


@pytest.mark.slow
def test_a_slow_service_is_asked_about_each_topic_in_the_end(monkeypatch):
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


def test_a_topic_that_is_not_there_is_said_once(monkeypatch, caplog):
    """And again when it is gone again: a job that goes on waits for it, and a wrong name looks the same."""
    missing = {TOPICS[3]}

    def of_topic(topic: str, *_: object) -> dict[str, Any]:
        return {"state": "missing"} if topic in missing else {"state": "ok", "lag_messages": 0, "lag_seconds": 0.0}

    monkeypatch.setattr(status, "of_topic", of_topic)
    looking = job("http://127.0.0.1:9")
    said = []
    for times, gone in enumerate((True, True, False, True)):
        (missing.add if gone else missing.discard)(TOPICS[3])
        looking.measure_lag(NOW + times * datetime.timedelta(seconds=watchers.LAG_SECONDS))
        told = [vars(record)["fields"] for record in caplog.records if record.getMessage() == "topic_missing"]
        assert all(each["topic"] == TOPICS[3] for each in told)
        said.append(len(told))
    assert said == [1, 1, 1, 2]


def test_an_idle_query_is_not_at_work_on_a_batch():
    looking = job("http://127.0.0.1:9")
    query: Any = SimpleNamespace(lastProgress=None)
    looking._query = query
    query.status = {"isTriggerActive": True, "message": "Getting offsets from source@1f"}
    assert looking.activity()[1] is False
    query.status = {"isTriggerActive": True, "message": "Processing new data"}
    assert looking.activity() == (0, True, "Processing new data")
    query.status = {"isTriggerActive": False, "message": "Waiting for next trigger"}
    assert looking.activity()[1] is False


def lines(metrics: IngestMetrics) -> list[str]:
    text = generate_latest(metrics.registry).decode()
    return [line for line in text.splitlines() if line.startswith("fairlead_ingest_table_")]


def test_files_and_bytes_of_a_table(tmp_path):
    """Nothing is said of a table that is not there; then its size, at most once a minute."""
    form, table, metrics = of("delta"), tmp_path / "rows", IngestMetrics()
    watching = SizeWatcher("p", form, table, metrics)
    watching.ask(NOW)
    assert lines(metrics) == []
    form.ensure(table, SCHEMA)
    row = {"_id": "a", "_topic": "a/t", "_date": NOW.date()}
    append_rows(form, table, [row], SCHEMA)
    watching.ask(NOW + datetime.timedelta(seconds=SIZE_SECONDS - 1))
    assert lines(metrics) == []
    watching.ask(NOW + datetime.timedelta(seconds=SIZE_SECONDS))
    assert 'fairlead_ingest_dead_letters_open{pipeline="p"} 0.0' in generate_latest(metrics.registry).decode()
    size = float(sum(path.stat().st_size for path in table.rglob("*.parquet")))
    assert lines(metrics) == [
        'fairlead_ingest_table_files{pipeline="p"} 1.0',
        f'fairlead_ingest_table_bytes{{pipeline="p"}} {size}',
    ]


@pytest.mark.parametrize("error", [errors.Wait(errors.STORE_AWAY, "away"), OSError("gone"), DeltaError("broken")])
def test_a_table_that_cannot_be_read_is_asked_again(error):
    class Broken:
        def size(self, _: object) -> Any:
            raise error

    metrics = IngestMetrics()
    SizeWatcher("p", cast(TableFormat, Broken()), Path("/nowhere"), metrics).ask(NOW)
    assert lines(metrics) == []
