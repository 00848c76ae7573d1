"""Every message once, or counted as gone once: tables taken back, backfills, short lives, rolled-back messages."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from tests.support.processes import wait_until
from tests.support.topics.job_settings import job_settings
from tests.support.topics.messaging_service import MessagingService, upstream_message

from fairlead_ingest import errors
from fairlead_ingest.io.metrics import IngestMetrics
from fairlead_ingest.io.pipeline import backfill
from fairlead_ingest.io.pipeline.job import Job
from fairlead_ingest.io.table import tables
from fairlead_ingest.table.commit_info import CommitInfo
from fairlead_messaging.client.io.sync_client import BulkClient, Client
from fairlead_wire.errors import Permanent


def messages(*numbers: int) -> list[bytes]:
    return [b"broken %d" % number if number % 5 == 4 else upstream_message(number) for number in numbers]


def found(sink: str, folder: Path, suffix: str = "") -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = tables.existing(tables.of(sink), folder / f"rows{suffix}").to_table().to_pylist()
    return table


def everything(sink: str, folder: Path) -> Counter[int]:
    rows = [row["sequence"] for row in found(sink, folder)]
    letters = [int(row["payload"].split()[1]) for row in found(sink, folder, tables.DEAD_LETTERS)]
    return Counter([*rows, *letters])


def newest(sink: str, folder: Path) -> CommitInfo:
    info = tables.of(sink).last_entries(folder / "rows", 1)[0].info
    assert info is not None
    return info


def once(*numbers: int) -> Counter[int]:
    return Counter(numbers)


# --- tables that are not what the checkpoint left


def restore(folder: Path, version: int) -> None:
    DeltaTable(str(folder / "rows")).restore(version)


def roll_back(folder: Path, version: int) -> None:
    """As from a backup: the log's newest entries are not there."""
    for entry in (folder / "rows" / "_delta_log").glob("*.json"):
        if int(entry.stem) > version:
            entry.unlink()


def clone(folder: Path, version: int) -> None:
    """The rows of then, copied by others into a table of theirs."""
    rows = DeltaTable(str(folder / "rows"), version=version).to_pyarrow_table()
    shutil.rmtree(folder / "rows")
    write_deltalake(str(folder / "rows"), rows, partition_by=["_topic", "_date"])


def rewrite(folder: Path, version: int) -> None:
    rows = DeltaTable(str(folder / "rows"), version=version).to_pyarrow_table()
    write_deltalake(str(folder / "rows"), rows, mode="overwrite", partition_by=["_topic", "_date"])


def delete(folder: Path, version: int) -> None:
    shutil.rmtree(folder / "rows")


@pytest.mark.verify
@pytest.mark.parametrize(
    ("mishap", "has_news"),
    [(restore, True), (restore, False), (roll_back, True), (clone, True), (rewrite, False), (delete, False)],
)
def test_a_table_that_was_taken_back_is_noticed_and_filled_again(run, messaging, topic, tmp_path, mishap, has_news):
    """With the old checkpoint it stops by its code, with news or without; a new one brings back what is gone, once."""
    for first in (0, 6):
        messaging.publish(topic, messages(*range(first, first + 6)))
        run()
    assert everything("delta", tmp_path) == once(*range(12))
    mishap(tmp_path, 1)
    more = range(12, 12 + 5 * has_news)
    messaging.publish(topic, messages(*more)) if has_news else None
    with pytest.raises(Permanent) as stopped:
        run()
    assert stopped.value.code == errors.TABLE_BEHIND
    if mishap is delete:
        assert not (tmp_path / "rows").exists(), "no table is made where one should be"
    run(checkpoint=str(tmp_path / "checkpoint-2"))
    assert everything("delta", tmp_path) == once(*range(12), *more)


