"""How a job stands."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pyarrow as pa

from fairlead_ingest.io import status
from fairlead_ingest.io.table import delta
from fairlead_ingest.settings import Pipeline
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table import commit, commit_info
from fairlead_ingest.table.commit import Append
from fairlead_ingest.table.commit_info import BatchCounts
from fairlead_messaging.client.io.sync_client import BulkClient

NOW = datetime.datetime.now(datetime.UTC)
SCHEMA = pa.schema([("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])


def pipeline(tmp_path: Path, *topics: str) -> Pipeline:
    return Pipeline(name="p", topics=list(topics), table=str(tmp_path / "rows"), checkpoint=str(tmp_path / "c"))


def commit_rows(tmp_path: Path, topic: str, place: TopicOffset) -> None:
    path = tmp_path / "rows"
    delta.ensure(path, SCHEMA)
    writing = delta.writing(path)
    writing.add(pa.table({"_id": ["1", "2"], "_topic": [topic] * 2, "_date": pa.array([NOW.date()] * 2, pa.date32())}))
    end = Offsets(service="", topics={topic: place})
    counts = BatchCounts(rows=2, expired_unread=1, ages=[0, 2])
    for batch in range(2):
        state = delta.state(path, "app")
        decided = commit.decide(state, application="app", batch=batch, end=end, counts=counts)
        assert isinstance(decided, Append)
        delta.append(path, writing.close() if batch == 0 else [], decided)


def test_a_table_says_what_is_in_it_and_the_service_what_is_not(messaging, topic, tmp_path):
    messaging.publish(topic, [b"1", b"2", b"3"])
    with BulkClient(messaging.url) as client:
        first = client.plan(topic, after="", limit_rows=2)
        commit_rows(tmp_path, topic, TopicOffset.at(first.generation, first.upto or ""))
        later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=60)
        facts = status.of(pipeline(tmp_path, topic), tmp_path / "rows", client, later)
    json.dumps(facts)
    assert (facts["state"], facts["rows"], facts["last_batch"]) == ("ok", 2, 1)
    assert facts["totals"]["expired_unread"] == 2
    assert facts["freshness_p95_seconds"] == 0.25
    (found,) = facts["topics"]
    assert (found["state"], found["lag_messages"]) == ("ok", 1)
    assert 50 < found["lag_seconds"] < 120


def test_what_is_older_than_any_bound_is_said_in_json_too(tmp_path):
    path = tmp_path / "rows"
    delta.ensure(path, SCHEMA)
    ages = [0] * len(commit_info.AGE_BUCKETS) + [3]
    decided = commit.decide(
        delta.state(path, "app"), application="app", batch=0, end=Offsets(), counts=BatchCounts(rows=3, ages=ages)
    )
    assert isinstance(decided, Append)
    delta.append(path, [], decided)
    facts = status.of(pipeline(tmp_path), tmp_path / "rows", None, NOW)
    assert facts["freshness_p95_seconds"] == "more than 86400"
    json.dumps(facts, allow_nan=False)


def test_before_the_first_batch_everything_is_lag(messaging, topic, tmp_path):
    messaging.publish(topic, [b"1"])
    with BulkClient(messaging.url) as client:
        facts = status.of(pipeline(tmp_path, topic, "default/none"), tmp_path / "rows", client, NOW)
    assert (facts["state"], facts["rows"], facts["gaps_rows"]) == ("no table yet", 0, 0)
    assert [found["state"] for found in facts["topics"]] == ["ok", "missing"]
    assert facts["topics"][0]["lag_messages"] == 1


def test_what_went_wrong_with_a_topic_is_its_state(messaging, topic, tmp_path):
    """A service that is down, a topic made anew: the rest of the answer is there all the same."""
    commit_rows(tmp_path, topic, TopicOffset.at(99, "00" * 20))
    with BulkClient(messaging.url) as client:
        assert status.of(pipeline(tmp_path, topic), tmp_path / "rows", client, NOW)["topics"][0]["state"] == "recreated"
    with BulkClient("http://127.0.0.1:9") as client:
        facts = status.of(pipeline(tmp_path, topic), tmp_path / "rows", client, NOW)
    assert facts["rows"] == 2
    assert facts["topics"][0]["state"] == "unreachable"
    assert "lag_messages" not in status.of(pipeline(tmp_path, topic), tmp_path / "rows", None, NOW)["topics"][0]
