"""Events that Fairlead publishes about itself on a system topic: one CloudEvents 1.0 JSON document each.

    {"specversion": "1.0", "eventversion": 1, "id": "…", "source": "/fairlead/hub/…", "time": "…Z",
     "type": "dev.fairlead.object.parked", "subject": "…", "node": "edge-1",
     "datacontenttype": "application/json", "data": {…}}

The hub and ingest publish them.  ``eventversion`` rises when a field changes its meaning, never when one is added.
Times are RFC 3339 in UTC.  Texts from peers and users are truncated; the content of objects and messages never appears.

``EVENT_TYPES`` lists every type: when it is published, and with which data.  The page about events is generated from
it, and a test checks that the hub and ingest publish exactly these types.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fairlead_wire.validation.mistakes import shown

VERSION = 1
TYPE_PREFIX = "dev.fairlead."
SYSTEM_NAMESPACE = "system"
"""Topics in this namespace belong to Fairlead: no EdgeRoutes object can grant one to a node."""
TOPIC_DEFAULT = "system/events"
TEXT_CHARS_MAX = 1024

_encode = msgspec.json.encode


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event: its ``type`` without the prefix, its ``subject``, and its ``node`` (empty: none)."""

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
    """The payload.  ``id`` and ``source`` together are unique; ``source`` is a path such as ``/fairlead/hub/NAME``."""
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
    """Truncate a text from a peer or user to ``TEXT_CHARS_MAX``."""
    return text if len(text) <= TEXT_CHARS_MAX else text[: TEXT_CHARS_MAX - 1] + "…"


def is_reserved(topic: str) -> bool:
    """True if this topic, ``namespace/name``, is reserved for Fairlead."""
    return topic.partition("/")[0] == SYSTEM_NAMESPACE


def check_topic(topic: str) -> str:
    """Check the topic for a program's own events: ``system/NAME``, or empty for none.  Raises ``ValueError``."""
    namespace, _, name = topic.partition("/")
    if topic and (namespace != SYSTEM_NAMESPACE or not name or "/" in name):
        raise ValueError(f"must be {SYSTEM_NAMESPACE}/NAME, or empty for no events, is {shown(topic)}")
    return topic


class EventType(msgspec.Struct, frozen=True):
    """A row of the page about events.  ``name`` is without ``TYPE_PREFIX``; ``data`` is Markdown."""

    name: str
    publisher: str
    when: str
    data: str


EVENT_TYPES: Final = (
    EventType(
        "hub.started",
        "hub",
        "a hub took over the Lease; the state of a node is unknown until an event names it",
        "`fence`",
    ),
    EventType(
        "hub.stopped",
        "hub",
        "the hub has drained and exits",
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
        "the session ended",
        "`reason`: `connection_ended`, `node_deleted`, `node_unknown`, `draining`, … or `not_returned`: "
        "it was connected to the previous hub, but not to this one within 30 s",
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
        "an annotation on the EdgeNode paused it",
        "`message`",
    ),
    EventType(
        "node.resumed",
        "hub",
        "the annotation was removed",
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
        "certificates of a node were revoked; a session that uses one of them is closed",
        "`message`",
    ),
    EventType(
        "identity.joined",
        "hub",
        "a device got its first certificate with a join token",
        "`serial`, `expires`, `token` (id), `replaced` (the previous identity was revoked), `peer` (address)",
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
        "a node whose certificate expired while it was away proved its key and got a new one",
        "`message`",
    ),
    EventType(
        "identity.held",
        "hub",
        "such a node may be a copy (another certificate or store was used last), and waits for approval",
        "`message`. Once for each value that waits for approval",
    ),
    EventType(
        "identity.refused",
        "hub",
        "a device was refused a certificate, or a node its renewal; with `node` if its token or key was valid",
        "`reason` (code), `message`, `token` (id), `peer`, `count`. At once, then once a minute with the number of "
        "refusals since",
    ),
    EventType(
        "object.parked",
        "hub",
        "the hub stopped retrying an object for now",
        "`object`, `reason` (code), `message`, `retries`, `nextRetryTime`",
    ),
    EventType(
        "object.unparked",
        "hub",
        "the hub tries a parked object again",
        "`object`, `reason`: `newer`, `schedule`, `unwanted`",
    ),
    EventType(
        "routes.refused",
        "hub",
        "an EdgeRoutes object, or routes in it, cannot be used; with `node`: the node reported it",
        "`routes` (name), `resourceVersion`, `errors` (`route`, `message`, `line`, `column`; at most 8), `errorsTotal`",
    ),
    EventType(
        "queue.stalled",
        "hub",
        "nothing was accepted from a queue for at least half a minute although the node is connected; nothing is "
        "lost, and sending resumes by itself",
        "`reason` (priority), `priority`, `length`, `message` (the last answer), `count`. At once, then at "
        "most once a minute",
    ),
    EventType(
        "messages.refused",
        "hub",
        "messages were refused permanently; the node keeps them as dead letters",
        "`reason` (code), `message`, `count`. At once, then once a minute with the number of messages since",
    ),
    EventType(
        "table.committed",
        "ingest",
        "a batch was committed to a table",
        "`pipeline`, `table`, `batch`, `version` (of the table), `rows`, `bytes`, `deadLetters`, "
        "`expiredUnread`, `positions` by topic (`generation`, `position`)",
    ),
    EventType(
        "table.gap",
        "ingest",
        "a range of a topic was not read and never will be",
        "`pipeline`, `table`, `batch`, `version`, `gaps` (`topic`, `reason`, `fromGeneration`, "
        "`fromPosition`, `toGeneration`, `toPosition`, `rows`; for a gap that a node reported also `node`, `queue`, "
        "`fromSequence`, `toSequence`; at most 32), `gapsTotal`",
    ),
    EventType(
        "job.stopped",
        "ingest",
        "an ingest job stopped and needs attention",
        "`reason` (code), `message`, `pipelines`",
    ),
)
