"""Whole ranges of a topic for batch readers, and how far they have come."""

from __future__ import annotations

from functools import partial

import msgspec

from fairlead_messaging.api import headers, routes
from fairlead_messaging.api.requests import (
    ArrowPollRequest,
    NoteReaderRequest,
    OffsetsQuery,
    PlanRequest,
    TableNote,
)
from fairlead_messaging.api.responses import (
    Offset,
    Plan,
    Reader,
)
from fairlead_messaging.client import arrow_page
from fairlead_messaging.client.arrow_page import ArrowPage
from fairlead_messaging.client.request import ClientRequest, ask, order, to
from fairlead_messaging.client.response import Response


def plan(
    namespace: str,
    name: str,
    *,
    after: str,
    upto: str | None = None,
    limit_rows: int | None = None,
    limit_bytes: int | None = None,
    splits: int = 1,
    wait_ms: int = 0,
    generation: int | None = None,
) -> ClientRequest[Plan]:
    """How to read a topic beyond ``after``; waits up to ``wait_ms`` while nothing is there.

    Raises ``Expired``, ``GenerationChanged``, ``TopicMissing``.
    """
    body = PlanRequest(
        after=after,
        upto=upto,
        limit_rows=limit_rows,
        limit_bytes=limit_bytes,
        splits=splits,
        wait_ms=wait_ms,
        generation=generation,
    )
    return ask(routes.PLAN, namespace, name, body=body, wait_seconds=wait_ms / 1000)


def offsets(namespace: str, name: str, at: str | int) -> ClientRequest[Offset]:
    """Where ``at`` (``earliest``, ``latest`` or milliseconds since 1970) lies in the topic."""
    return ask(routes.OFFSETS, namespace, name, query=OffsetsQuery(ts=str(at)))


def note_reader(
    namespace: str,
    name: str,
    reader: str,
    *,
    position: str,
    generation: int | None = None,
    table: TableNote | None = None,
) -> ClientRequest[None]:
    """Record how far ``reader`` has durably read, so that its lag can be seen; it moves nothing.

    ``table``: of one that fills a table.
    """
    body = NoteReaderRequest(position=position, generation=generation, table=table)
    return order(routes.NOTE_READER, namespace, name, reader, body=body)


def readers(namespace: str, name: str) -> ClientRequest[list[Reader]]:
    """Named readers and how far each lags."""

    def found(response: Response) -> list[Reader]:
        service, generation = response.header(headers.SERVICE) or "", response.generation
        return [
            msgspec.structs.replace(each, service=service, generation=generation)
            for each in response.json(list[Reader])
        ]

    return to(routes.READERS, namespace, name, decode=found)


def poll_arrow(
    namespace: str,
    name: str,
    *,
    after: str,
    upto: str | None = None,
    limit_rows: int | None = None,
    limit_bytes: int | None = None,
    generation: int | None = None,
) -> ClientRequest[ArrowPage]:
    """One page of rows beyond ``after`` up to ``upto``, never past the stable position; needs pyarrow.

    Raises as ``plan``.
    """
    body = ArrowPollRequest(
        after=after, upto=upto, limit_rows=limit_rows, limit_bytes=limit_bytes, generation=generation
    )
    page = partial(arrow_page.read, after)
    return to(routes.ARROW_POLL, namespace, name, body=body, decode=page, accept=headers.ARROW)
