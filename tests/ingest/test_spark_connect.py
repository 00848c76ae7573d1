"""Over Spark Connect: source and sink in a user's own program, which registers nothing, and the whole job."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import polars as pl
import pytest
from tests.faults.ingest_lab import TOPIC, IngestLab
from tests.support.joining.pki import Authority
from tests.support.processes import wait_until
from tests.support.tables.object_store import ObjectStore
from tests.support.tables.spark_connect import ConnectServer
from tests.support.topics.messaging_service import MessagingService, upstream_message

from fairlead_messaging.client.io.sync_client import BulkClient

SECONDS = 550.0
# A user's program; Spark finds our modules by their names on the server's side.
PROGRAM = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from fairlead_ingest.rows import transforms
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.pipeline.query import table_schema

url, topic, other, folder = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
assert "connect" in type(spark).__module__
spark.conf.set("spark.sql.session.timeZone", "UTC")
options = {"url": url, "topics": topic, "format": "envelope"}

# A batch, also back into a topic.
batch = spark.read.format("fairlead").options(**options).load()
assert batch.where("sequence < 10").count() == 10
payloads = batch.selectExpr("body AS payload")
payloads.write.format("fairlead").options(url=url, topics=other).mode("append").save()

# A stream into a table.
rows = transforms.lineage(spark.readStream.format("fairlead").options(**options).load())
table, table_format = Path(folder) / "rows", tables.of("delta")
table_format.ensure(table, table_schema(rows.schema))
table_format.ensure(tables.beside(table, tables.DEAD_LETTERS), tables.DEAD_LETTERS_SCHEMA)
table_format.ensure(tables.beside(table, tables.GAPS), tables.GAPS_SCHEMA)
checkpoint = str(Path(folder) / "checkpoint")
writer = rows.writeStream.format("fairlead_delta").options(table=str(table), checkpoint=checkpoint)
query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
query.awaitTermination()
assert query.exception() is None, query.exception()
spark.stop()
"""


@pytest.mark.verify
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_topics_are_read_and_written_over_spark_connect(messaging, topic, tmp_path):
    other = topic + "-copy"
    messaging.create(other)
    messaging.publish(topic, [upstream_message(number) for number in range(50)])
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), messaging.url, topic, other, str(tmp_path)]
    environ = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr[-4000:]
    assert sorted(pl.scan_delta(str(tmp_path / "rows")).collect()["sequence"].to_list()) == list(range(50))
    with BulkClient(messaging.url) as client:
        assert client.plan(other, after="").rows == 50


@pytest.mark.faults
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_job_runs_on_a_connect_server_and_either_may_die(tmp_path):
    """Over mutual TLS into an object store, without a Java of its own: the query goes on without the program, and the
    program waits for the server."""
    store, server = ObjectStore(tmp_path / "store"), ConnectServer(tmp_path / "connect")
    service = MessagingService(tmp_path / "messaging", authority=Authority(tmp_path / "authority"))
    with store, service, server:
        service.create(TOPIC)
        lab = IngestLab(tmp_path, service, sink="delta", store=store)
        tls = service.tls
        assert tls is not None
        more: dict[str, Any] = {"security": "mtls", "tls_ca": tls.ca, "tls_cert": tls.cert, "tls_key": tls.key}
        given = {**more, "spark": {"remote": server.remote}, "checkpoint": str(tmp_path / "checkpoint")}

        def published(first: int) -> int:
            service.publish(TOPIC, [upstream_message(first + number) for number in range(100)])
            return first + 100

        try:
            job = lab.start(environ={"JAVA_HOME": str(tmp_path / "none")}, **given)
            lab.filled(job, published(0))
            job.kill()
            total = published(100)
            wait_until("the query goes on", lambda: lab.count() >= total, seconds=SECONDS, describe=job.tail)
            job = lab.start(**given)
            lab.filled(job, total := published(total))
            server.kill()
            wait_until("it is missed", lambda: "FAIRLEAD_SPARK_AWAY" in job.tail(), seconds=SECONDS, describe=job.tail)
            total = published(total)
            server.start()
            lab.filled(job, total)
            assert job.stop() == 0, job.tail()
            count = lab.verdict(2, total)
            assert (count["lost"], count["duplicated"]) == (0, 0)
        finally:
            lab.close()
