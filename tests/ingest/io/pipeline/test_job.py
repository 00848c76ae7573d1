"""A whole pipeline on the real service, real Spark, a real table."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from tests.support.joining.pki import Authority
from tests.support.processes import wait_until
from tests.support.topics.messaging_service import MessagingService, upstream_message

from fairlead_ingest import errors
from fairlead_ingest.io.table import tables
from fairlead_wire.errors import Permanent

CONTRACT_COLUMNS = [
    "id", "node", "epoch", "stream", "sequence", "source", "priority", "enqueued_at",
    "properties", "system_properties", "body",
    "_topic", "_id", "_published_at", "_ingested_at", "_batch", "_date",
]  # fmt: skip


def rows(tmp_path: Path, suffix: str = "") -> pl.DataFrame:
    return pl.scan_delta(str(tmp_path / f"rows{suffix}")).collect()


@pytest.mark.verify
def test_every_message_is_one_row_in_the_contracts_columns(run, messaging, topic, tmp_path):
    """Published once, read once, in the agreed columns and partitions."""
    messaging.publish(topic, [upstream_message(number) for number in range(50)])
    run()
    table = rows(tmp_path)
    assert table.columns == CONTRACT_COLUMNS
    assert sorted(table["sequence"].to_list()) == list(range(50))
    assert table["_id"].n_unique() == 50
    first = table.filter(pl.col("sequence") == 7).to_dicts()[0]
    assert json.loads(first["body"]) == {"temperature": 0.7, "tags": ["a", "b"]}
    assert json.loads(first["system_properties"])["contentType"] == "application/json"
    assert (first["_topic"], first["_batch"], first["node"]) == (topic, 0, "edge-1")
    assert first["_date"] == first["_published_at"].date()


@pytest.mark.verify
def test_a_second_run_goes_on_where_the_first_ended(run, messaging, topic, tmp_path):
    messaging.publish(topic, [upstream_message(number) for number in range(10)])
    run()
    messaging.publish(topic, [upstream_message(number) for number in range(10, 25)])
    run()
    run()
    assert sorted(rows(tmp_path)["sequence"].to_list()) == list(range(25))


@pytest.mark.verify
def test_a_bad_payload_becomes_a_dead_letter_and_costs_no_other_row(run, messaging, topic, tmp_path):
    messaging.publish(topic, [upstream_message(1), b"not json", upstream_message(2), b'{"id": 5}', b"\xff\xfe"])
    run()
    assert sorted(rows(tmp_path)["sequence"].to_list()) == [1, 2]
    dead = rows(tmp_path, "_dead_letters").sort("_id")
    assert dead["payload"].to_list() == [b"not json", b'{"id": 5}', b"\xff\xfe"]
    assert "$.id" in dead["error"][1]


@pytest.mark.verify
def test_a_lost_checkpoint_is_rebuilt_from_the_table(run, messaging, topic, tmp_path):
    messaging.publish(topic, [upstream_message(number) for number in range(10)])
    run()
    shutil.rmtree(tmp_path / "checkpoint")
    messaging.publish(topic, [upstream_message(number) for number in range(10, 15)])
    run()
    assert sorted(rows(tmp_path)["sequence"].to_list()) == list(range(15))


@pytest.mark.verify
def test_a_batch_between_table_and_checkpoint_is_in_once(run, messaging, topic, tmp_path):
    """Killed after the table's commit and before Spark's: the batch is tried again and passed over."""
    messaging.publish(topic, [upstream_message(number) for number in range(10)])
    run()
    for left in (tmp_path / "checkpoint" / "commits").iterdir():
        left.unlink()
    messaging.publish(topic, [upstream_message(10)])
    run()
    assert sorted(rows(tmp_path)["sequence"].to_list()) == list(range(11))


@pytest.mark.verify
def test_two_jobs_on_one_table_are_kept_apart(run, messaging, topic, tmp_path):
    messaging.publish(topic, [upstream_message(number) for number in range(4)])
    run()
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "other")
    messaging.publish(topic, [upstream_message(4)])
    run()
    # The other job has its own identity, as it would have had from its start.
    (tmp_path / "other" / "metadata").write_text('{"id": "6c1a3f5e-1d9e-4c52-9d1e-3a9a6d0a0b0c"}')
    (tmp_path / "other" / ".metadata.crc").unlink(missing_ok=True)
    with pytest.raises(Permanent) as stopped:
        run(checkpoint=str(tmp_path / "other"))
    assert stopped.value.code == errors.TABLE_TAKEN
    assert sorted(rows(tmp_path)["sequence"].to_list()) == list(range(5))


@pytest.mark.verify
def test_latest_skips_what_is_there_and_a_time_skips_what_is_older(run, messaging, topic, tmp_path):
    """The starting position counts on the first start only."""
    messaging.publish(topic, [upstream_message(1)])
    run(starting_position="latest")
    messaging.publish(topic, [upstream_message(2)])
    run(starting_position="latest")
    assert rows(tmp_path)["sequence"].to_list() == [2]
    run(starting_position="2100-01-01T00:00:00Z", table=str(tmp_path / "later"), checkpoint=str(tmp_path / "c2"))
    assert pl.scan_delta(str(tmp_path / "later")).collect().is_empty()


@pytest.mark.verify
def test_raw_keeps_the_payload_as_it_is(run, messaging, topic, tmp_path):
    messaging.publish(topic, [b"\x00\x01", b"", b"text"])
    run(format="raw")
    table = rows(tmp_path).sort("_id")
    assert table.columns == ["payload", *CONTRACT_COLUMNS[-6:]]
    assert table["payload"].to_list() == [b"\x00\x01", b"", b"text"]


@pytest.mark.verify
def test_typed_columns_come_from_the_schema_and_misfits_are_dead_letters(run, messaging, topic, tmp_path):
    schema = tmp_path / "schema.json"
    schema.write_text('{"columns": {"temperature": "double", "tags": "array<string>"}}')
    messaging.publish(topic, [upstream_message(1), upstream_message(2, body={"temperature": "warm"})])
    run(schema=str(schema))
    table = rows(tmp_path)
    assert table.columns == [*CONTRACT_COLUMNS[:11], "temperature", "tags", *CONTRACT_COLUMNS[11:]]
    assert table["temperature"].to_list() == [0.1]
    dead = rows(tmp_path, "_dead_letters").to_dicts()[0]
    assert json.loads(dead["payload"])["body"] == {"temperature": "warm"}
    wrong = '"temperature" (is not of type double)'
    assert dead["error"] == f'body does not fit the contract at {wrong}: {{"temperature": "warm"}}'
    assert (dead["code"], dead["fields"]) == ("misfit", ["temperature"])


@pytest.mark.verify
def test_a_schema_that_grows_evolves_the_table(run, messaging, topic, tmp_path):
    schema = tmp_path / "schema.json"
    schema.write_text('{"columns": {"temperature": "double"}}')
    messaging.publish(topic, [upstream_message(1)])
    run(schema=str(schema))
    schema.write_text('{"columns": {"temperature": "double", "tags": "array<string>"}}')
    messaging.publish(topic, [upstream_message(2)])
    run(schema=str(schema))
    table = rows(tmp_path).sort("sequence")
    assert table["tags"].to_list() == [None, ["a", "b"]]
    schema.write_text('{"columns": {"temperature": "string"}}')
    with pytest.raises(errors.Stop, match=errors.TABLE_UNFIT):
        run(schema=str(schema))


@pytest.mark.verify
def test_an_evolving_table_grows_by_what_bodies_bring(run, messaging, topic, tmp_path):
    """The batch with something new is read again, with columns for it; what does not fit later is rescued."""
    schema = tmp_path / "schema.json"
    schema.write_text('{"mode": "evolve", "columns": {}}')
    messaging.publish(topic, [upstream_message(1, body={"t": 20}), upstream_message(2, body={"t": 20.5, "up": True})])
    with pytest.raises(Permanent) as grown:
        run(schema=str(schema))
    assert (grown.value.code, "t, up" in str(grown.value)) == (errors.SCHEMA_GREW, True)
    run(schema=str(schema))
    messaging.publish(topic, [upstream_message(3, body={"t": "warm"}), upstream_message(4, body="no object")])
    run(schema=str(schema))
    columns = ["sequence", "t", "up", "_rescued"]
    table = tables.existing(tables.of("delta"), tmp_path / "rows").to_table(columns=columns).sort_by("sequence")
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        (1, 20.0, None, None),
        (2, 20.5, True, None),
        (3, None, None, '{"t": "warm"}'),
        (4, None, None, '"no object"'),
    ]


@pytest.mark.verify
def test_messages_that_expired_unread_are_counted_without_a_gap(run, messaging, tmp_path, topic):
    messaging.publish(topic, [upstream_message(1)])
    run()
    messaging.publish(topic, [upstream_message(2), upstream_message(3)])
    messaging.configure(topic, ttl=1)
    wait_until("they have expired", lambda: messaging.readers(topic)[0]["lag_messages"] == 0, seconds=120)
    job = run()
    assert job.metrics.expired_unread.labels(job.name)._value.get() == 2
    messaging.configure(topic, ttl=3600)
    messaging.publish(topic, [upstream_message(4)])
    job = run()
    assert job.metrics.expired_unread.labels(job.name)._value.get() == 0
    assert sorted(rows(tmp_path)["sequence"].to_list()) == [1, 4]
    assert rows(tmp_path, "_gaps").is_empty()


@pytest.mark.verify
def test_a_recreated_topic_stops_with_its_code_or_leaves_a_gap(run, messaging, topic, tmp_path):
    messaging.publish(topic, [upstream_message(1)])
    run()
    messaging.delete(topic)
    messaging.create(topic)
    messaging.publish(topic, [upstream_message(2)])
    with pytest.raises(Permanent) as stopped:
        run()
    assert stopped.value.code == errors.RECREATED
    run(on_recreated="restart")
    assert sorted(rows(tmp_path)["sequence"].to_list()) == [1, 2]
    gap = rows(tmp_path, "_gaps").to_dicts()[0]
    assert (gap["reason"], gap["_topic"], gap["to_generation"] - gap["from_generation"]) == ("recreated", topic, 1)


@pytest.mark.verify
def test_a_missing_topic_is_waited_for(run, messaging, topic, tmp_path):
    """One topic that is not there yet keeps no other topic waiting, and is read from its beginning when it comes."""
    late = topic + "-late"
    messaging.publish(topic, [upstream_message(1)])
    run(topics=[topic, late])
    messaging.create(late)
    messaging.publish(late, [upstream_message(2)])
    run(topics=[topic, late])
    assert sorted(rows(tmp_path)["sequence"].to_list()) == [1, 2]


def test_a_batch_is_no_larger_than_its_limit(run, messaging, topic, tmp_path):
    messaging.publish(topic, [upstream_message(number) for number in range(30)])
    run(limits={"batch_rows": 10})
    batches = rows(tmp_path).group_by("_batch").len().sort("_batch")
    assert batches["len"].to_list() == [10, 10, 10]


@pytest.mark.verify
def test_a_users_transform_is_part_of_the_pipeline(run, messaging, topic, tmp_path):
    """Its column becomes one of the table's, before the lineage; bad payloads are still dead letters."""
    own = tmp_path / "own.py"
    own.write_text(
        "from pyspark.sql import functions as F\n\n"
        "def fahrenheit(rows):\n"
        "    celsius = F.get_json_object('body', '$.temperature').cast('double')\n"
        "    return rows.withColumn('fahrenheit', celsius * 9 / 5 + 32)\n"
    )
    messaging.publish(topic, [upstream_message(100), b"broken"])
    run(transforms=[f"{own}:fahrenheit"])
    table = rows(tmp_path)
    assert table.columns == [*CONTRACT_COLUMNS[:11], "fahrenheit", *CONTRACT_COLUMNS[11:]]
    assert table["fahrenheit"].to_list() == [50.0]
    assert rows(tmp_path, "_dead_letters").height == 1


