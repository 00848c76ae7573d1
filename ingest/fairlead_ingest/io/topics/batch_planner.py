"""Plans the next batch of a stream: asks the service topic by topic, within the batch's limits.

    a plan for each topic (one may wait) ─▶ unused shares go to other topics ─▶ the positions after the batch

The limits come from the options. But while some topics are live and others have a backlog, a batch is limited to some
seconds (``source.batch_size``). The limits only decide where a batch ends; Spark's log then records it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

from fairlead_ingest.io.checkpoint import batch_notes
from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.io.topics.range_reader import go_on
from fairlead_ingest.io.topics.retry import ask
from fairlead_ingest.source import batch_size, gaps, offsets
from fairlead_ingest.source.batch_size import START_ROWS, BatchPace, BatchTimes, Limits, Used
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_messaging.api.responses import Plan
from fairlead_messaging.client.errors import Expired, GenerationChanged, TopicMissing
from fairlead_messaging.client.io.sync_client import BulkClient

PLANS_AT_ONCE: Final = 4

Found = tuple[TopicOffset, Plan | None]
"""A topic's position after the batch, and its plan; None if the topic is missing or has no messages."""


class BatchPlanner:
    """Plans batches in the driver's process, as long as the query. With ``targets``, it stops there and never waits."""

    def __init__(self, options: SourceOptions, client: BulkClient, targets: Mapping[str, str] | None = None) -> None:
        self._options = options
        self._client = client
        self._targets = targets
        self._last_asked = 0
        is_paced = bool(options.batch_seconds and options.checkpoint) and targets is None
        self._pace = BatchPace(seconds=options.batch_seconds, rows=START_ROWS) if is_paced else None
        # Whether there were live topics and a backlog when the last batch was planned.
        self._is_mixed = False
        self._had_rows: dict[str, float] = {}
        # How long planning the last batch took, which is before Spark's log entry.
        self._planning_seconds = 0.0
        self._last_plans: dict[str, tuple[TopicOffset, Plan]] = {}

    def next(self, known: Offsets, limit_rows: int | None, limit_bytes: int | None) -> Offsets | None:
        """The positions after the next batch, None if there is nothing to read."""
        paced_rows = self._paced_rows(known, limit_rows)
        began = time.monotonic()
        first_rows = paced_rows if self._is_mixed else limit_rows
        before = {topic: self._known(known, topic).at_rest() for topic in self._options.topics}
        found, has_waited = self._first_plans(before, first_rows, limit_bytes)
        service = known.service
        for _, plan in found.values():
            if plan is not None:
                service = gaps.same_service(service, plan.service)
        if not _have_moved(before, found):
            return None
        found |= self._larger_plans(before, found, first_rows, limit_bytes)
        if self._becomes_mixed(found):
            used = {topic: self._used(topic, plan) for topic, (_, plan) in found.items()}
            found |= self._plans(before, batch_size.smaller_limits(used, paced_rows))
        self._last_plans = {
            topic: (after, plan) for topic, (after, plan) in found.items() if plan is not None and plan.rows
        }
        self._planning_seconds = 0.0 if has_waited else time.monotonic() - began
        return Offsets(service=service, topics={topic: after for topic, (after, _) in found.items()})

    def plan_of(self, topic: str, offset: TopicOffset) -> Plan | None:
        """The plan from which ``next`` derived ``offset``, returned once; None if it was not the last call."""
        after, plan = self._last_plans.pop(topic, (None, None))
        return plan if plan is not None and after == offset and plan.upto == offset.position else None

    def _first_plans(
        self, before: Mapping[str, TopicOffset], limit_rows: int | None, limit_bytes: int | None
    ) -> tuple[dict[str, Found], bool]:
        """Plan equal shares for all topics; also return whether the last request waited.

        If no topic has new messages, the last request waits in the service, because Spark would otherwise poll a
        hundred times a second. The topics take turns to be last, as only new messages in that topic end the wait.
        """
        names = self._options.topics
        shares = zip(
            offsets.share_rows(limit_rows, len(names)), offsets.share_rows(limit_bytes, len(names)), strict=True
        )
        limits = dict(zip(names, shares, strict=True))
        self._last_asked = (self._last_asked + 1) % len(names)
        *first, last = [*names[self._last_asked :], *names[: self._last_asked]]
        found = self._plans(before, {topic: limits[topic] for topic in first})
        waits = not _have_moved(before, found) and self._targets is None
        found[last] = self._plan(last, before[last], *limits[last], self._options.wait_ms if waits else 0)
        return found, waits

    def _larger_plans(
        self, before: Mapping[str, TopicOffset], found: Mapping[str, Found], rows: int | None, size_bytes: int | None
    ) -> dict[str, Found]:
        """Plan more for topics that have more messages, while others leave room in the batch."""
        larger: dict[str, Found] = {}
        used = {topic: self._used(topic, plan) for topic, (_, plan) in found.items()}
        for _ in range(batch_size.ROUNDS_MAX):
            limits = batch_size.larger_limits(used, rows, size_bytes)
            if not limits:
                break
            larger |= self._plans(before, limits)
            used |= {topic: self._used(topic, larger[topic][1]) for topic in limits}
        return larger

    def _becomes_mixed(self, found: Mapping[str, Found]) -> bool:
        """Whether there are both live topics and a backlog now, but were not at the previous batch."""
        if self._pace is None:
            return False
        used = {topic: self._used(topic, plan) for topic, (_, plan) in found.items()}
        now, before = time.monotonic(), self._is_mixed
        self._had_rows.update({topic: now for topic, each in used.items() if each.rows})
        self._is_mixed = batch_size.is_live_beside_backlog(used, self._had_rows, now)
        return self._is_mixed and not before

    def _paced_rows(self, known: Offsets, limit_rows: int | None) -> int | None:
        """The row limit of a batch with live topics, after the batch that ended at ``known``."""
        if self._pace is None or limit_rows is None:
            return limit_rows
        times = batch_notes.read_times(Path(self._options.checkpoint), known)
        if times is not None:
            whole = BatchTimes(seconds=times.seconds + self._planning_seconds, work_seconds=times.work_seconds)
            self._pace = self._pace.after(known.rows, whole)
        return min(limit_rows, self._pace.rows)

    def _used(self, topic: str, plan: Plan | None) -> Used:
        if plan is None:
            return Used(rows=0, size_bytes=0, has_more=False)
        end = plan.stable or ""
        if self._targets is not None:
            end = min(end, self._targets.get(topic, ""))
        return Used(rows=plan.rows, size_bytes=plan.bytes, has_more=bool(plan.rows) and (plan.upto or "") < end)

    def _known(self, known: Offsets, topic: str) -> TopicOffset:
        """A topic's position; a topic that is new in the query begins at its starting position."""
        offset = known.topics.get(topic)
        if offset is not None:
            return offset
        start = self._options.start_of(topic)
        return TopicOffset.from_starting(start) if isinstance(start, Mapping) else TopicOffset()

    def _plans(self, before: Mapping[str, TopicOffset], asked: Mapping[str, Limits]) -> dict[str, Found]:
        """Plan topics with these limits, concurrently if there are many."""

        def plan(topic: str) -> Found:
            return self._plan(topic, before[topic], *asked[topic], 0)

        if len(asked) < PLANS_AT_ONCE:
            return {topic: plan(topic) for topic in asked}
        with ThreadPoolExecutor(PLANS_AT_ONCE, thread_name_prefix="plan") as asking:
            return dict(zip(asked, asking.map(plan, asked), strict=True))

    def _plan(
        self, topic: str, offset: TopicOffset, limit_rows: int | None, limit_bytes: int | None, wait_ms: int
    ) -> Found:
        target = None if self._targets is None else self._targets.get(topic, "")
        if target is not None and target <= offset.position and offset.generation:
            return offset, None
        after = offset.position
        while True:
            try:
                plan = ask(
                    self._client.plan,
                    topic,
                    after=after,
                    upto=target,
                    limit_rows=limit_rows,
                    limit_bytes=limit_bytes,
                    splits=self._options.splits,
                    wait_ms=wait_ms,
                    generation=offset.generation or None,
                )
            except TopicMissing:
                return offset, None
            except Expired as error:
                gap = gaps.expired(topic, after, error.oldest, error.rows, self._options.on_expired)
                after = go_on(topic, after, error, self._options)
                offset = msgspec.structs.replace(offset, gap=gaps.further(offset.gap, gap))
                continue
            except GenerationChanged as error:
                offset = gaps.recreated(topic, offset, error.generation, self._options.on_recreated)
                after = offset.position
                continue
            return offsets.place_after_batch(offset, plan, target), plan


def _have_moved(before: Mapping[str, TopicOffset], found: Mapping[str, Found]) -> bool:
    return any(
        (after.generation, after.position) != (before[topic].generation, before[topic].position)
        for topic, (after, _) in found.items()
    )
