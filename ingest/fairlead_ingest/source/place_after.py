"""Where a topic stands after a batch, by what the service planned for it."""

from __future__ import annotations

from fairlead_ingest.source.offsets import TopicOffset
from fairlead_messaging.api.responses import Plan


def after(offset: TopicOffset, plan: Plan, target: str | None) -> TopicOffset:
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
