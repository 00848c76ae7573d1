"""Transactions: start, commit, abort, invalidate, and who holds up which topic."""

from __future__ import annotations

import asyncio
from functools import partial

from aiohttp import web

from fairlead_messaging.api import responses
from fairlead_messaging.api.errors import Conflict, Refused
from fairlead_messaging.api.headers import JSON
from fairlead_messaging.api.requests import CommitRequest, StartRequest
from fairlead_messaging.server import requests
from fairlead_messaging.server.io.committer import LARGE_BYTES
from fairlead_messaging.server.io.rest.http import BROKER, body, check_content_type, json_response
from fairlead_messaging.server.transactions.commands import Abort, Commit, Invalidate, Start
from fairlead_messaging.server.transactions.manager import Started
from fairlead_messaging.server.transactions.transaction import State, Transaction, TransactionView


async def start(request: web.Request) -> web.Response:
    check_content_type(request, JSON)
    asked = requests.decode(await body(request) or b"{}", StartRequest)
    seconds = requests.timeout(asked.timeout)
    started: Started = await request.app[BROKER].change(Start(timeout_seconds=seconds))
    return json_response(
        responses.Started(started.transaction.pointer, started.snapshot.encode(), started.transaction.expires_ms)
    )


async def commit(request: web.Request) -> web.Response:
    """409 when another transaction that committed meanwhile changed one of the same keys; it is aborted then."""
    check_content_type(request, JSON)
    raw = await body(request) or b"{}"
    parse = partial(requests.decode, raw, CommitRequest)
    asked = parse() if len(raw) < LARGE_BYTES else await asyncio.to_thread(parse)
    command = Commit(pointer=_pointer(request), changes=requests.changes(asked.changes))
    finished: Transaction = await request.app[BROKER].change(command, len(raw))
    if finished.state is not State.COMMITTED:
        raise Conflict(
            f"transaction {finished.pointer} changed what another committed meanwhile; it is {finished.state.value}",
            code="transaction_conflict",
            state=finished.state.value,
        )
    return _shown(finished)


async def abort(request: web.Request) -> web.Response:
    return _shown(await request.app[BROKER].change(Abort(pointer=_pointer(request))))


async def invalidate(request: web.Request) -> web.Response:
    return _shown(await request.app[BROKER].change(Invalidate(pointer=_pointer(request))))


async def list_open(request: web.Request) -> web.Response:
    """Open transactions, oldest first; ``topics`` are those whose readers wait for them, and since when (ms)."""
    view = await request.app[BROKER].read(TransactionView)
    return json_response([_listed(each) for each in sorted(view.in_progress.values(), key=lambda each: each.pointer)])


def _listed(found: Transaction) -> responses.OpenTransaction:
    return responses.OpenTransaction(
        transactionWritePointer=found.pointer,
        state=found.state.value,
        started=found.started_ms,
        expires=found.expires_ms,
        topics=tuple(
            responses.Held(topic=f"{touched.namespace}/{touched.name}", since=touched.first.timestamp)
            for touched in found.touched
            if touched.first is not None
        ),
    )


def _shown(finished: Transaction) -> web.Response:
    return json_response(responses.Finished(finished.pointer, finished.state.value))


def _pointer(request: web.Request) -> int:
    text = request.match_info["pointer"]
    if not text.isdecimal() or len(text) > 20:
        raise Refused("a transaction write pointer is a whole number", code="bad_pointer")
    return int(text)
