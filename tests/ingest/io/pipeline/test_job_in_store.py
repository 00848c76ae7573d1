"""A job whose table lies in a real object store: every message once, also from a machine that has no checkpoint."""

from __future__ import annotations

import datetime
import time
from collections import Counter
from collections.abc import Callable

import pytest
from tests.support.processes import wait_until
from tests.support.tables.object_store import ObjectStore
from tests.support.topics.job_settings import job_settings
from tests.support.topics.messaging_service import upstream_message

from fairlead_ingest.io import status
from fairlead_ingest.io.metrics import IngestMetrics
from fairlead_ingest.io.pipeline import backfill
from fairlead_ingest.io.pipeline.job import Job
from fairlead_ingest.io.pipeline.supervisor import Supervisor
from fairlead_ingest.io.table import maintenance, object_store, tables
from fairlead_ingest.io.table.receipt import TableReceipts
from fairlead_ingest.settings import IngestSettings
from fairlead_ingest.table.store_path import StorePath

DELTA = tables.of("delta")


def everything(table: StorePath) -> Counter[int]:
    rows = tables.existing(DELTA, table).to_table().to_pylist()
    letters = tables.existing(DELTA, tables.beside(table, tables.DEAD_LETTERS)).to_table().to_pylist()
    return Counter([row["sequence"] for row in rows] + [int(row["payload"].split()[1]) for row in letters])


def messages(*numbers: int) -> list[bytes]:
    return [b"broken %d" % number if number % 5 == 4 else upstream_message(number) for number in numbers]


def test_rows_are_in_the_store_once_and_another_machine_continues(run, spark, messaging, topic, tmp_path, store):
    """The position lies in the table: an empty checkpoint folder, as on another machine, repeats and misses nothing."""
    table = store.place(f"{topic}/rows")
    given = {"table": str(table), "storage": store.settings}
    messaging.publish(topic, messages(*range(6)))
    run(**given)
    messaging.publish(topic, messages(*range(6, 12)))
    run(**given, checkpoint=str(tmp_path / "on-another-machine"))
    assert everything(table) == Counter(range(12))

    # What people do beside the job finds the table, too.
    settings = job_settings(tmp_path, messaging.url, topic, **given)
    (job,) = settings.jobs()
    facts = status.of(job, settings.place(job.table), None, datetime.datetime.now(datetime.UTC))
    assert (facts["rows"], facts["dead_letters_rows"]) == (10, 2)
    first = tables.existing(DELTA, table).to_table().sort_by("sequence")["id"][0].as_py()
    receipt = TableReceipts(DELTA, table, first).find()
    assert receipt is not None and receipt["_topic"] == topic
    done = backfill.run(spark, settings, job, from_ms=None, until_ms=None, into=store.place(f"{topic}/again"))
    assert done["rows_added"] == 10
    assert maintenance.delta_compaction(table).compact(target_bytes=maintenance.TARGET_BYTES)["files_removed"] >= 2
    assert everything(table) == Counter(range(12))


@pytest.mark.verify
def test_a_checkpoint_in_the_store_goes_on_elsewhere_and_forgets_no_duplicate(run, messaging, topic, store):
    """Each run has a folder of its own, as on another machine; what a producer sent twice is known to the next."""
    table, checkpoint = store.place(f"{topic}/rows"), store.place(f"{topic}/checkpoint")
    given = {
        "table": str(table), "checkpoint": str(checkpoint), "storage": store.settings, "dedupe_seconds": 3600,
        "on_expired": "gap",
    }  # fmt: skip
    applications = set()
    for first in (0, 3):
        messaging.publish(topic, [upstream_message(number) for number in range(first, first + 6)])
        run(**given)
        (entry,) = DELTA.last_entries(table, 1)
        assert entry.info is not None
        applications.add(entry.info.application)
        rows = tables.existing(DELTA, table).to_table()["sequence"].to_pylist()
        assert sorted(rows) == list(range(first + 6))
    assert len(applications) == 1, "a copy that fits is gone on with"
    # The copy is older than the table: another machine's, which the table would refuse. The table knows how far it is.
    page = store.content / checkpoint.key / "checkpoint.json"
    older = page.read_bytes()
    archives = {path: path.read_bytes() for path in (page.parent / "state").iterdir()}
    messaging.publish(topic, [upstream_message(number) for number in range(9, 12)])
    run(**given)
    messaging.publish(topic, [upstream_message(number) for number in range(12, 15)])
    run(**given)
    page.unlink()
    for path, content in {page: older, **archives}.items():
        object_store.write(store.place(str(path.relative_to(store.content))), content)
    messaging.publish(topic, [upstream_message(number) for number in range(15, 18)])
    run(**given)
    rows = tables.existing(DELTA, table).to_table()["sequence"].to_pylist()
    assert sorted(rows) == list(range(18))
    (entry,) = DELTA.last_entries(table, 1)
    assert entry.info is not None and entry.info.application not in applications


@pytest.mark.verify
def test_a_secret_that_is_replaced_at_the_store_first_is_waited_for(spark, messaging, topic, tmp_path):
    """The running job says that it waits, and goes on when the new one is in the file."""
    with ObjectStore(tmp_path / "store") as store:
        mine = tmp_path / "secret"
        mine.write_text(store.secret.read_text())
        settings = IngestSettings.model_validate(
            {"messaging_url": messaging.url, "security": "insecure", "topics": [topic], "trigger": 0.2,
             "table": "s3://tables/renewed/rows", "checkpoint": "s3://tables/renewed/checkpoint",
             "storage": {**store.settings, "secret_access_key_file": str(mine)}}
        )  # fmt: skip
        job = Job(spark, settings, settings.jobs()[0], IngestMetrics())
        supervisor = Supervisor(job)

        def step_until(what: str, condition: Callable[[], bool]) -> None:
            def stepped() -> bool:
                supervisor.step(time.monotonic(), may_start=True)
                return condition()

            wait_until(what, stepped, seconds=300, every=0.2, describe=lambda: supervisor.waiting)

        try:
            messaging.publish(topic, messages(0, 1, 2))
            step_until("three rows", lambda: tables.count(DELTA, store.place("renewed/rows")) == 3)
            step_until("the query answers", lambda: supervisor.waiting == "")
            store.kill()
            store.secret.write_text("another-secret-of-the-same-key")
            store.start()
            messaging.publish(topic, messages(3, 5, 6))
            step_until("new credentials are waited for", lambda: "for renewed ones" in supervisor.waiting)
            mine.write_text(store.secret.read_text())
            step_until("the others", lambda: tables.count(DELTA, store.place("renewed/rows")) == 6)
        finally:
            job.close()
        assert everything(store.place("renewed/rows")) == Counter([0, 1, 2, 3, 5, 6])


@pytest.mark.process
def test_no_secret_is_in_the_options_of_a_query(store):
    from fairlead_ingest.io.sink import spark_sink

    options = spark_sink.place_options(store.place("rows"))
    secret = store.secret.read_text().strip()
    assert options["table"] == "s3://tables/rows" and secret not in str(options)
    assert str(store.secret) in options["storage"], "the file is named, and read where it is needed"
