"""Every type of event that Fairlead publishes about itself: when, and with which data.

The page about events is made from it; a test demands that hub and ingest publish these types and no other.
"""

from __future__ import annotations

from typing import Final

import msgspec


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
