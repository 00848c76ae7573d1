"""Runs one pipeline as a Spark query: prepares, starts and observes it, and stops it after its batch.

prepare (create tables, find the start) → start → observe … → finish
             ↑                                        │
             └── wait after a temporary failure ──────┘   (``supervisor``)
"""

from __future__ import annotations

import datetime
import json
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from fairlead_ingest import errors
from fairlead_ingest.io.checkpoint import spark_checkpoint
from fairlead_ingest.io.event_publisher import EventPublisher
from fairlead_ingest.io.latest import keeper
from fairlead_ingest.io.metrics import IngestMetrics
from fairlead_ingest.io.pipeline.checkpoint_folder import CheckpointFolder
from fairlead_ingest.io.pipeline.failing_messages import Search
from fairlead_ingest.io.pipeline.query import evolves, judged_by, shaped, source_options, table_schema
from fairlead_ingest.io.pipeline.watchers import CommitWatcher, LagWatcher, SizeWatcher
from fairlead_ingest.io.service_tls import tls_of
from fairlead_ingest.io.sink import batch_trace, spark_sink
from fairlead_ingest.io.spark import connect
from fairlead_ingest.io.spark.connect import coded
from fairlead_ingest.io.spark.executors import ExecutorWatcher
from fairlead_ingest.io.spark.session import activate, in_turns, is_local
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.topics import spark_source
from fairlead_ingest.settings import IngestSettings, Pipeline
from fairlead_ingest.source import offsets
from fairlead_ingest.table import commit
from fairlead_messaging.client.io.sync_client import BulkClient
from fairlead_wire.errors import text_of
from fairlead_wire.io import logs

log = logs.get("ingest.job")
FINISH_SECONDS_MAX = 60.0
# Time-out of the driver's own requests: for the lag, for positions, in the search for a failing message.
REQUEST_SECONDS = 5.0
_POLL_SECONDS = 0.05
POLLING = "Getting offsets from"
"""The beginning of Spark's status message while it asks the source for new messages."""


