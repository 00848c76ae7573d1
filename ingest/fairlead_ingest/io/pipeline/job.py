"""One pipeline as a Spark query: built, started, watched, stopped after its batch.

prepare (tables exist, the start is known) → start → watch … → finish
             ↑                                      │
             └── wait, as long as it may heal ──────┘
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import LongType, StructField, StructType

from fairlead_ingest import errors
from fairlead_ingest.io import status
from fairlead_ingest.io.checkpoint import spark_checkpoint
from fairlead_ingest.io.event_publisher import EventPublisher
from fairlead_ingest.io.metrics import Metrics
from fairlead_ingest.io.pipeline import plugins
from fairlead_ingest.io.pipeline.failing_messages import Search
from fairlead_ingest.io.pipeline.session import UNDERSTOOD, activate
from fairlead_ingest.io.sink import spark_sink
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.topics import spark_source
from fairlead_ingest.pipeline import events
from fairlead_ingest.rows import schema, transforms
from fairlead_ingest.settings import Pipeline, Settings
from fairlead_ingest.source import starting_position
from fairlead_ingest.source.offsets import Offsets
from fairlead_ingest.table import commit
from fairlead_ingest.table.commit_info import Committed
from fairlead_messaging.client.io.bulk_client import BulkClient
from fairlead_messaging.client.io.connections import Tls
from fairlead_wire.errors import Permanent, Temporary
from fairlead_wire.io import logs

log = logs.get("ingest.job")
FINISH_SECONDS_MAX = 60.0
# Lag is for people and alarms; asking more often would be most of an idle job's requests.
LAG_SECONDS = 15.0
IDLE_WAIT_MS = 2000
# What is asked and told about topics beside the work: no longer than this at a time, or a service that is slow or
# silent keeps the other pipelines and a stop waiting, for every topic anew.
ASIDE_SECONDS_MAX = 5.0
# Commits of an earlier run that are published again at a start, in case it was killed before it published them.
PUBLISHED_AGAIN_MAX = 8
_POLL_SECONDS = 0.05


class Job:
    """A pipeline's query. Not thread-safe; the program's main thread drives it."""

    def __init__(
        self,
        session: SparkSession,
        settings: Settings,
        pipeline: Pipeline,
        metrics: Metrics,
        publisher: EventPublisher | None = None,
    ) -> None:
        self.name = pipeline.name
        self._session = session
        self._settings = settings
        self._pipeline = pipeline
        self.metrics = metrics
        self._publisher = publisher
        self._sink = pipeline.sink or settings.sink
        self._kind = tables.of(self._sink)
        self._table = Path(pipeline.table).absolute()
        self._checkpoint = Path(pipeline.checkpoint).absolute()
        self._query: StreamingQuery | None = None
        self._seen_batch = -1
        self._noted: dict[str, str] = {}
        self._place = Offsets()
        self._trigger_seen: str | None = None
        self._looked: datetime.datetime | None = None
        self._client: BulkClient | None = None
        self._to_look = Turns(pipeline.topics)
        self._to_note = Turns(pipeline.topics)
        self._aside: dict[str, dict[str, str]] = {}
        self._knows_table = False

    @property
    def is_running(self) -> bool:
        return self._query is not None and self._query.isActive

    @property
    def is_answering(self) -> bool:
        """The query has asked the service and been answered since it was started."""
        return self._query is not None and self._query.lastProgress is not None

    def at_work(self) -> tuple[int, bool, str]:
        """(batch that is made or waited for, is it being made, what Spark says it does)."""
        if self._query is None:
            return -1, False, "the query is not started yet"
        last, status = self._query.lastProgress, self._query.status
        batch = 0 if last is None else int(last["batchId"]) + (1 if last["numInputRows"] else 0)
        return batch, bool(status["isTriggerActive"]), str(status["message"])

    def start(self) -> None:
        """Make the tables fit and start the query. Raises ``Stop``, ``Wait``."""
        with understood():
            self._start()

    def failure(self) -> tuple[str | None, str] | None:
        """(code or None, sentence) when the query has ended by an error, None when it has not."""
        if self._query is None or self._query.isActive:
            return None
        error = self._query.exception()
        if error is None:
            return None
        return errors.explain(str(error) or type(error).__name__)

    @property
    def batch(self) -> int:
        """The batch that is being worked on, or was last; -1 before the first."""
        return spark_checkpoint.last_planned(self._checkpoint)

    def search(self) -> Search:
        """Looks for the messages that make the batch at hand fail. Raises ``Stop``, ``Wait``."""
        with understood():
            end = spark_checkpoint.end_of(self._checkpoint, self.batch)
            return Search(self._connected(), end, self._probe, self._checkpoint)

    def put_aside(self, found: dict[str, dict[str, str]]) -> None:
        """From the next start on these messages (topic, id, reason) are dead letters."""
        for topic, reasons in found.items():
            for name, reason in reasons.items():
                log.error("message_set_aside", pipeline=self.name, topic=topic, id=name, reason=reason)
            self._aside.setdefault(topic, {}).update(reasons)

    def observe(self) -> int:
        """Carry what was committed since last time into metrics and to the service; the batches newly seen.

        Raises ``Wait``, ``Stop``.
        """
        with understood():
            return self._observe()

    def _observe(self) -> int:
        # Opening the table is work that grows with it: only a trigger that has ended can have committed.
        progress = self._query.lastProgress if self._query is not None else None
        trigger = None if progress is None else str(progress["timestamp"])
        if self.is_running and trigger == self._trigger_seen:
            return 0
        self._trigger_seen = trigger
        commits = self._commits_since()
        for each in commits:
            counts = each.info.counts
            self.metrics.committed(self.name, counts)
            self.metrics.last_commit.labels(self.name).set(each.timestamp_ms / 1000)
            log.info(
                "batch_committed",
                pipeline=self.name,
                batch=each.info.batch,
                rows=counts.rows,
                dead_letters=counts.dead_letters,
                filtered=counts.filtered,
                expired_unread=counts.expired_unread,
            )
        self._publish(commits)
        if commits:
            self._aside = {}
            self._place = commits[-1].info.reached
            self._note(self._place)
            if progress is not None:
                self.metrics.batch_seconds.labels(self.name).set(progress["batchDuration"] / 1000)
                self.metrics.batch_rows.labels(self.name).set(progress["numInputRows"])
        return len(commits)

    def look_behind(self, now: datetime.datetime) -> None:
        """Ask how far the table is behind its topics, at most every ``LAG_SECONDS``; ``now`` is aware. What there is no
        time for comes first the next time."""
        if self._looked is not None and (now - self._looked).total_seconds() < LAG_SECONDS:
            return
        self._looked = now
        for topic in self._to_look.taken(ASIDE_SECONDS_MAX):
            facts = status.of_topic(topic, self._place.topics.get(topic), self._connected(), now)
            if facts.get("state") == "unreachable":
                break
            if "lag_messages" in facts:
                self.metrics.lag_rows.labels(self.name, topic).set(facts["lag_messages"])
                self.metrics.lag_seconds.labels(self.name, topic).set(facts["lag_seconds"])

    def finish(self) -> None:
        """Let the running batch end, then stop. Waits at most ``FINISH_SECONDS_MAX``."""
        query = self._query
        if query is not None and query.isActive:
            deadline = time.monotonic() + FINISH_SECONDS_MAX
            before = _batch_of(query)
            while query.isActive and query.status["isTriggerActive"] and _batch_of(query) == before:
                if time.monotonic() > deadline:
                    log.warning("batch_cut_short", pipeline=self.name, seconds=FINISH_SECONDS_MAX)
                    break
                time.sleep(_POLL_SECONDS)
            query.stop()
        if self._knows_table:
            try:
                self.observe()
            except (errors.Stop, errors.Wait) as error:
                log.warning("last_look_failed", pipeline=self.name, reason=str(error))
        if self._client is not None:
            self._client.close()

    # --- inside

    def _start(self) -> None:
        self._check_goes_on()
        rows = self._rows()
        for table, columns in (
            (self._table, table_schema(rows.schema)),
            (tables.beside(self._table, tables.DEAD_LETTERS), tables.DEAD_LETTERS_SCHEMA),
            (tables.beside(self._table, tables.GAPS), tables.GAPS_SCHEMA),
        ):
            self._kind.ensure(table, columns)
        writer = (
            rows.writeStream.format(spark_sink.format_of(self._sink))
            .queryName(self.name)
            .outputMode("append")
            .option("table", str(self._table))
            .option("checkpoint", str(self._checkpoint))
            .option("checkpointLocation", str(self._checkpoint))
            .option("onExpired", self._settings.on_expired)
            .option("evolve", str(evolves(self._pipeline)).lower())
            .option("selects", str(bool(self._pipeline.transforms or self._pipeline.dedupe_seconds)).lower())
        )
        seconds = self._settings.trigger_seconds
        if seconds is None:
            writer = writer.trigger(availableNow=True)
        elif seconds > 0:
            writer = writer.trigger(processingTime=f"{int(seconds * 1000)} milliseconds")
        self._seen_batch = self._last_batch()
        self._knows_table = True
        self._publish_again()
        self._place = self._kind.reached(self._table)
        activate(self._session)
        self._query = writer.start()

    def _check_goes_on(self) -> None:
        """Before a table is made where one should be. Raises ``Stop`` where the table ends before the checkpoint."""
        last = spark_checkpoint.last_committed(self._checkpoint)
        if last is not None:
            state = self._kind.state(self._table, self._application())
            commit.check_goes_on(state, spark_checkpoint.end_of(self._checkpoint, last))

    def _rows(self) -> DataFrame:
        options = source_options(self._session, self._settings, self._pipeline)
        options |= {"startingOffsets": json.dumps(self._begin()), "checkpoint": str(self._checkpoint)}
        if self._aside:
            options["setAside"] = json.dumps(self._aside)
        rows = self._session.readStream.format(spark_source.FORMAT).options(**options).load()
        return shaped(rows, self._pipeline)

    def _probe(self, ranges: str, scratch: Path) -> None:
        """Do with a part of a batch all that is done with a batch, but for the commit."""
        options = source_options(self._session, self._settings, self._pipeline) | {"ranges": ranges}
        if self._aside:
            options["setAside"] = json.dumps(self._aside)
        rows = shaped(self._session.read.format(spark_source.FORMAT).options(**options).load(), self._pipeline)
        activate(self._session)
        evolve = str(evolves(self._pipeline)).lower()
        sinking = (
            rows.write.format(spark_sink.format_of(self._sink)).option("table", str(scratch)).option("trial", "true")
        )
        sinking.option("evolve", evolve).mode("append").save()

    def _begin(self) -> dict[str, Any]:
        """Where each topic starts; counts only for topics that the checkpoint does not know."""
        start = starting_position.parse(self._pipeline.starting_position)
        begin: dict[str, Any] = dict.fromkeys(self._pipeline.topics, start)
        reached = tables.reached(self._kind, self._table, self._pipeline.topics)
        held = {topic: reached.topics[topic].position for topic in begin if topic in reached.topics}
        if held and spark_checkpoint.is_fresh(self._checkpoint):
            log.info("continuing_from_table", pipeline=self.name, table=str(self._table), positions=held)
        return commit.starting(begin, reached)

    def _publish(self, commits: list[Committed]) -> None:
        """Each commit on the system topic, numbered by its batch."""
        if self._publisher is None:
            return
        for each in commits:
            numbered = events.of_commit(each, pipeline=self.name, table=str(self._table))
            self._publisher.publish_numbered(f"ingest/{each.info.application}", numbered)

    def _publish_again(self) -> None:
        """The newest commits of the run before; the service knows by their numbers which it has."""
        if self._publisher is not None and self._seen_batch >= 0:
            entries = self._kind.last_entries(self._table, PUBLISHED_AGAIN_MAX)
            application = self._application()
            self._publish([found for entry in reversed(entries) if (found := entry.batch(application)) is not None])

    def _commits_since(self) -> list[Committed]:
        """Our commits after the last batch seen, oldest first."""
        application, limit = self._application(), 8
        while True:
            entries = self._kind.last_entries(self._table, limit)
            ours = [found for entry in entries if (found := entry.batch(application)) is not None]
            new = [found for found in ours if found.info.batch > self._seen_batch]
            if len(new) < len(ours) or len(entries) < limit:
                break
            limit *= 4
        if new:
            self._seen_batch = new[0].info.batch
        return new[::-1]

    def _application(self) -> str:
        return commit.application_id(spark_checkpoint.query_id(self._checkpoint))

    def _last_batch(self) -> int:
        if spark_checkpoint.is_fresh(self._checkpoint):
            return -1
        return self._kind.state(self._table, self._application()).batch

    def _connected(self) -> BulkClient:
        if self._client is None:
            self._client = BulkClient(self._settings.messaging_url, tls=tls_of(self._settings), timeout_seconds=5.0)
        return self._client

    def _note(self, reached: Offsets) -> None:
        """Tell the service how far the table goes; only a courtesy, so a refusal is said once a batch and forgotten."""
        for topic in self._to_note.taken(ASIDE_SECONDS_MAX):
            offset = reached.topics.get(topic)
            if offset is None or not offset.position or self._noted.get(topic) == offset.position:
                continue
            try:
                self._connected().note_reader(topic, self.name, position=offset.position, generation=offset.generation)
                self._noted[topic] = offset.position
            except (Temporary, Permanent) as error:
                log.debug("position_not_noted", pipeline=self.name, topic=topic, reason=str(error))
                if isinstance(error, Temporary):
                    break


class Turns:
    """Names, each in its turn, as many at a time as there is time for."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._next = 0

    def taken(self, seconds: float) -> Iterator[str]:
        """All of them once, beginning where the last time ended; no further one after ``seconds``."""
        deadline = time.monotonic() + seconds
        for _ in self._names:
            name = self._names[self._next % len(self._names)]
            self._next += 1
            yield name
            if time.monotonic() > deadline:
                return


