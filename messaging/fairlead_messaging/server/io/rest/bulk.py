"""Bulk reading: Arrow pages, plans of ranges, offsets by time."""

from __future__ import annotations

import time
from dataclasses import dataclass

from aiohttp import web

from fairlead_messaging.api import responses
from fairlead_messaging.api.errors import Refused
from fairlead_messaging.api.headers import (
    ARROW,
    EXPIRED_MESSAGES,
    GENERATION,
    HIDDEN_MESSAGES,
    JSON,
    NEXT_POSITION,
    OLDEST_POSITION,
    SERVICE,
    STABLE_POSITION,
)
from fairlead_messaging.api.message_id import FIRST, LAST, TIMESTAMP_MAX, MessageId, before_time
from fairlead_messaging.api.requests import (
    LIMIT_MAX,
    ArrowPollRequest,
    NoteReaderRequest,
    PlanRequest,
    TableNote,
)
from fairlead_messaging.api.responses import Reader, Table
from fairlead_messaging.server import json_bodies, readers, validation
from fairlead_messaging.server.commands import RecordReaderPosition
from fairlead_messaging.server.io.rest import authorization
from fairlead_messaging.server.io.rest.http import BROKER, METRICS, body, check_content_type, json_response, send
from fairlead_messaging.server.log import bulk, bulk_page, running_totals, topics
from fairlead_messaging.server.log.bulk import BulkPlan, shown
from fairlead_messaging.server.log.bulk_page import BulkPage
from fairlead_messaging.server.log.rows import RowStates
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_messaging.server.transactions import visibility
from fairlead_messaging.server.transactions.transaction import TransactionsUnavailable, TransactionView

