"""What the next batch of a stream reads: asked of the service topic by topic, as far as the batch's limits go.

    a plan for each topic (one of them may wait) ─▶ what some leave goes to others ─▶ the places after the batch

The limits are the options', but while live topics stand beside a backlog a batch is held to some seconds
(``source.batch_pace``). That only says where a batch ends: once it is planned, Spark's log has it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

from fairlead_ingest.io.checkpoint import batch_times
from fairlead_ingest.io.topics.options import Options
from fairlead_ingest.io.topics.range_reader import go_on
from fairlead_ingest.io.topics.retry import ask
from fairlead_ingest.source import batch_shares, data_loss_policy, offsets
from fairlead_ingest.source.batch_pace import LIVE_SECONDS, START_ROWS, BatchPace, BatchTimes
from fairlead_ingest.source.batch_shares import Used
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_messaging.api.responses import Plan
from fairlead_messaging.client.errors import Expired, GenerationChanged, TopicMissing
from fairlead_messaging.client.io.bulk_client import BulkClient

PLANS_AT_ONCE: Final = 4


class BatchPlanner:
    """Lives as long as the query, beside the driver. ``targets``: no further than these places, and no waiting."""

    def __init__(self, options: Options, client: BulkClient, targets: Mapping[str, str] | None = None) -> None:
        self._options = options
        self._client = client
        self._targets = targets
        self._turn = 0
        is_paced = bool(options.batch_seconds and options.checkpoint) and targets is None
        self._pace = BatchPace(seconds=options.batch_seconds, rows=START_ROWS) if is_paced else None
        # Live topics stood beside a backlog when the last batch was planned.
        self._is_mixed = False
        self._had_rows: dict[str, float] = {}
        # What planning the last batch took; Spark's log of it comes after.
        self._seconds = 0.0
        self._made: dict[str, tuple[TopicOffset, Plan]] = {}

    def next(self, known: Offsets, limit_rows: int | None, limit_bytes: int | None) -> Offsets | None:
        """The places after the next batch, None while there is nothing to read."""
        names = self._options.topics
        service = known.service
        paced_rows = self._paced_rows(known, limit_rows)
        began = time.monotonic()
        first_rows = paced_rows if self._is_mixed else limit_rows
        limits = dict(
            zip(
                names,
                zip(offsets.shares(first_rows, len(names)), offsets.shares(limit_bytes, len(names)), strict=True),
                strict=True,
            )
        )
        # Where nothing has moved the last one asked waits in the service, else Spark would ask a hundred times a
        # second; it is another topic each time, so that each is soon the one whose news ends the wait at once.
        self._turn += 1
        turn = self._turn % len(names)
        *asked, last = [*names[turn:], *names[:turn]]
        before = {topic: self._known(known, topic).at_rest() for topic in names}
        found = self._plans({topic: (before[topic], limits[topic]) for topic in asked})
        moved = any(_has_moved(before[topic], after) for topic, (after, _) in found.items())
        waits = not moved and self._targets is None
        found[last] = self._plan(last, before[last], *limits[last], self._options.wait_ms if waits else 0)
        moved = moved or _has_moved(before[last], found[last][0])
        for _, plan in found.values():
            if plan is not None:
                service = data_loss_policy.same_service(service, plan.service)
        if not moved:
            return None
        used = {topic: self._used(topic, plan) for topic, (_, plan) in found.items()}
        for _ in range(batch_shares.ROUNDS_MAX):
            again = batch_shares.again(used, first_rows, limit_bytes)
            if not again:
                break
            found |= self._plans({topic: (before[topic], shares) for topic, shares in again.items()})
            used |= {topic: self._used(topic, found[topic][1]) for topic in again}
        was_mixed, self._is_mixed = self._is_mixed, self._pace is not None and self._are_mixed(used, time.monotonic())
        if self._is_mixed and not was_mixed:
            smaller = batch_shares.anew(used, paced_rows)
            found |= self._plans({topic: (before[topic], shares) for topic, shares in smaller.items()})
        self._made = {topic: (after, plan) for topic, (after, plan) in found.items() if plan is not None and plan.rows}
        self._seconds = 0.0 if waits else time.monotonic() - began
        return Offsets(service=service, topics={topic: after for topic, (after, _) in found.items()})

    def made(self, topic: str, offset: TopicOffset) -> Plan | None:
        """The plan by which ``next`` came to ``offset``; None where that was not here and just now: asked once."""
        after, plan = self._made.pop(topic, (None, None))
        return plan if plan is not None and after == offset and plan.upto == offset.position else None

    def _paced_rows(self, known: Offsets, limit_rows: int | None) -> int | None:
        """How many rows a batch beside live topics may have, after the one that ended at ``known``."""
        if self._pace is None or limit_rows is None:
            return limit_rows
        times = batch_times.known(Path(self._options.checkpoint), known)
        if times is not None:
            whole = BatchTimes(seconds=times.seconds + self._seconds, work_seconds=times.work_seconds)
            self._pace = self._pace.after(known.rows, whole)
        return min(limit_rows, self._pace.rows)

    def _are_mixed(self, used: Mapping[str, Used], now: float) -> bool:
        """Some topics have more than a batch takes while others, that had messages lately, are up to date."""
        self._had_rows.update({topic: now for topic, each in used.items() if each.rows})
        live = any(
            not each.has_more and now - self._had_rows.get(topic, now - LIVE_SECONDS) < LIVE_SECONDS
            for topic, each in used.items()
        )
        return live and any(each.has_more for each in used.values())

    def _used(self, topic: str, plan: Plan | None) -> Used:
        if plan is None:
            return Used(rows=0, size_bytes=0, has_more=False)
        end = plan.stable or ""
        if self._targets is not None:
            end = min(end, self._targets.get(topic, ""))
        return Used(rows=plan.rows, size_bytes=plan.bytes, has_more=bool(plan.rows) and (plan.upto or "") < end)

    def _known(self, known: Offsets, topic: str) -> TopicOffset:
        """Where a topic stands: one that the query did not read so far begins as a table that holds some of it says."""
        offset = known.topics.get(topic)
        if offset is not None:
            return offset
        start = self._options.start_of(topic)
        return TopicOffset.from_starting(start) if isinstance(start, Mapping) else TopicOffset()

    def _plans(
        self, asked: Mapping[str, tuple[TopicOffset, tuple[int | None, int | None]]]
    ) -> dict[str, tuple[TopicOffset, Plan | None]]:
        """By topic, from (where it stands, limits); some side by side, since hundreds take as many round trips."""

        def plan(topic: str) -> tuple[TopicOffset, Plan | None]:
            offset, limits = asked[topic]
            return self._plan(topic, offset, *limits, 0)

        if len(asked) < PLANS_AT_ONCE:
            return {topic: plan(topic) for topic in asked}
        with ThreadPoolExecutor(PLANS_AT_ONCE, thread_name_prefix="plan") as asking:
            return dict(zip(asked, asking.map(plan, asked), strict=True))

    def _plan(
        self, topic: str, offset: TopicOffset, limit_rows: int | None, limit_bytes: int | None, wait_ms: int
    ) -> tuple[TopicOffset, Plan | None]:
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
                gap = data_loss_policy.expired(topic, after, error.oldest, error.rows, self._options.on_expired)
                after = go_on(topic, after, error, self._options)
                offset = msgspec.structs.replace(offset, gap=data_loss_policy.further(offset.gap, gap))
                continue
            except GenerationChanged as error:
                offset = data_loss_policy.recreated(topic, offset, error.generation, self._options.on_recreated)
                after = offset.position
                continue
            return _after(offset, plan, target), plan


def _has_moved(before: TopicOffset, after: TopicOffset) -> bool:
    return (after.generation, after.position) != (before.generation, before.position)


def _after(offset: TopicOffset, plan: Plan, target: str | None) -> TopicOffset:
    """The place after the batch that ``plan`` allows; ``offset`` itself where there is nothing to take or to count.

    Messages with a short time to live may leave a topic unread. The totals of both ends say how many: where nothing
    is left to read, what has gone is a batch of its own, of no rows.
    """
    before, total = offset.known_total, plan.passed
    # What has expired is behind us even if nothing follows it yet; else it would be met, and counted, again.
    reached = max(plan.upto or "", offset.position, offset.gap.upto if offset.gap else "")
    if not plan.rows and total is not None and (offset.gap is not None or (before is not None and total > before)):
        stable = plan.stable or ""
        reached = max(reached, stable if target is None else min(stable, target))
    if not plan.rows and reached == offset.position and offset.gap is None:
        return offset
    end = begin = None
    if total is not None:
        # Counted from below: a total in the middle of a topic may be too low, and then the next one makes up for it.
        end = total if before is None else max(total, before + plan.rows)
        begin = max(0, end - plan.rows) if before is None else before
    return TopicOffset(
        generation=plan.generation,
        position=reached,
        start_generation=offset.start_generation or plan.generation,
        start_position=offset.start_position,
        rows=plan.rows,
        total=end,
        start_total=begin,
        gap=offset.gap,
    )