class Job:
    """A pipeline's query. Not thread-safe; the program's main thread drives it."""

    def __init__(
        self,
        session: SparkSession,
        settings: IngestSettings,
        pipeline: Pipeline,
        metrics: IngestMetrics,
        publisher: EventPublisher | None = None,
    ) -> None:
        self.name = pipeline.name
        self._session = session
        self._settings = settings
        self._pipeline = pipeline
        self.metrics = metrics
        self._format = pipeline.table_format or settings.table_format
        self._table_format = tables.of_pipeline(settings, pipeline)
        self._table = settings.place(pipeline.table)
        self._kept = CheckpointFolder(settings.place(pipeline.checkpoint), pipeline.name)
        self._checkpoint = self._kept.path
        self._query: StreamingQuery | None = None
        self._trigger_seen: str | None = None
        self._client: BulkClient | None = None
        self._commits = CommitWatcher(
            pipeline, self._table_format, self._table, self._checkpoint, metrics, publisher, self._connected
        )
        self._lag = LagWatcher(pipeline, metrics, self._connected)
        self._size = SizeWatcher(pipeline.name, self._table_format, self._table, metrics)
        self._latest = keeper.keeper_of(pipeline, self._table, metrics)
        self._executors = ExecutorWatcher(session)
        self._aside: dict[str, dict[str, str]] = {}
        self._knows_table = False

    @property
    def is_running(self) -> bool:
        return self._query is not None and self._query.isActive

    @property
    def is_answering(self) -> bool:
        """The query has had an answer from the service since it was started."""
        return self._query is not None and self._query.lastProgress is not None

    def activity(self) -> tuple[int, bool, str]:
        """The current or next batch, whether it is running, and Spark's own status message."""
        if self._query is None:
            return -1, False, "the query has not started yet"
        last, status = self._query.lastProgress, self._query.status
        batch = 0 if last is None else int(last["batchId"]) + (1 if last.numInputRows else 0)
        doing = str(status["message"])
        # A trigger asks for new messages first, and an idle job does nothing else; no batch runs before the answer.
        return batch, bool(status["isTriggerActive"]) and not doing.startswith(POLLING), doing

    def start(self) -> None:
        """Create or extend the tables, then start the query. Raises ``Stop``, ``Wait``."""
        with coded():
            self._start()

    def failure(self) -> tuple[str | None, str] | None:
        """The (code or None, sentence) of the error that ended the query; None if there was no error."""
        if self._query is None or self._query.isActive:
            return None
        error = self._query.exception()
        if error is None:
            return None
        return errors.explain(str(error) or type(error).__name__)

    @property
    def batch(self) -> int:
        """The current batch, or the last one if none is running; -1 before the first."""
        return spark_checkpoint.last_planned(self._checkpoint)

    def search(self) -> Search:
        """Search for the messages that make the current batch fail. Raises ``Stop``, ``Wait``."""
        with coded():
            end = spark_checkpoint.end_of(self._checkpoint, self.batch)
            return Search(self._connected(), end, self._probe, self._checkpoint)

    def put_aside(self, found: dict[str, dict[str, str]]) -> None:
        """Make these messages (reason by topic and id) dead letters from the next start on."""
        for topic, reasons in found.items():
            for name, reason in reasons.items():
                log.error("message_set_aside", pipeline=self.name, topic=topic, id=name, reason=reason)
            self._aside.setdefault(topic, {}).update(reasons)

    def observe(self) -> int:
        """Report the batches committed since the last call; return how many. Raises ``Wait``, ``Stop``."""
        with coded():
            return self._observe()

    def _observe(self) -> int:
        # Opening a large table is expensive, and only a finished trigger can have committed.
        progress = self._query.lastProgress if self._query is not None else None
        trigger = None if progress is None else str(progress["timestamp"])
        if self.is_running and trigger == self._trigger_seen:
            return 0
        self._trigger_seen = trigger
        batches = self._commits.observe()
        if batches:
            if self._latest is not None:
                self._latest.note()
            self._aside = {}
            if progress is not None:
                self.metrics.batch_seconds.labels(self.name).set(progress["batchDuration"] / 1000)
                self.metrics.batch_rows.labels(self.name).set(progress.numInputRows)
        return batches

    def is_latest_settled(self) -> bool:
        """Whether the latest table, if there is one, has all committed rows. Raises ``Stop`` if it cannot get them."""
        return self._latest is None or self._latest.is_settled()

    def measure_lag(self, now: datetime.datetime) -> None:
        """Measure the lag behind the topics and the table's size from time to time; ``now`` is timezone-aware."""
        self._lag.ask(self._commits.reached, now)
        self._size.ask(now)

    def has_more_executors(self, now: datetime.datetime) -> bool:
        """Whether more tasks could run at once than the query uses, so that it should be restarted."""
        tasks = 0 if self._settings.limits.tasks else self._executors.have_come(now)
        if tasks:
            log.info("more_executors", pipeline=self.name, tasks=tasks)
        return tasks > 0

    def finish(self) -> None:
        """Let the running batch end, then stop. Waits at most ``FINISH_SECONDS_MAX``."""
        self.pause()
        if self._knows_table:
            try:
                self.observe()
            except Exception as error:
                if connect.is_about_spark(error):
                    raise
                log.warning("final_report_failed", pipeline=self.name, reason=text_of(error))
            self._keep()
        if self._latest is not None:
            self._latest.close()
        if self._client is not None:
            self._client.close()
            self._client = None

    def pause(self) -> None:
        """Let the running batch end, then stop only the query, to start it again."""
        query = self._query
        if query is not None and query.isActive:
            deadline = time.monotonic() + FINISH_SECONDS_MAX
            before = _batch_of(query)
            while query.isActive and query.status["isTriggerActive"] and _batch_of(query) == before:
                if time.monotonic() > deadline:
                    log.warning("batch_interrupted", pipeline=self.name, seconds=FINISH_SECONDS_MAX)
                    break
                time.sleep(_POLL_SECONDS)
            query.stop()

    def close(self) -> None:
        """Finish, and delete a temporary checkpoint folder; the job cannot be started again."""
        try:
            self.finish()
        finally:
            self._kept.close()

    # --- inside

    def _keep(self) -> None:
        if self._query is None or self._query.exception() is not None:
            return
        try:
            with coded():
                self._kept.keep(self._table_format, self._table)
        except (errors.Stop, errors.Wait, errors.Fault) as error:
            log.warning("checkpoint_not_copied", pipeline=self.name, reason=str(error))

    def _start(self) -> None:
        self._check_state_is_reachable()
        self._kept.fill(self._table_format, self._table)
        self._check_goes_on()
        rows = self._rows()
        held = table_schema(rows.schema)
        if self._latest is not None:
            self._latest.definition.check(held)
        for table, columns in (
            (self._table, held),
            (tables.beside(self._table, tables.DEAD_LETTERS), tables.DEAD_LETTERS_SCHEMA),
            (tables.beside(self._table, tables.GAPS), tables.GAPS_SCHEMA),
        ):
            self._table_format.ensure(table, columns)
        writer = (
            rows.writeStream.format(spark_sink.format_of(self._format))
            .queryName(self.name)
            .outputMode("append")
            .options(**spark_sink.place_options(self._table, self._settings.catalog_of(self._format)))
            .options(**spark_sink.mirror_options(self._kept.place))
            .option("checkpoint", str(self._checkpoint))
            .option("checkpointLocation", str(self._checkpoint))
            .option("onExpired", self._settings.on_expired)
            .option("evolve", str(evolves(self._pipeline)).lower())
            .option("contract", judged_by(self._pipeline))
            .option("selects", str(bool(self._pipeline.transforms or self._pipeline.dedupe_seconds)).lower())
        )
        if traces := batch_trace.option(self._settings.traces):
            writer = writer.option("traces", traces)
        seconds = self._settings.trigger_seconds
        if seconds is None:
            writer = writer.trigger(availableNow=True)
        elif seconds > 0:
            writer = writer.trigger(processingTime=f"{int(seconds * 1000)} milliseconds")
        self._commits.start()
        self._knows_table = True
        if self._latest is not None:
            self._latest.start()
        activate(self._session)
        in_turns(self._session, self.name)
        self._query = writer.start()

    def _check_state_is_reachable(self) -> None:
        """Raise ``Stop`` if executors on other machines would keep state that only this machine copies to the store."""
        if self._kept.place is not None and self._pipeline.dedupe_seconds and not is_local(self._session):
            master = self._settings.spark.remote or self._settings.spark.master
            raise errors.Stop(
                errors.BAD_OPTION,
                f"checkpoint: {self._kept.place} with dedupe_seconds needs a local master, not {master}: executors keep"
                " the state on their own disks. Use a folder that all machines share, or remove dedupe_seconds",
            )

    def _check_goes_on(self) -> None:
        """Raise ``Stop`` if the table is behind the checkpoint; called before a missing table is created."""
        last = spark_checkpoint.last_committed(self._checkpoint)
        if last is not None:
            state = self._table_format.state(self._table, spark_checkpoint.application(self._checkpoint))
            commit.check_goes_on(state, spark_checkpoint.end_of(self._checkpoint, last))

    def _rows(self) -> DataFrame:
        options = source_options(self._session, self._settings, self._pipeline)
        self._executors.start(int(options["splits"]))
        options |= {"startingOffsets": json.dumps(self._begin()), "checkpoint": str(self._checkpoint)}
        if self._aside:
            options["setAside"] = json.dumps(self._aside)
        rows = self._session.readStream.format(spark_source.FORMAT).options(**options).load()
        return shaped(rows, self._settings, self._pipeline)

    def _probe(self, ranges: str, scratch: Path) -> None:
        """Process a part of a batch as a batch, without the commit."""
        options = source_options(self._session, self._settings, self._pipeline) | {"ranges": ranges}
        if self._aside:
            options["setAside"] = json.dumps(self._aside)
        rows = shaped(
            self._session.read.format(spark_source.FORMAT).options(**options).load(), self._settings, self._pipeline
        )
        activate(self._session)
        evolve = str(evolves(self._pipeline)).lower()
        sinking = (
            rows.write.format(spark_sink.format_of(self._format)).option("table", str(scratch)).option("trial", "true")
        )
        sinking.option("evolve", evolve).mode("append").save()

    def _begin(self) -> dict[str, Any]:
        """The starting position of each topic; Spark uses it only for topics that are not in the checkpoint."""
        start = offsets.parse_starting_position(self._pipeline.starting_position)
        begin: dict[str, Any] = dict.fromkeys(self._pipeline.topics, start)
        reached = tables.reached(self._table_format, self._table, self._pipeline.topics)
        held = {topic: reached.topics[topic].position for topic in begin if topic in reached.topics}
        if held and spark_checkpoint.is_fresh(self._checkpoint):
            log.info("continuing_from_table", pipeline=self.name, table=str(self._table), positions=held)
        return commit.starting(begin, reached)

    def _connected(self) -> BulkClient:
        if self._client is None:
            self._client = BulkClient(
                self._settings.messaging_url, tls=tls_of(self._settings), timeout_seconds=REQUEST_SECONDS
            )
        return self._client


def _batch_of(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])
