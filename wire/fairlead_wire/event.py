"""What Fairlead reports about itself on a system topic: one JSON document for each event, as CloudEvents 1.0.

    {"specversion": "1.0", "eventversion": 1, "id": "…", "source": "/fairlead/hub/…", "time": "…Z",
     "type": "dev.fairlead.object.parked", "subject": "…", "node": "edge-1",
     "datacontenttype": "application/json", "data": {…}}

Hub and ingest share it; ``eventversion`` rises when a field changes its meaning, never when one is added.  Times are
RFC 3339 in UTC.  Texts from peers and users are truncated; contents of objects and messages never appear.

``EVENT_TYPES`` lists every type: when it is published, and with which data.  The page about events is generated from
it, and a test requires that hub and ingest publish these types and no others.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fairlead_wire.validation.mistakes import shown

VERSION = 1
TYPE_PREFIX = "dev.fairlead."
SYSTEM_NAMESPACE = "system"
"""Topics in it are Fairlead's own: no edge node is ever granted one, whatever EdgeRoutes say."""
TOPIC_DEFAULT = "system/events"
TEXT_CHARS_MAX = 1024

_encode = msgspec.json.encode


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something happened: ``type`` (without its prefix), to ``subject``, at ``node`` (empty: at none)."""

    type: str
    time: str
    subject: str = ""
    node: str = ""
    data: dict[str, Any] = {}


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    specversion: str
    eventversion: int
    id: str
    source: str
    type: str
    time: str
    subject: str | msgspec.UnsetType
    node: str | msgspec.UnsetType
    datacontenttype: str
    data: dict[str, Any]


def encode(event: Event, *, id: str, source: str) -> bytes:
    """The payload.  ``id`` with ``source`` never repeats; ``source`` is a path such as ``/fairlead/hub/NAME``."""
    document = _Document(
        specversion="1.0",
        eventversion=VERSION,
        id=id,
        source=source,
        type=TYPE_PREFIX + event.type,
        time=event.time,
        subject=event.subject or msgspec.UNSET,
        node=event.node or msgspec.UNSET,
        datacontenttype="application/json",
        data=event.data,
    )
    return _encode(document)


def short(text: str) -> str:
    """A text from outside, cut to ``TEXT_CHARS_MAX``."""
    return text if len(text) <= TEXT_CHARS_MAX else text[: TEXT_CHARS_MAX - 1] + "…"


def is_reserved(topic: str) -> bool:
    """Is this ``namespace/name`` one of Fairlead's own?"""
    return topic.partition("/")[0] == SYSTEM_NAMESPACE


def check_topic(topic: str) -> str:
    """Where a program's own events go: ``system/NAME``, or empty for nowhere.  Raises ``ValueError``."""
    namespace, _, name = topic.partition("/")
    if topic and (namespace != SYSTEM_NAMESPACE or not name or "/" in name):
        raise ValueError(f"must be {SYSTEM_NAMESPACE}/NAME, or empty for no events, is {shown(topic)}")
    return topic


class EventType(msgspec.Struct, frozen=True):
    """``name`` without ``event.TYPE_PREFIX``; ``data`` in the words of the page."""

    name: str
    publisher: str
    when: str
    data: str


EVENT_TYPES: Final = (
    EventType(
        "hub.started",
        "hub",
        "a hub holds the Lease; the state of a node is unknown until an event names it",
        "`fence`",
    ),
    EventType(
        "hub.stopped",
        "hub",
        "it drained, and ends",
        "`fence`",
    ),
    EventType(
        "node.connected",
        "hub",
        "a session opened",
        "`session`, `agentVersion`, `storeEpoch`, `objectsHeld`",
    ),
    EventType(
        "node.away",
        "hub",
        "it ended",
        "`reason`: `connection_ended`, `node_deleted`, `node_unknown`, `draining`, … or `not_returned`: "
        "connected to the hub before, not to this one within 30 s",
    ),
    EventType(
        "node.replaced",
        "hub",
        "a newer connection took over",
        "`sameStore`: false means another machine under the same identity; `storeEpochBefore`, `storeEpoch`",
    ),
    EventType(
        "node.paused",
        "hub",
        "it was paused by its annotation",
        "`message`",
    ),
    EventType(
        "node.resumed",
        "hub",
        "the annotation was taken away",
        "`message`",
    ),
    EventType(
        "node.deletion_guard",
        "hub",
        "the deletion guard stopped its deletions",
        "`message`",
    ),
    EventType(
        "identity.revoked",
        "hub",
        "a person revoked certificates of a node; a session that used one of them is cut",
        "`message`",
    ),
    EventType(
        "identity.joined",
        "hub",
        "a device got its first certificate by a join token",
        "`serial`, `expires`, `token` (id), `replaced`: the identity before was revoked, `peer` (address)",
    ),
    EventType(
        "identity.renewed",
        "hub",
        "a node got its next certificate in its session",
        "`message`",
    ),
    EventType(
        "identity.late",
        "hub",
        "a node whose certificate had ended while it was away got another for the proof of its key",
        "`message`",
    ),
    EventType(
        "identity.held",
        "hub",
        "such a node looks like a copy (another certificate or store was used last): it waits for approval",
        "`message`. Once for each value that waits",
    ),
    EventType(
        "identity.refused",
        "hub",
        "a device got none, or a node no next one; with `node` where its token or its key was right",
        "`reason` (code), `message`, `token` (id), `peer`, `count`. At once, then once a minute with how many came "
        "meanwhile",
    ),
    EventType(
        "object.parked",
        "hub",
        "given up for now",
        "`object`, `reason` (code), `message`, `retries`, `nextRetryTime`",
    ),
    EventType(
        "object.unparked",
        "hub",
        "tried again",
        "`object`, `reason`: `newer`, `schedule`, `unwanted`",
    ),
    EventType(
        "routes.refused",
        "hub",
        "an EdgeRoutes object, or routes in it, cannot be used; with `node`: that node says so",
        "`routes` (name), `resourceVersion`, `errors` (`route`, `message`, `line`, `column`; at most 8), `errorsTotal`",
    ),
    EventType(
        "queue.stalled",
        "hub",
        "nothing of a queue was taken for half a minute or longer although the node is connected; nothing is "
        "lost, it goes on by itself",
        "`reason` (priority), `priority`, `length`, `message` (the last answer), `count`. At once, then at "
        "most once a minute",
    ),
    EventType(
        "messages.refused",
        "hub",
        "messages that will never be stored; the node has them as dead letters",
        "`reason` (code), `message`, `count`. At once, then once a minute with how many came meanwhile",
    ),
    EventType(
        "table.committed",
        "ingest",
        "a batch is in a table",
        "`pipeline`, `table`, `batch`, `version` (of the table), `rows`, `bytes`, `deadLetters`, "
        "`expiredUnread`, `positions` by topic (`generation`, `position`)",
    ),
    EventType(
        "table.gap",
        "ingest",
        "a range of a topic was never read and never will be",
        "`pipeline`, `table`, `batch`, `version`, `gaps` (`topic`, `reason`, `fromGeneration`, "
        "`fromPosition`, `toGeneration`, `toPosition`, `rows`; of what a node reported also `node`, `queue`, "
        "`fromSequence`, `toSequence`; at most 32), `gapsTotal`",
    ),
    EventType(
        "job.stopped",
        "ingest",
        "an ingest job ended and needs attention",
        "`reason` (code), `message`, `pipelines`",
    ),
)