@pytest.mark.verify
def test_what_a_producer_sent_twice_is_one_row_when_asked(run, messaging, topic, tmp_path):
    messaging.publish(topic, [upstream_message(1), b"broken", upstream_message(2), upstream_message(1), b"broken"])
    run(dedupe_seconds=60)
    assert sorted(rows(tmp_path)["sequence"].to_list()) == [1, 2]
    assert rows(tmp_path, "_dead_letters").height == 2


@pytest.mark.verify
def test_several_tables_in_one_job(run, messaging, topic, tmp_path):
    other = topic + "-other"
    messaging.create(other)
    messaging.publish(topic, [upstream_message(1)])
    messaging.publish(other, [upstream_message(2), upstream_message(3)])
    run(topics=[topic, other])
    run(topics=[other], table=str(tmp_path / "second"), checkpoint=str(tmp_path / "second-checkpoint"))
    counted = rows(tmp_path).group_by("_topic").len().sort("len")
    assert counted["_topic"].to_list() == [topic, other]
    assert pl.scan_delta(str(tmp_path / "second")).collect().height == 2


def test_tasks_and_driver_show_their_certificate(run, tmp_path):
    with MessagingService(tmp_path / "service", authority=Authority(tmp_path / "pki")) as service:
        service.create("default/t")
        service.publish("default/t", [upstream_message(1)])
        assert service.tls is not None
        files = {"tls_ca": service.tls.ca, "tls_cert": service.tls.cert, "tls_key": service.tls.key}
        run(messaging_url=service.url, topics=["default/t"], security="mtls", **files)
        assert [reader["lag_messages"] for reader in service.readers("default/t")] == [0]
    assert rows(tmp_path)["sequence"].to_list() == [1]
