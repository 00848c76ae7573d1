"""Watch a pipeline's table and report its commits, its lag behind the topics, its size and its open dead letters.

    table's log ──observe──▶ metrics, log, events on the system topic, the reader's position in the service

Counts come from the table's own log, so everything reported is committed, including by an earlier run that was killed.
Lag and size are measured only from time to time, because many small files are slow to read.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path

from deltalake.exceptions import DeltaError

from fairlead_ingest.io import status
from fairlead_ingest.io.checkpoint import spark_checkpoint
from fairlead_ingest.io.event_publisher import EventPublisher
from fairlead_ingest.io.metrics import IngestMetrics
from fairlead_ingest.io.pipeline.query import RoundRobin
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.pipeline import events
from fairlead_ingest.settings import Pipeline
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table.commit_info import Committed, LogEntry
from fairlead_ingest.table.store_path import Place
from fairlead_messaging.api.requests import APPLICATION_CHARS_MAX, TABLE_CHARS_MAX, TableNote
from fairlead_messaging.client.io.sync_client import BulkClient
from fairlead_wire.errors import FairleadError, Permanent, Temporary
from fairlead_wire.io import logs

log = logs.get("ingest.commits")
# How many commits of an earlier run are published again at a start, in case it was killed before publishing them.
PUBLISHED_AGAIN_MAX = 8
# How long one call may report positions: a slow or silent service would delay the other pipelines and a stop, once for
# each topic.
REPORT_SECONDS_MAX = 5.0
FIRST_COMMIT = 1
# How many log entries are read first; more are read only if all of them are new.
_ENTRIES = 8


class CommitWatcher:
    """Watches the commits to one pipeline's table. Not thread-safe."""

    def __init__(
        self,
        pipeline: Pipeline,
        table_format: TableFormat,
        table: Place,
        checkpoint: Path,
        metrics: IngestMetrics,
        publisher: EventPublisher | None,
        connect: Callable[[], BulkClient],
    ) -> None:
        self._pipeline = pipeline.name
        self._table_format = table_format
        self._table = table
        self._checkpoint = checkpoint
        self._metrics = metrics
        self._publisher = publisher
        self._connect = connect
        self._to_report = RoundRobin(pipeline.topics)
        self._reported: dict[str, str] = {}
        self._seen_batch = -1
        self._latest: Committed | None = None
        # The table's positions before the next commit to be seen; None if unknown.
        self._before: Offsets | None = None
        self._is_whole = pipeline.starting_position == "earliest"
        # By topic: its generation, and the position after which the commits seen so far have taken everything.
        self._starts: dict[str, tuple[int, str]] = {}
        # The table's positions as last seen.
        self.reached = Offsets()

    def start(self) -> None:
        """Watch for new commits, and publish the newest commits of the previous run again."""
        self._seen_batch = -1
        if not spark_checkpoint.is_fresh(self._checkpoint):
            self._seen_batch = self._table_format.state(
                self._table, spark_checkpoint.application(self._checkpoint)
            ).batch
        if self._publisher is not None and self._seen_batch >= 0:
            self._publish(self._ours(self._table_format.last_entries(self._table, PUBLISHED_AGAIN_MAX))[::-1])
        self.reached = self._table_format.reached(self._table)
        self._before, self._starts = (self.reached, {}) if self._seen_batch < 0 else (None, {})
        if self._seen_batch >= 0:
            self._see(self._ours(self._table_format.last_entries(self._table, _ENTRIES))[::-1])

    def observe(self) -> int:
        """Report the batches committed since the last call; return how many. Raises ``Stop``."""
        commits = self._new_commits()
        for each in commits:
            counts = each.info.counts
            self._metrics.committed(self._pipeline, counts)
            self._metrics.last_commit.labels(self._pipeline).set(each.timestamp_ms / 1000)
            log.info(
                "batch_committed",
                pipeline=self._pipeline,
                batch=each.info.batch,
                rows=counts.rows,
                dead_letters=counts.dead_letters,
                filtered=counts.filtered,
                expired_unread=counts.expired_unread,
            )
            if counts.dead_letters and not counts.rows:
                log.warning(
                    "batch_all_dead_letters",
                    pipeline=self._pipeline,
                    batch=each.info.batch,
                    dead_letters=counts.dead_letters,
                    remedy="find the reasons with fairlead ingest deadletters, fix the schema file or the messages, and"
                    " run fairlead ingest repair",
                )
        self._publish(commits)
        if commits:
            self._see(commits)
            self.reached = commits[-1].info.reached
            self.report_positions()
        return len(commits)

    def report_positions(self) -> None:
        """Report the table's positions to the service; a failure is only logged, as each batch reports again."""
        for topic in self._to_report.take(REPORT_SECONDS_MAX):
            offset = self.reached.topics.get(topic)
            if offset is None or not offset.position or self._reported.get(topic) == offset.position:
                continue
            try:
                self._report(topic, offset)
                self._reported[topic] = offset.position
            except (Temporary, Permanent) as error:
                log.debug("position_not_reported", pipeline=self._pipeline, topic=topic, reason=str(error))
                if isinstance(error, Temporary):
                    break

    # --- inside

    def _see(self, commits: Sequence[Committed]) -> None:
        """Update the table's positions from commits, oldest first; each continues the previous (``table.commit``)."""
        for each in commits:
            if each.info.sequence == FIRST_COMMIT:
                self._before = Offsets()
            for topic, offset in each.info.reached.topics.items():
                if self._starts.get(topic, (None, ""))[0] != offset.generation:
                    start = self._start(self._before, topic, offset)
                    self._starts[topic] = offset.generation, start
            self._latest = each
            if each.info.reached.topics:  # entries of some older tables have none
                self._before = each.info.reached

    def _start(self, before: Offsets | None, topic: str, reached: TopicOffset) -> str:
        """The position after which the table has everything of a topic: its position before the commit, if known, else
        the commit's own position, so that nothing earlier is claimed."""
        if before is None:
            return reached.position
        held = before.topics.get(topic)
        if held is not None and held.generation in (0, reached.generation):
            return held.position
        return "" if held is not None or self._is_whole else reached.position

    def _report(self, topic: str, offset: TopicOffset) -> None:
        """Report a position, with the note about the table that nodes' receipts contain."""
        note = self._note(topic, offset)
        self._connect().note_reader(
            topic, self._pipeline, position=offset.position, generation=offset.generation, table=note
        )

    def _note(self, topic: str, offset: TopicOffset) -> TableNote | None:
        """The note about the table; None if no batch of this checkpoint was seen."""
        generation, start = self._starts.get(topic, (0, ""))
        if self._latest is None or generation != offset.generation:
            return None
        totals = self._latest.info.totals
        return TableNote(
            name=str(self._table)[-TABLE_CHARS_MAX:],
            application=self._latest.info.application[:APPLICATION_CHARS_MAX],
            start=start,
            batch=self._latest.info.batch,
            version=self._latest.version,
            rowless=totals.dead_letters + totals.filtered + totals.expired_unread,
        )

    def _publish(self, commits: Sequence[Committed]) -> None:
        """Publish each commit, numbered by its batch, so that publishing it twice stores it once."""
        if self._publisher is None:
            return
        for each in commits:
            numbered = events.of_commit(each, pipeline=self._pipeline, table=str(self._table))
            self._publisher.publish_numbered(f"ingest/{each.info.application}", numbered)

    def _ours(self, entries: Sequence[LogEntry]) -> list[Committed]:
        # A new checkpoint has no id before its query has started.
        application = spark_checkpoint.application(self._checkpoint)
        return [found for entry in entries if (found := entry.batch(application)) is not None]

    def _new_commits(self) -> list[Committed]:
        """The commits after the last batch seen, oldest first."""
        limit = _ENTRIES
        while True:
            entries = self._table_format.last_entries(self._table, limit)
            ours = self._ours(entries)
            new = [found for found in ours if found.info.batch > self._seen_batch]
            if len(new) < len(ours) or len(entries) < limit:
                break
            limit *= 4
        if new:
            self._seen_batch = new[0].info.batch
        return new[::-1]