@contextmanager
def understood() -> Iterator[None]:
    """Gives what Spark, tables and disks raise a name: ``Wait`` where that helps, ``Fault`` where nobody knows.

    A JVM that is gone is not among it.
    """
    try:
        yield
    except ConnectionError:
        raise
    except UNDERSTOOD as error:
        code, sentence = errors.explain(str(error) or type(error).__name__)
        if code is None:
            raise errors.Fault(sentence) from error
        raise (errors.Wait if code in errors.TEMPORARY else errors.Stop)(code, sentence) from error


def source_options(session: SparkSession, settings: Settings, pipeline: Pipeline) -> dict[str, str]:
    """The source's options as the settings say, but for where it starts."""
    limits = settings.limits
    options = {
        "url": settings.messaging_url,
        "topics": json.dumps(pipeline.topics),
        "format": pipeline.format,
        "onExpired": settings.on_expired,
        "onRecreated": settings.on_recreated,
        "maxRowsPerBatch": limits.batch_rows,
        "maxBytesPerBatch": limits.batch_bytes,
        "pageRows": limits.page_rows,
        "pageBytes": limits.page_bytes,
        "splits": session.sparkContext.defaultParallelism,
        "splitBytes": limits.split_bytes,
        # News ends the wait at once; without news this is how often an idle job asks.
        "waitMs": IDLE_WAIT_MS,
        "requestSeconds": settings.request_seconds,
    }
    if pipeline.schema_file:
        options["contract"] = contract_now(pipeline).encode()
    if settings.security == "mtls":
        options |= {"tlsCa": settings.tls_ca, "tlsCert": settings.tls_cert, "tlsKey": settings.tls_key}
    return {key: str(value) for key, value in options.items()}


