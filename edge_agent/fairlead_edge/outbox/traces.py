"""Which traces messages belong to: when they are published, and when they are sent.

    header or property ``traceparent`` ─sampled?─▶ the message is stored with the context of the publish's span
                                                        └─▶ read again when it is sent, however much later

It is an ordinary application property, so the store and its format know nothing of it.  Used only if spans are
recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.publishing import MESSAGE_BYTES_MAX, RefusalReason, Submission
from fairlead_wire.traces import trace
from fairlead_wire.traces.trace import LATE_SECONDS, TRACEPARENT, TRACESTATE, Trace

ROOM_BYTES: Final = 2048
"""A message gets the property only if this much space is left, so that a trace never makes it too large."""
_MARK: Final = b'"traceparent":"'


class Incoming(msgspec.Struct, frozen=True):
    """The traces of a request: ``first`` decides whether it is recorded, ``others`` are linked."""

    first: Trace | None = None
    others: tuple[Trace, ...] = ()
    tracestate: str = ""


def incoming(
    submissions: Iterable[Submission | RefusalReason], traceparent: str | None, tracestate: str | None
) -> Incoming:
    """The traces of a request: its header comes first, then the messages; the first sampled one decides.

    If none is sampled, the first unsampled one decides, so no new trace begins.
    """
    own = trace.parse(traceparent)
    named = [own] if own is not None else []
    named.extend(_named_by(submissions))
    sampled = trace.distinct(each for each in named if each.sampled)
    first = next(iter(sampled or named), None)
    return Incoming(first, tuple(sampled[1:]), trace.check_tracestate(tracestate) if own is not None else "")


def recorded(
    submissions: Iterable[Submission | RefusalReason], incoming: Incoming, span: Trace
) -> list[Submission | RefusalReason]:
    """The messages with the context of the publish's span; a message of another trace keeps its own."""
    more: dict[str, str | None] = {TRACEPARENT: str(span)}
    if incoming.tracestate:
        more[TRACESTATE] = incoming.tracestate
    return [_with(each, more) if _belongs(each, span) else each for each in submissions]


def not_recorded(submissions: Iterable[Submission | RefusalReason]) -> list[Submission | RefusalReason]:
    """The messages with their traces marked as not sampled, because no hop records them."""
    return [
        each
        if isinstance(each, RefusalReason) or (found := trace.sampled(each.properties.get(TRACEPARENT))) is None
        else _with(each, {TRACEPARENT: str(msgspec.structs.replace(found, sampled=False))})
        for each in submissions
    ]


def leaving(items: Sequence[Item], now: float) -> tuple[list[Trace], set[Trace]]:
    """The sampled traces of a batch that is sent, and those of them that are late by now (the store's clock)."""
    found: list[Trace] = []
    late: set[Trace] = set()
    for item in items:
        # Cheap test first: most messages have no trace. A body may contain the same text, so decode the others.
        if _MARK not in item.content:
            continue
        try:
            stored = envelope.read(item.content)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue  # it is sent unchanged, and the hub decides
        origin = trace.sampled(stored.properties.get(TRACEPARENT))
        if origin is not None:
            found.append(origin)
            if now - item.enqueued > LATE_SECONDS:
                late.add(origin)
    return trace.distinct(found), late


def _named_by(submissions: Iterable[Submission | RefusalReason]) -> Iterable[Trace]:
    for each in submissions:
        if not isinstance(each, RefusalReason) and (found := trace.parse(each.properties.get(TRACEPARENT))) is not None:
            yield found


def _belongs(submission: Submission | RefusalReason, span: Trace) -> bool:
    if isinstance(submission, RefusalReason):
        return False
    own = trace.parse(submission.properties.get(TRACEPARENT))
    if own is not None and own.trace_id != span.trace_id:
        return False
    return len(msgspec.json.encode(submission)) + ROOM_BYTES <= MESSAGE_BYTES_MAX


def _with(submission: Submission | RefusalReason, more: dict[str, str | None]) -> Submission | RefusalReason:
    if isinstance(submission, RefusalReason):
        return submission
    return msgspec.structs.replace(submission, properties={**submission.properties, **more})
