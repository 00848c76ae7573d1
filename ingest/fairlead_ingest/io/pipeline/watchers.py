"""Watch a pipeline's table and report on it: commits, how far it is behind its topics, its files and open letters.

    table's log ──observe──▶ metrics, log, events on the system topic, the reader's position in the service

Counts come from the table's own log, so what is reported was committed, also by a run before that was killed. Lag and
size are measured now and then: many small files are slow to read, and an open letter waits for a person.
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
# Commits of an earlier run that are published again at a start, in case it was killed before it published them.
PUBLISHED_AGAIN_MAX = 8
# Positions are reported to the service beside the work, no longer than this at a time: a service that is slow or
# silent would keep the other pipelines and a stop waiting, once for each topic.
REPORT_SECONDS_MAX = 5.0
FIRST_COMMIT = 1
# Entries of the log that are read first; more only where all of them are new.
_ENTRIES = 8


class CommitWatcher:
    """Of one pipeline's table. Not thread-safe."""

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
        # Where the table was before the commit that is seen next; None: it is not known.
        self._before: Offsets | None = None
        self._is_whole = pipeline.starting_position == "earliest"
        # By topic: its generation, and after which position the table has taken all of it, as far as commits were seen.
        self._starts: dict[str, tuple[int, str]] = {}
        # How far the table goes, as last seen.
        self.reached = Offsets()

    def start(self) -> None:
        """Watch what is committed from now on; the newest commits of the run before are published again."""
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
        """Report what was committed since last time; how many batches. Raises ``Stop``."""
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
                    remedy="see why with fairlead ingest deadletters, mend the schema file or the messages, and repair",
                )
        self._publish(commits)
        if commits:
            self._see(commits)
            self.reached = commits[-1].info.reached
            self.report_positions()
        return len(commits)

    def report_positions(self) -> None:
        """Let the service know how far the table goes; a refusal is logged and harmless, the next batch tries again."""
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
        """Batches of one checkpoint go on from each other, and from the table (``table.commit``); oldest first."""
        for each in commits:
            if each.info.sequence == FIRST_COMMIT:
                self._before = Offsets()
            for topic, offset in each.info.reached.topics.items():
                if self._starts.get(topic, (None, ""))[0] != offset.generation:
                    start = self._start(self._before, topic, offset)
                    self._starts[topic] = offset.generation, start
            self._latest = each
            if each.info.reached.topics:  # an older entry of some tables says none; the next one goes on from it
                self._before = each.info.reached

    def _start(self, before: Offsets | None, topic: str, reached: TopicOffset) -> str:
        """After which position the table has taken all of a topic, where it had read so far before its commit; where
        that is not known, nothing of before is claimed."""
        if before is None:
            return reached.position
        held = before.topics.get(topic)
        if held is not None and held.generation in (0, reached.generation):
            return held.position
        return "" if held is not None or self._is_whole else reached.position

    def _report(self, topic: str, offset: TopicOffset) -> None:
        """With what nodes' receipts say of the table."""
        note = self._note(topic, offset)
        self._connect().note_reader(
            topic, self._pipeline, position=offset.position, generation=offset.generation, table=note
        )

    def _note(self, topic: str, offset: TopicOffset) -> TableNote | None:
        """None where no batch of this checkpoint was seen."""
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
        """Each commit on the system topic, numbered by its batch: what was published before is stored once."""
        if self._publisher is None:
            return
        for each in commits:
            numbered = events.of_commit(each, pipeline=self._pipeline, table=str(self._table))
            self._publisher.publish_numbered(f"ingest/{each.info.application}", numbered)

    def _ours(self, entries: Sequence[LogEntry]) -> list[Committed]:
        # A fresh checkpoint has no identity before its query has started.
        application = spark_checkpoint.application(self._checkpoint)
        return [found for entry in entries if (found := entry.batch(application)) is not None]

    def _new_commits(self) -> list[Committed]:
        """After the last batch seen, oldest first."""
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


# Asking more often would be most of an idle job's requests.
LAG_SECONDS = 15.0
# Asked beside the work, no longer than this at a time: a service that is slow or silent would keep the other pipelines
# and a stop waiting, once for each topic.
ASK_SECONDS_MAX = 5.0


lag_log = logs.get("ingest.lag")


class LagWatcher:
    """Of one pipeline. Not thread-safe."""

    def __init__(self, pipeline: Pipeline, metrics: IngestMetrics, connect: Callable[[], BulkClient]) -> None:
        self._pipeline = pipeline.name
        self._metrics = metrics
        self._connect = connect
        self._topics = RoundRobin(pipeline.topics)
        self._asked: datetime.datetime | None = None
        self._missing: set[str] = set()

    def ask(self, reached: Offsets, now: datetime.datetime) -> None:
        """Measure how far ``reached`` is behind, at most every ``LAG_SECONDS``; ``now`` is aware.

        Topics for which there was no time come first the next time.
        """
        if self._asked is not None and (now - self._asked).total_seconds() < LAG_SECONDS:
            return
        self._asked = now
        for topic in self._topics.take(ASK_SECONDS_MAX):
            facts = status.of_topic(topic, reached.topics.get(topic), self._connect(), now)
            if facts.get("state") == "unreachable":
                break
            self._tell(topic, is_missing=facts.get("state") == "missing")
            if "lag_messages" in facts:
                self._metrics.lag_rows.labels(self._pipeline, topic).set(facts["lag_messages"])
                self._metrics.lag_seconds.labels(self._pipeline, topic).set(facts["lag_seconds"])

    def _tell(self, topic: str, *, is_missing: bool) -> None:
        """Once for each time that it is gone: a name that is wrong is waited for like one that comes later."""
        if is_missing and topic not in self._missing:
            lag_log.warning(
                "topic_missing",
                pipeline=self._pipeline,
                topic=topic,
                reason=f"{topic} does not exist; it is waited for",
                remedy=f"correct topics, or create it: fairlead topics create {topic}",
            )
        (self._missing.add if is_missing else self._missing.discard)(topic)


size_log = logs.get("ingest.size")
# Asking reads the newest entries of the log; files come by the batch, so nothing is missed between.
SIZE_SECONDS = 60.0


class SizeWatcher:
    """Of one pipeline's table. Not thread-safe."""

    def __init__(self, pipeline: str, table_format: TableFormat, table: Place, metrics: IngestMetrics) -> None:
        self._pipeline = pipeline
        self._table_format = table_format
        self._table = table
        self._metrics = metrics
        self._asked: datetime.datetime | None = None

    def ask(self, now: datetime.datetime) -> None:
        """Count at most every ``SIZE_SECONDS``; ``now`` is aware. A table that cannot be read now is asked again."""
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
