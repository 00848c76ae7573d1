"""The status of a job, from its table and from the service; the job itself need not run."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import msgspec

from fairlead_ingest.io.latest import refresh
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.settings import Pipeline
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table import commit_info
from fairlead_ingest.table.catalog import Catalog
from fairlead_ingest.table.commit_info import Committed
from fairlead_ingest.table.store_path import Place
from fairlead_messaging.client.errors import Expired, GenerationChanged, TopicMissing
from fairlead_messaging.client.io.sync_client import BulkClient
from fairlead_wire.errors import FairleadError, Temporary

# How many of the last commits freshness and rates are computed from.
RECENT_COMMITS = 50


def of(
    pipeline: Pipeline,
    table: Place,
    client: BulkClient | None,
    now: datetime.datetime,
    catalog: Catalog | None = None,
) -> dict[str, Any]:
    """The status of one pipeline as plain values. Without ``client``, only what the table knows."""
    table_format = tables.of(pipeline.table_format or tables.DELTA, catalog)
    found = _table(table_format, table, now)
    reached: Offsets = found.pop("reached")
    are_open, repaired = tables.letter_counts(table_format, table)
    topics = [of_topic(topic, reached.topics.get(topic), client, now) for topic in pipeline.topics]
    return {
        "name": pipeline.name,
        "table": str(table),
        **found,
        "dead_letters_rows": tables.count(table_format, tables.beside(table, tables.DEAD_LETTERS)),
        "dead_letters_open": are_open,
        "dead_letters_repaired": repaired,
        "gaps_rows": tables.count(table_format, tables.beside(table, tables.GAPS)),
        **(
            {"latest": refresh.latest_status(table, now)} if pipeline.latest is not None and pipeline.latest.key else {}
        ),
        "topics": topics,
    }


def _table(table_format: TableFormat, path: Place, now: datetime.datetime) -> dict[str, Any]:
    size = table_format.size(path)
    if size is None:
        return {"state": "no table yet", "rows": 0, "reached": Offsets()}
    recent = _recent(table_format, path)
    facts: dict[str, Any] = {
        "state": "ok" if recent else "no batch yet",
        "version": size.version,
        "rows": size.rows,
        "files": size.files,
        "bytes": size.bytes,
        "reached": table_format.reached(path),
    }
    if recent:
        newest = recent[0].info
        moment = datetime.datetime.fromtimestamp(recent[0].timestamp_ms / 1000, datetime.UTC)
        half, most = _fresh(recent)
        span = (recent[0].timestamp_ms - recent[-1].timestamp_ms) / 1000
        rows = sum(each.info.counts.rows for each in recent[:-1])
        facts |= {
            "last_batch": newest.batch,
            "last_commit": moment.isoformat(timespec="milliseconds"),
            "last_commit_seconds": round((now - moment).total_seconds(), 3),
            "last_rows": newest.counts.rows,
            "last_dead_letters": newest.counts.dead_letters,
            "rows_per_second": round(rows / span, 1) if span > 0 else None,
            "freshness_p50_seconds": half,
            "freshness_p95_seconds": most,
            "totals": newest.totals.counts(),
            "contracts": msgspec.to_builtins(newest.totals.contracts),
        }
    return facts


def fresh_within(table_format: TableFormat, path: Place) -> tuple[float | str | None, float | str | None]:
    """The median and 95th percentile of the seconds from acceptance at the edge to the table, in the last commits."""
    return _fresh(_recent(table_format, path))


def _recent(table_format: TableFormat, path: Place) -> list[Committed]:
    return [found for entry in table_format.last_entries(path, RECENT_COMMITS) if (found := entry.batch()) is not None]


def _fresh(recent: Sequence[Committed]) -> tuple[float | str | None, float | str | None]:
    ages = commit_info.add_ages(each.info.counts.ages for each in recent)
    return _seconds(ages, 0.5), _seconds(ages, 0.95)


def of_topic(
    topic: str, offset: TopicOffset | None, client: BulkClient | None, now: datetime.datetime
) -> dict[str, Any]:
    """The table's lag behind one topic, or why it is unknown; takes at most three requests."""
    at = offset or TopicOffset()
    facts: dict[str, Any] = {"topic": topic, "position": at.position, "generation": at.generation}
    if client is None:
        return facts
    try:
        after = at.position
        try:
            plan = client.plan(topic, after=after, generation=at.generation or None)
        except Expired as error:
            facts["expired_unread"] = error.rows
            after = ""
            plan = client.plan(topic, after=after, generation=at.generation or None)
        facts |= {"state": "ok", "lag_messages": plan.rows, "lag_bytes": plan.bytes, "lag_seconds": 0.0}
        if plan.rows:
            page = client.poll(topic, after=after, limit_rows=1, generation=plan.generation)
            if page.table.num_rows:
                oldest = page.table["ts"][0].as_py()
                facts["lag_seconds"] = round(max(0.0, (now - oldest).total_seconds()), 3)
        if plan.held_by:
            facts |= {"held_by": plan.held_by, "held_since": plan.held_since}
    except TopicMissing:
        facts["state"] = "missing"
    except GenerationChanged as error:
        facts |= {"state": "recreated", "generation_now": error.generation}
    except Temporary as error:
        facts |= {"state": "unreachable", "reason": str(error)}
    except FairleadError as error:
        facts |= {"state": "refused", "reason": str(error)}
    return facts


def _seconds(ages: list[int], fraction: float) -> float | str | None:
    """A quantile in seconds; text instead of infinity, which JSON does not have."""
    found = commit_info.age_quantile(ages, fraction)
    return f"more than {commit_info.AGE_BUCKETS[-1]:g}" if found == float("inf") else found
