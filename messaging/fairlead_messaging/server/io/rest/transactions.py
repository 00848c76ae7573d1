"""Transactions over HTTP: start, renew, commit, abort, invalidate, and list them."""

from __future__ import annotations

import asyncio
from functools import partial

from aiohttp import web

from fairlead_messaging.api import responses
from fairlead_messaging.api.errors import Conflict, Refused
from fairlead_messaging.api.headers import JSON
from fairlead_messaging.api.requests import (
    LIST_LIMIT_DEFAULT,
    LIST_LIMIT_MAX,
    TIMEOUT_SECONDS_DEFAULT,
    CommitRequest,
    StartRequest,
)
from fairlead_messaging.server import json_bodies, validation
from fairlead_messaging.server.io.committer import LARGE_BYTES
from fairlead_messaging.server.io.rest.http import BROKER, body, caller_of, check_content_type, json_response
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_messaging.server.transactions import listing
from fairlead_messaging.server.transactions.commands import Abort, Commit, Invalidate, RenewTransaction, Start
from fairlead_messaging.server.transactions.manager import StartedTransaction
from fairlead_messaging.server.transactions.transaction import Transaction, TransactionState, lifetime_end_ms


async def start(request: web.Request) -> web.Response:
    check_content_type(request, JSON)
    asked = json_bodies.decode(await body(request) or b"{}", StartRequest)
    broker = request.app[BROKER]
    seconds = validation.timeout(asked.timeout, broker.transaction_limits.timeout_seconds_max)
    default = min(TIMEOUT_SECONDS_DEFAULT, broker.transaction_limits.timeout_seconds_max)
    started: StartedTransaction = await broker.change(Start(timeout_seconds=seconds or default, by=caller_of(request)))
    return json_response(
        responses.Started(started.transaction.pointer, started.snapshot.encode(), started.transaction.expires_ms)
    )


async def renew(request: web.Request) -> web.Response:
    """Let a transaction time out the given seconds from now, by default after its own timeout."""
    check_content_type(request, JSON)
    asked = json_bodies.decode(await body(request) or b"{}", StartRequest)
    broker = request.app[BROKER]
    seconds = validation.timeout(asked.timeout, broker.transaction_limits.timeout_seconds_max)
    renewed = await broker.change(
        RenewTransaction(pointer=_pointer(request), timeout_seconds=seconds, by=caller_of(request))
    )
    last_ms = max(renewed.expires_ms, lifetime_end_ms(renewed, broker.transaction_limits))
    return json_response(responses.Renewed(renewed.pointer, renewed.expires_ms, last_ms))


async def commit(request: web.Request) -> web.Response:
    """Commit, or abort and answer 409 if a transaction that committed meanwhile changed one of the same keys."""
    check_content_type(request, JSON)
    raw = await body(request) or b"{}"
    parse = partial(json_bodies.decode, raw, CommitRequest)
    asked = parse() if len(raw) < LARGE_BYTES else await asyncio.to_thread(parse)
    command = Commit(pointer=_pointer(request), changes=validation.changes(asked.changes), by=caller_of(request))
    finished: Transaction = await request.app[BROKER].change(command, len(raw))
    if finished.state is not TransactionState.COMMITTED:
        raise Conflict(
            f"transaction {finished.pointer} changed keys that another one changed and committed first; it is "
            f"{finished.state.value}",
            code="transaction_conflict",
            state=finished.state.value,
        )
    return _shown(finished)


async def abort(request: web.Request) -> web.Response:
    return _shown(await request.app[BROKER].change(Abort(pointer=_pointer(request), by=caller_of(request))))


async def invalidate(request: web.Request) -> web.Response:
    return _shown(await request.app[BROKER].change(Invalidate(pointer=_pointer(request), by=caller_of(request))))


async def list_some(request: web.Request) -> web.Response:
    """Answer the open transactions, oldest first, or with ``state`` finished ones, newest first.

    ``limit`` is how many finished ones, ``before`` the pointer before which they began.
    """
    broker = request.app[BROKER]
    state = request.query.get("state", TransactionState.IN_PROGRESS.value)
    limit = validation.limit(
        validation.whole(request.query.get("limit", str(LIST_LIMIT_DEFAULT)), "limit"), LIST_LIMIT_MAX
    )
    before = validation.whole(request.query.get("before", str(listing.POINTER_MAX)), "pointer")
    states = [
        each for each in TransactionState if state in (each.value, "ended") and each is not TransactionState.IN_PROGRESS
    ]
    if not states and state != TransactionState.IN_PROGRESS.value:
        raise Refused("state: in_progress, committed, aborted, invalid or ended", code="bad_query")

    def query(snapshot: Snapshot) -> list[Transaction]:
        if not states:
            return listing.in_progress(snapshot)
        return listing.finished(snapshot, states, before=min(before, listing.POINTER_MAX), limit=limit)

    now_ms, caller = broker.now_ms(), caller_of(request)
    found = listing.visible_to(caller, await broker.read(query))
    return json_response([listing.shown(each, broker.transaction_limits, now_ms, caller) for each in found])


def _shown(finished: Transaction) -> web.Response:
    return json_response(responses.Finished(finished.pointer, finished.state.value))


def _pointer(request: web.Request) -> int:
    text = request.match_info["pointer"]
    if not text.isdecimal() or len(text) > 20:
        raise Refused("a transaction write pointer is a whole number", code="bad_pointer")
    return int(text)