# How often to measure; more often, it would cause most of an idle job's requests.
LAG_SECONDS = 15.0
# How long one measurement may take: a slow or silent service would delay the other pipelines and a stop, once for each
# topic.
ASK_SECONDS_MAX = 5.0


lag_log = logs.get("ingest.lag")


class LagWatcher:
    """Measures the lag of one pipeline. Not thread-safe."""

    def __init__(self, pipeline: Pipeline, metrics: IngestMetrics, connect: Callable[[], BulkClient]) -> None:
        self._pipeline = pipeline.name
        self._metrics = metrics
        self._connect = connect
        self._topics = RoundRobin(pipeline.topics)
        self._asked: datetime.datetime | None = None
        self._missing: set[str] = set()

    def ask(self, reached: Offsets, now: datetime.datetime) -> None:
        """Measure the lag of ``reached``, at most every ``LAG_SECONDS``; ``now`` is timezone-aware.

        Topics for which there was no time come first next time.
        """
        if self._asked is not None and (now - self._asked).total_seconds() < LAG_SECONDS:
            return
        self._asked = now
        for topic in self._topics.take(ASK_SECONDS_MAX):
            facts = status.of_topic(topic, reached.topics.get(topic), self._connect(), now)
            if facts.get("state") == "unreachable":
                break
            self._note_missing(topic, is_missing=facts.get("state") == "missing")
            if "lag_messages" in facts:
                self._metrics.lag_rows.labels(self._pipeline, topic).set(facts["lag_messages"])
                self._metrics.lag_seconds.labels(self._pipeline, topic).set(facts["lag_seconds"])

    def _note_missing(self, topic: str, *, is_missing: bool) -> None:
        """Warn once each time a topic disappears; its name may be wrong, or it may be created later."""
        if is_missing and topic not in self._missing:
            lag_log.warning(
                "topic_missing",
                pipeline=self._pipeline,
                topic=topic,
                reason=f"{topic} does not exist; waiting for it",
                remedy=f"correct topics, or create it: fairlead topics create {topic}",
            )
        (self._missing.add if is_missing else self._missing.discard)(topic)


size_log = logs.get("ingest.size")
# How often to measure; this reads the newest log entries.
SIZE_SECONDS = 60.0


class SizeWatcher:
    """Measures one pipeline's table. Not thread-safe."""

    def __init__(self, pipeline: str, table_format: TableFormat, table: Place, metrics: IngestMetrics) -> None:
        self._pipeline = pipeline
        self._table_format = table_format
        self._table = table
        self._metrics = metrics
        self._asked: datetime.datetime | None = None

    def ask(self, now: datetime.datetime) -> None:
        """Measure at most every ``SIZE_SECONDS``; ``now`` is timezone-aware. A failure is only logged."""
        if self._asked is not None and (now - self._asked).total_seconds() < SIZE_SECONDS:
            return
        self._asked = now
        try:
            found = self._table_format.size(self._table)
            open_letters, _ = tables.letter_counts(self._table_format, self._table)
        except (FairleadError, OSError, DeltaError) as error:
            size_log.debug("size_unknown", pipeline=self._pipeline, reason=str(error))
            return
        if found is not None:
            self._metrics.dead_letters_open.labels(self._pipeline).set(open_letters)
            self._metrics.table_files.labels(self._pipeline).set(found.files)
            self._metrics.table_bytes.labels(self._pipeline).set(found.bytes)