@pytest.mark.verify
def test_a_batch_tried_again_on_a_restored_table_is_not_taken_for_one_it_has(run, messaging, topic, tmp_path):
    """Killed between the table's commit and Spark's, then the table was restored: the log still knows the number."""
    messaging.publish(topic, messages(*range(6)))
    run()
    messaging.publish(topic, messages(*range(6, 12)))
    run()
    (tmp_path / "checkpoint" / "commits" / "1").unlink()
    restore(tmp_path, 1)
    run()
    assert everything("delta", tmp_path) == once(*range(12))


@pytest.mark.verify
def test_what_others_do_to_a_table_does_not_stop_the_job(run, messaging, topic, tmp_path):
    """Compaction, a delete, a table property: rows that were deleted on purpose do not come again."""
    messaging.publish(topic, messages(*range(6)))
    run()
    table = DeltaTable(str(tmp_path / "rows"))
    table.optimize.compact()
    table.delete("sequence >= 2")
    table.alter.set_table_properties({"delta.checkpointInterval": "50"})
    messaging.publish(topic, messages(6))
    run()
    assert everything("delta", tmp_path) == once(0, 1, 4, 6)


@pytest.mark.verify
def test_a_topic_taken_out_and_in_again_goes_on_from_the_table(run, messaging, topic, tmp_path):
    other = topic + "-other"
    messaging.create(other)
    messaging.publish(topic, messages(0, 1))
    messaging.publish(other, messages(2))
    run(topics=[topic, other])
    messaging.publish(topic, messages(3))
    messaging.publish(other, messages(5))
    run(topics=[other])
    run(topics=[topic, other])
    assert everything("delta", tmp_path) == once(0, 1, 2, 3, 5)


# --- backfills


@pytest.fixture
def backfilled(spark: SparkSession, messaging: MessagingService, topic: str, tmp_path: Path) -> Callable[..., int]:
    def go(into: str = "rows", **changes: Any) -> int:
        settings = job_settings(tmp_path, messaging.url, *changes.pop("topics", [topic]), **changes)
        [pipeline] = settings.jobs()
        done = backfill.run(spark, settings, pipeline, from_ms=None, until_ms=None, into=tmp_path / into)
        return done["rows_added"]

    return go


@pytest.mark.verify
def test_a_backfill_leaves_to_the_job_what_the_job_will_bring(run, backfilled, messaging, topic, tmp_path):
    """Into the stopped job's own table, what is beyond its position, of topics it has begun and of new ones."""
    other = topic + "-other"
    messaging.create(other)
    messaging.publish(topic, messages(*range(10)))
    run()
    messaging.publish(topic, messages(*range(10, 20)))
    messaging.publish(other, messages(*range(20, 25)))
    assert backfilled() == 0
    assert backfilled(topics=[topic, other]) == 4
    messaging.publish(other, messages(*range(25, 30)))
    run(topics=[topic, other])
    assert backfilled(topics=[topic, other]) == 0
    assert everything("delta", tmp_path) == once(*range(30))


@pytest.mark.verify
def test_a_backfill_before_the_first_start_is_gone_on_from(run, backfilled, messaging, topic, tmp_path):
    """The rows say how far it went; a batch that the checkpoint has planned already is the job's."""
    messaging.publish(topic, messages(*range(10)))
    assert backfilled() == 8
    messaging.publish(topic, messages(*range(10, 15)))
    run()
    assert everything("delta", tmp_path) == once(*range(15))
    for suffix in ("", tables.DEAD_LETTERS, tables.GAPS):
        shutil.rmtree(tmp_path / f"rows{suffix}")
    shutil.rmtree(tmp_path / "checkpoint" / "commits")
    assert backfilled() == 8  # what lies before the checkpoint's first batch belongs to no batch
    run()
    assert everything("delta", tmp_path) == once(*range(15))


# --- what expired, and what was rolled back


@pytest.fixture(scope="module")
def tidy_messaging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessagingService]:
    with MessagingService(tmp_path_factory.mktemp("tidy"), cleanup_seconds=0.2) as service:
        yield service


