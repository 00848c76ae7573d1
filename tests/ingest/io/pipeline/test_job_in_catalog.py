"""A job whose tables are Iceberg's, in a real PostgreSQL and object store: every message once, from any machine."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.support.tables.postgresql import PASSWORD, PostgreSQL
from tests.support.topics.job_settings import job_settings
from tests.support.topics.messaging_service import upstream_message

from fairlead_ingest.io import status
from fairlead_ingest.io.pipeline import backfill
from fairlead_ingest.io.table import maintenance, tables
from fairlead_ingest.io.table.receipt import TableReceipts


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    with PostgreSQL() as running:
        yield running


def messages(*numbers: int) -> list[bytes]:
    return [b"broken %d" % number if number % 5 == 4 else upstream_message(number) for number in numbers]


@pytest.mark.verify
def test_rows_are_in_the_catalogs_table_once_and_another_machine_continues(
    run, spark, messaging, topic, tmp_path, store, database, caplog
):
    """The position lies in the table; status, receipts, backfill and compaction find it by the same settings."""
    caplog.set_level("DEBUG")
    table = store.place(f"{topic}/rows")
    given = {
        "table": str(table),
        "table_format": "iceberg",
        "catalog": {
            "uri": database.catalog().uri,
            "password_file": str(database.password_file),
            "namespace": "plant.north",
        },
        "storage": store.settings,
    }
    settings = job_settings(tmp_path, messaging.url, topic, **given)
    (job,) = settings.jobs()
    table_format = tables.of_pipeline(settings, job)

    def everything() -> Counter[int]:
        rows = tables.existing(table_format, table).to_table().to_pylist()
        letters = tables.existing(table_format, tables.beside(table, tables.DEAD_LETTERS)).to_table().to_pylist()
        return Counter([row["sequence"] for row in rows] + [int(row["payload"].split()[1]) for row in letters])

    messaging.publish(topic, messages(*range(6)))
    run(**given)
    messaging.publish(topic, messages(*range(6, 12)))
    run(**given, checkpoint=str(tmp_path / "on-another-machine"))
    assert everything() == Counter(range(12))

    now = datetime.datetime.now(datetime.UTC)
    facts = status.of(job, settings.place(job.table), None, now, settings.catalog_of(job.table_format))
    assert (facts["rows"], facts["dead_letters_rows"], facts["totals"]["rows"]) == (10, 2, 10)
    first = tables.existing(table_format, table).to_table().sort_by("sequence")["id"][0].as_py()
    receipt = TableReceipts(table_format, table, first).find()
    assert receipt is not None and receipt["_topic"] == topic
    done = backfill.run(spark, settings, job, from_ms=None, until_ms=None, into=store.place(f"{topic}/again"))
    assert done["rows_added"] == 10
    compacted = maintenance.compaction(settings, job).compact(target_bytes=1024 * 1024)
    assert compacted["files_removed"] >= 2
    assert everything() == Counter(range(12))

    told = [*map(str, spark.sparkContext.getConf().getAll()), caplog.text]
    told += [each.read_bytes().decode(errors="replace") for each in tmp_path.rglob("*") if each.is_file()]
    assert not any(PASSWORD in each for each in told)