PAGE_BYTES_DEFAULT = 8 * 1024 * 1024
"""The size of an Arrow page by default; larger pages cost more per message, because they need fresh memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """The ends of the topic in the snapshot that was read."""

    topic: TopicGeneration
    stable: MessageId
    oldest: MessageId
    states: RowStates | None
    held_by: int | None
    held_since: int | None


def _standing(
    request: web.Request,
    snapshot: Snapshot,
    generation: int | None,
    now_ms: int,
    after: MessageId = FIRST,
    *,
    committed_only: bool = True,
) -> _Standing:
    """The ends of the topic for a reader after an id, which uncommitted messages before that id do not concern.

    Without ``committed_only`` the reader also gets uncommitted messages, and is served even if the transaction tables
    cannot be read; then only the expired part is known to be stable.
    """
    topic = topics.lookup(snapshot, request.match_info["namespace"], request.match_info["topic"])
    bulk.check_generation(topic, generation)
    oldest = bulk.oldest(snapshot, topic, now_ms)
    try:
        view = TransactionView(snapshot)
    except TransactionsUnavailable:
        if committed_only:
            raise
        return _Standing(topic=topic, stable=oldest, oldest=oldest, states=None, held_by=None, held_since=None)
    held = visibility.first_uncommitted(snapshot, view, topic, now_ms=now_ms, after=after)
    return _Standing(
        topic=topic,
        stable=bulk.last_stable(snapshot, topic, held),
        oldest=oldest,
        states=visibility.row_states(view, None, read_committed=True),
        held_by=held.pointer if held else None,
        held_since=held.since_ms if held else None,
    )


async def poll(request: web.Request) -> web.StreamResponse:
    """Send an Arrow page: after < id ≤ upto, never past the stable position unless ``isolation`` is ``none``."""
    started = time.perf_counter()
    broker, metrics = request.app[BROKER], request.app[METRICS]
    check_content_type(request, JSON)
    asked = json_bodies.decode(await body(request) or b"{}", ArrowPollRequest)
    after, upto = validation.bound(asked.after, FIRST), validation.bound(asked.upto, LAST)
    limit_rows = validation.limit(asked.limit_rows, LIMIT_MAX)
    limit_bytes = min(PAGE_BYTES_DEFAULT, broker.settings.bulk_bytes_max)
    if asked.limit_bytes is not None:
        limit_bytes = validation.limit(asked.limit_bytes, broker.settings.bulk_bytes_max)
    now_ms = broker.now_ms()

    def query(snapshot: Snapshot) -> tuple[_Standing, BulkPage]:
        broker.pages.check()
        committed_only = asked.isolation != "none"
        standing = _standing(request, snapshot, asked.generation, now_ms, after, committed_only=committed_only)
        readers.check_start(snapshot, standing.topic, after, now_ms)
        end = min(upto, standing.stable) if committed_only else upto
        page = bulk_page.read(
            snapshot,
            standing.topic,
            after=after,
            upto=end,
            limit=limit_rows,
            bytes_max=limit_bytes,
            now_ms=now_ms,
            states=standing.states if committed_only else None,
        )
        if page.complete and end != LAST:
            page.next_position = max(page.next_position, end)
        return standing, page

    standing, page = await broker.read(query, sequential=True)
    topic = standing.topic
    metrics.polled.labels(f"{topic.namespace}/{topic.name}").inc(page.count)
    metrics.poll_seconds.observe(time.perf_counter() - started)
    return await send(
        request,
        page.parts,
        ARROW,
        {
            NEXT_POSITION: shown(page.next_position),
            HIDDEN_MESSAGES: str(page.aborted),
            EXPIRED_MESSAGES: str(page.expired),
            GENERATION: str(topic.generation),
            STABLE_POSITION: shown(standing.stable),
            OLDEST_POSITION: shown(standing.oldest),
            SERVICE: broker.service_id,
        },
    )


async def plan(request: web.Request) -> web.Response:
    """Answer what to read next, split into ranges; wait up to ``wait_ms`` for something to read."""
    broker = request.app[BROKER]
    namespace, name = request.match_info["namespace"], request.match_info["topic"]
    check_content_type(request, JSON)
    asked = json_bodies.decode(await body(request) or b"{}", PlanRequest)
    after, upto = validation.bound(asked.after, FIRST), validation.bound(asked.upto, LAST)
    limit_rows = validation.limit(asked.limit_rows, LIMIT_MAX)
    limit_bytes = validation.limit(asked.limit_bytes, 2**62) if asked.limit_bytes is not None else 2**62
    splits = validation.splits(asked.splits)

    def query(snapshot: Snapshot) -> tuple[_Standing, BulkPlan, int]:
        now_ms = broker.now_ms()
        standing = _standing(request, snapshot, asked.generation, now_ms, after)
        readers.check_start(snapshot, standing.topic, after, now_ms)
        end = min(upto, standing.stable)
        found = bulk.plan(
            snapshot,
            standing.topic,
            after=after,
            upto=end,
            limit_rows=limit_rows,
            limit_bytes=limit_bytes,
            splits=splits,
            now_ms=now_ms,
        )
        return (
            standing,
            found,
            running_totals.passed(snapshot, standing.topic, found.upto if found.rows else max(after, end)),
        )

    wait_ms = validation.wait_ms(asked.wait_ms)
    waiting = broker.read_until((namespace, name), query, lambda answer: answer[1].rows > 0, wait_ms)
    standing, found, passed = await authorization.check_again_after(request, waiting)
    return json_response(
        responses.Plan(
            service=broker.service_id,
            generation=standing.topic.generation,
            oldest=shown(standing.oldest),
            stable=shown(standing.stable),
            upto=shown(found.upto),
            rows=found.rows,
            bytes=found.size,
            passed=passed,
            ranges=[
                responses.Range(after=shown(each.after), upto=shown(each.upto), rows=each.rows, bytes=each.size)
                for each in found.ranges
            ],
            held_by=standing.held_by,
            held_since=standing.held_since,
        )
    )


async def offsets(request: web.Request) -> web.Response:
    """``ts=`` a time in milliseconds, ``earliest`` or ``latest`` → an exclusive start position."""
    broker = request.app[BROKER]
    asked = request.query.get("ts", "")
    moment = 0 if asked in ("earliest", "latest") else validation.whole(asked, "ts")
    if moment > TIMESTAMP_MAX:
        raise Refused("ts must be milliseconds since 1970, earliest or latest", code="bad_ts")

    def query(snapshot: Snapshot) -> tuple[_Standing, MessageId, int]:
        standing = _standing(request, snapshot, None, broker.now_ms())
        at = max(before_time(moment), standing.oldest)
        if asked in ("earliest", "latest"):
            at = standing.oldest if asked == "earliest" else standing.stable
        return standing, at, running_totals.passed(snapshot, standing.topic, min(at, standing.stable))

    standing, position, passed = await broker.read(query)
    return json_response(
        responses.Offset(
            service=broker.service_id,
            generation=standing.topic.generation,
            position=shown(position),
            stable=shown(standing.stable),
            oldest=shown(standing.oldest),
            passed=passed,
        )
    )


# --- Named readers.


async def note_reader(request: web.Request) -> web.Response:
    broker = request.app[BROKER]
    check_content_type(request, JSON)
    asked = json_bodies.decode(await body(request), NoteReaderRequest)
    command = RecordReaderPosition(
        namespace=request.match_info["namespace"],
        name=request.match_info["topic"],
        reader=request.match_info["reader"],
        position=validation.bound(asked.position, FIRST),
        generation=asked.generation,
        table=None if asked.table is None else _table(asked.table),
    )
    await broker.change(
        await broker.read(
            lambda found: readers.counted(found, topics.lookup(found, command.namespace, command.name), command)
        )
    )
    return web.Response()


async def list_readers(request: web.Request) -> web.Response:
    broker = request.app[BROKER]
    namespace, name = request.match_info["namespace"], request.match_info["topic"]

    def read(snapshot: Snapshot) -> tuple[int, list[Reader]]:
        living = topics.lookup(snapshot, namespace, name)
        return living.generation, readers.every(snapshot, living, broker.now_ms())

    generation, found = await broker.read(read)
    return json_response(found, headers={SERVICE: broker.service_id, GENERATION: str(generation)})


def _table(noted: TableNote) -> Table:
    """Raises: Refused if the start is not a position."""
    start = validation.bound(noted.start, FIRST)
    return Table(
        name=noted.name,
        application=noted.application,
        start="" if start == FIRST else start.hex(),
        batch=noted.batch,
        version=noted.version,
        rowless=noted.rowless,
    )