@pytest.mark.verify
@pytest.mark.parametrize(("tidy", "own"), [(True, True), (True, False), (False, True), (False, False)])
def test_what_was_accepted_and_never_became_a_row_is_in_the_gaps_once(
    run, messaging, tidy_messaging, topic, tmp_path, tidy, own
):
    """Never read yet, or after a position: gone by a life of their own or by the topic's, removed already or not."""
    service = tidy_messaging if tidy else messaging
    if tidy:
        service.create(topic)

    def lose(count: int) -> None:
        before = service.visible(topic)
        service.publish(topic, messages(*range(count)), ttl=1 if own else None)
        if not own:
            service.configure(topic, ttl=1)
        wait_until("they have expired", lambda: service.visible(topic) <= (before if own else 0), seconds=120)

    def go() -> tuple[int, int, int]:
        run(on_expired="gap", messaging_url=service.url)
        service.configure(topic, ttl=3600)
        gaps = sum(gap["rows"] for gap in found("delta", tmp_path, tables.GAPS))
        return len(found("delta", tmp_path)), gaps, newest("delta", tmp_path).totals.expired_unread

    lose(68)
    assert go() == (0, 68, 68)
    service.publish(topic, messages(0, 1))
    assert go() == (2, 68, 68)
    lose(50)
    if own:
        service.publish(topic, messages(2, 3))
        assert go() == (4, 118, 118)
    assert go() == (2 + 2 * own, 118, 118)
    service.publish(topic, messages(5, 6))
    assert go() == (4 + 2 * own, 118, 118)


@pytest.mark.parametrize("on_expired", ["count", "gap"])
def test_what_was_rolled_back_was_never_there(run, messaging, topic, tmp_path, on_expired):
    """Neither expired nor a gap, whether its transaction was ended or a publish taken back."""
    namespace, name = topic.split("/")
    messaging.publish(topic, messages(0))
    with Client(messaging.url) as client:
        for _ in range(2):
            started = client.start_transaction()
            client.publish_in(started.transactionWritePointer, namespace, name, messages(1, 2))
            client.finish_transaction(started.transactionWritePointer, "abort")
    messaging.publish(topic, messages(3))
    run(on_expired=on_expired)
    assert everything("delta", tmp_path) == once(0, 3)
    assert (newest("delta", tmp_path).counts.expired_unread, found("delta", tmp_path, tables.GAPS)) == (0, [])


@pytest.mark.parametrize("form", ["raw", "envelope"])
def test_a_message_that_is_put_aside_is_a_dead_letter_in_any_format(spark, messaging, topic, tmp_path, form):
    """Its payload is kept as it was, its reason beside it; a transform of the user's sees what is left."""
    messaging.publish(topic, messages(0, 1, 2))
    with BulkClient(messaging.url) as client:
        names = [each.hex() for each in client.poll(topic, after="").table["id"].to_pylist()]
    settings = job_settings(tmp_path, messaging.url, topic, trigger="available-now", format=form)
    job = Job(spark, settings, settings.jobs()[0], IngestMetrics())
    job.put_aside({topic: {names[1]: "it breaks the pipeline"}})
    job.start()
    wait_until("the query has ended", lambda: not job.is_running, seconds=120)
    assert job.failure() is None
    job.finish()
    assert [row["_id"] for row in found("delta", tmp_path)] == [names[0], names[2]]
    [letter] = found("delta", tmp_path, tables.DEAD_LETTERS)
    assert (letter["_id"], letter["error"]) == (names[1], "it breaks the pipeline")
    assert b'"edge-1-1"' in letter["payload"]
    # A start that fails leaves what was committed long ago alone.
    again = Job(spark, settings, settings.jobs()[0], IngestMetrics())
    again.finish()
    assert again.metrics.batches.labels(again.name)._value.get() == 0