def _batch_of(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def contract_of(path: Path) -> schema.Contract:
    """The schema file's contract. Raises ``Stop``."""
    try:
        return schema.parse(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise errors.Stop(errors.SCHEMA_BROKEN, f"{path}: {error}") from None
    except PySparkException as error:
        raise errors.Stop(errors.SCHEMA_BROKEN, f"{path}: {error}") from None


def evolves(pipeline: Pipeline) -> bool:
    """The pipeline's table grows by what bodies bring. Raises ``Stop``."""
    return bool(pipeline.schema_file) and contract_of(Path(str(pipeline.schema_file))).mode == schema.EVOLVE


def contract_now(pipeline: Pipeline) -> schema.Contract:
    """The schema file's contract, grown by what the table has grown by where it may. Raises ``Stop``."""
    contract = contract_of(Path(str(pipeline.schema_file)))
    held = tables.of(str(pipeline.sink)).dataset(Path(pipeline.table)) if contract.mode == schema.EVOLVE else None
    return contract if held is None else schema.grown(contract, from_arrow_schema(held.schema))


def shaped(rows: DataFrame, pipeline: Pipeline) -> DataFrame:
    """What the source gave, as the pipeline wants it: typed, the user's transforms, lineage. Raises ``Stop``."""
    if pipeline.schema_file:
        rows = transforms.typed(rows, contract_now(pipeline))
    for name in pipeline.transforms or ():
        rows = plugins.apply(name, rows)
    if pipeline.dedupe_seconds and rows.isStreaming:
        rows = transforms.deduplicated(rows, pipeline.dedupe_seconds)
    return transforms.lineage(_lineage_last(rows))


def _lineage_last(rows: DataFrame) -> DataFrame:
    """A transform appends its columns; the contract has lineage after them."""
    last = [name for name in (*plugins.KEPT, *transforms.PASSENGERS) if name in rows.columns]
    return rows.select(*[transforms.quoted(name) for name in rows.columns if name not in last], *last)


def table_schema(rows: StructType) -> pa.Schema:
    """The table's columns: what the query gives without passengers, ``_batch`` in its place, all nullable."""
    columns = [StructField(field.name, field.dataType) for field in rows if field.name not in transforms.PASSENGERS]
    columns.insert(len(columns) - 1, StructField("_batch", LongType()))
    return to_arrow_schema(StructType(columns), timezone="UTC")


def tls_of(settings: Settings) -> Tls | None:
    """The files for mutual TLS, None on a plain loopback."""
    if settings.security != "mtls":
        return None
    assert settings.tls_ca and settings.tls_cert and settings.tls_key
    return Tls(ca=settings.tls_ca, cert=settings.tls_cert, key=settings.tls_key)
