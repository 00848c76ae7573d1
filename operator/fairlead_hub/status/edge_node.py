"""EdgeNode: the status of one node in the API, named as its Node.  Written on transitions, otherwise every few minutes.

``grantedTopics`` is kept here so that a topic once named by the node's EdgeRoutes stays granted after a hub restart:
messages routed before a change must not be refused after it (contract section 8).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fairlead_hub.cluster.sync_rule import DEFAULT_TOPIC
from fairlead_hub.delivery import deletion_guard
from fairlead_hub.delivery.deletion_guard import DeletionGuard
from fairlead_hub.identity import revocation
from fairlead_hub.identity.revocation import Revocation
from fairlead_hub.status import status_cache, to_table
from fairlead_hub.status.object_sync import condition
from fairlead_wire import message
from fairlead_wire.objects import api_group, resource

PRIORITIES_MAX = 64
"""Priorities listed for one node; the contract defines 0 to 9."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What a node is allowed to do, by its EdgeRoutes, its certificates and annotations; assembled by the hub."""

    granted_topics: frozenset[str] = frozenset()
    paused: str = ""
    """Why nothing is sent to it; empty if it is not paused."""
    guard: DeletionGuard | None = None
    identity: dict[str, Any] | None = None
    """The Node object its certificates belong to; None if no certificate is remembered."""
    revoked: Revocation | None = None
    """The certificates that a person revoked."""


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The current state of one node."""

    connected: bool
    hub: str
    store_epoch: int
    agent: str
    last_contact: str
    wanted: int
    held: int
    parked: int
    granted_topics: frozenset[str]
    edge: message.EdgeStatus | None
    pending: int = 0
    """Pending objects."""
    paused: str = ""
    guard: DeletionGuard | None = None
    kept: tuple[tuple[str, str], ...] = ()
    """A key that the node should not hold and must not delete yet, and why; there may be more."""
    unreadable: str = ""
    """A sentence about unreadable SyncRules that concern the node."""
    routes: tuple[dict[str, Any], ...] = ()
    """The node's result for each EdgeRoutes object (``node_routes``)."""
    identity: dict[str, Any] | None = None
    """The Node object its certificates belong to (``identities``); None without certificates."""
    revoked: Revocation | None = None
    to_table: tuple[dict[str, Any], ...] = ()
    """How long its messages take to reach a table (``to_table``)."""
    obeyed_fence: int | None = None
    """The hub's fencing number that the node reports to have obeyed, if it is refused because ours is lower."""
    stale_hub: str = ""
    """The same as a sentence."""
    deleted: str = ""
    """That its Node is gone, as a sentence; its document remains for its certificates."""

    @property
    def queued(self) -> int:
        """Messages stored at the node."""
        return sum(queue.length for queue in self.edge.queues) if self.edge is not None else 0

    @property
    def dead_letters(self) -> int:
        return self.edge.dead_letters if self.edge is not None else 0


class EdgeNodeDocument(status_cache.StatusDocument, frozen=True, kw_only=True):
    """One EdgeNode for the status cache."""

    uid: str
    facts: NodeFacts
    at: str
    fence: int

    def head(self) -> dict[str, Any]:
        return head(self.node, self.uid, self.facts.revoked)

    def status(self, observed: status_cache.Observed | None) -> dict[str, Any]:
        before = observed.status.get("conditions", []) if observed is not None else []
        generation = observed.generation if observed is not None else 1
        return status(self.facts, before, generation, self.at, self.fence)

    def is_written_in(self, observed: status_cache.Observed) -> bool:
        return decides_the_same(self.status(observed), observed.status)


STALE_HUB = "StaleHub"
"""Reason of condition Connected if a node is refused because it has obeyed a hub with a higher fencing number."""
NODE_DELETED = "NodeDeleted"
"""Reason of condition Connected if the Node is gone and the document remains, because of the node's certificates."""
NUMBER_MAX = 2**53
"""Above any possible count or epoch."""
_TYPES: dict[str, type | tuple[type, ...]] = {
    "connected": bool, "storeEpoch": str, "agentVersion": str, "hub": str,
    "lastContactTime": (str, type(None)), "objectsWanted": int, "objectsHeld": int, "objectsParked": int,
    "grantedTopics": list, "conditions": list, "queues": list,
    "paused": str, "deletionGuard": (dict, type(None)),
    "identity": (dict, type(None)), "routes": list, "toTable": list,
}  # fmt: skip
"""The fields that are read back from a status."""
_ITEMS: dict[str, type] = {"grantedTopics": str, "conditions": dict, "queues": dict, "routes": dict, "toTable": dict}


def granted_topics(observed: status_cache.Observed | None) -> frozenset[str]:
    """The topics a document names; none without a document."""
    topics = observed.status.get("grantedTopics") if observed is not None else None
    return frozenset(topic for topic in topics if isinstance(topic, str)) if isinstance(topics, list) else frozenset()


def readable(observed: status_cache.Observed) -> status_cache.Observed:
    """Without fields that no hub can have written: the rest is used, and the document is written again."""
    status = observed.status
    odd = [key for key, value in status.items() if key in _TYPES and not _is_possible(key, value)]
    if not odd:
        return observed
    return status_cache.Observed(
        version=observed.version,
        generation=observed.generation,
        status={key: value for key, value in status.items() if key not in odd},
        head=observed.head,
        uid=observed.uid,
    )


def _is_possible(key: str, value: Any) -> bool:
    if not isinstance(value, _TYPES[key]):
        return False
    match value:
        case list():
            return all(isinstance(each, _ITEMS[key]) for each in value)
        case int() if _TYPES[key] is int:
            return not isinstance(value, bool) and 0 <= value < NUMBER_MAX
        case str() if key == "storeEpoch":
            return value == "" or (value.isascii() and value.isdigit() and int(value) < NUMBER_MAX)
    return True


def deletion(node: str, identity: Mapping[str, Any] | None) -> tuple[str, str]:
    """What to say of a document whose Node is gone, and the remedy; ``identity`` is that of its status."""
    known = identity or {}
    stays = f"remains until {known['expires']}" if known.get("expires") else "is still there"
    if known.get("state") == "Revoked":
        stays = "remains, because it records a revocation"
    return (
        f"Node {node} was deleted or lost the label {api_group.EDGE_LABEL}; its EdgeNode {stays}",
        f"recreate the Node and then run fairlead node approve {node}, or run fairlead node delete {node}",
    )


def deletion_text(node: str, identity: Mapping[str, Any] | None) -> str:
    """``deletion`` as sentences."""
    what, remedy = deletion(node, identity)
    return f"{what}. {remedy[0].upper()}{remedy[1:]}."


def is_deleted(status: Mapping[str, Any]) -> bool:
    """Whether this status says that the Node is gone."""
    return bool(_condition(status, "Connected").get("reason") == NODE_DELETED)


def head(node: str, node_uid: str, revoked: Revocation | None = None) -> dict[str, Any]:
    """Owned by the Node, so that the garbage collector deletes it even if no hub runs; without a UID it has no owner.

    ``revoked``: its spec, if a deleted document is created again.
    """
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}
    metadata: dict[str, Any] = {"name": node}
    if node_uid:
        metadata["ownerReferences"] = [owner]
    made: dict[str, Any] = {"apiVersion": api_group.API_VERSION, "kind": "EdgeNode", "metadata": metadata}
    return made if revoked is None else {**made, "spec": revocation.spec(revoked)}


def status(facts: NodeFacts, before: list[dict[str, Any]], generation: int, now: str, fence: int) -> dict[str, Any]:
    """The status subresource."""
    edge = facts.edge
    away = NODE_DELETED if facts.deleted else STALE_HUB if facts.stale_hub else "Away"
    reason = "Connected" if facts.connected else away
    paused = "Annotation" if facts.paused else "NotPaused"
    stopped = facts.guard.why if facts.guard is not None and facts.guard.stops else ""
    tripped = "TooManyDeletions" if stopped else "NotTripped"
    behind, why = _behind(facts)
    readable = "RuleUnreadable" if facts.unreadable else "AllReadable"
    return {
        "connected": facts.connected,
        "lastContactTime": facts.last_contact or None,
        "hub": facts.hub,
        # A string: 53-bit integers survive JSON, but not every reader of a table.
        "storeEpoch": str(facts.store_epoch) if facts.store_epoch else "",
        "agentVersion": facts.agent,
        "objectsWanted": facts.wanted,
        "objectsHeld": facts.held,
        "objectsParked": facts.parked,
        "queues": _queues(edge),
        "queuedMessages": facts.queued,
        "deadLetters": facts.dead_letters,
        "storeBytes": edge.store_bytes if edge else 0,
        "grantedTopics": sorted(facts.granted_topics),
        "routes": list(facts.routes),
        "toTable": list(facts.to_table),
        "paused": facts.paused,
        "deletionGuard": guard_status(facts.guard),
        "identity": facts.identity,
        "obeyedFence": facts.obeyed_fence,
        "fence": fence,
        "conditions": [
            condition("Connected", facts.connected, reason, facts.deleted or facts.stale_hub, before, generation, now),
            condition("Synced", not behind, behind or "AllHeld", why, before, generation, now),
            condition("RulesReadable", not facts.unreadable, readable, facts.unreadable, before, generation, now),
            condition("Paused", bool(facts.paused), paused, facts.paused, before, generation, now),
            condition("DeletionGuard", bool(stopped), tripped, stopped, before, generation, now),
        ],
    }


def _behind(facts: NodeFacts) -> tuple[str, str]:
    """Why the node is not in sync: a reason in one word and a message; both empty if it is."""
    if facts.deleted:
        return NODE_DELETED, "its Node was deleted"
    if not facts.connected:
        return "Away", "the node is not connected"
    if facts.parked:
        return "Parked", f"{facts.parked} of {facts.wanted} objects parked after too many refusals"
    if facts.guard is not None and facts.guard.stops:
        return "DeletionGuard", "the deletion guard stops deletions"
    if facts.paused and facts.pending:
        return "Paused", "objects wait until the node is resumed"
    if facts.held < facts.wanted:
        return "ObjectsPending", f"{facts.wanted - facts.held} of {facts.wanted} objects not acknowledged"
    for key, why in facts.kept:
        return "Kept", f"{resource.shown(key)} and perhaps more should go and is kept: {why}"
    return "", ""


def guard_status(guard: DeletionGuard | None) -> dict[str, Any] | None:
    """The guard in the document, from which a restarted hub restores it; None if it has not tripped."""
    if guard is None or guard.tripped is None:
        return None
    tripped = guard.tripped
    return {"id": tripped.id, "count": guard.count, "since": tripped.since, "approved": guard.approved}


def decides_the_same(status: dict[str, Any], observed: dict[str, Any]) -> bool:
    """Whether only times and queue lengths differ: that is no transition and can wait."""
    return decides_the_same_but_times(status, observed) and not (
        "toTable" in observed and to_table.is_step(to_table.rows_in(status), to_table.rows_in(observed))
    )


def decides_the_same_but_times(status: dict[str, Any], observed: dict[str, Any]) -> bool:
    """Like ``decides_the_same``, but the times to a table may differ for priorities that were measured before."""
    if "toTable" in observed and to_table.is_first(to_table.rows_in(status), to_table.rows_in(observed)):
        return False
    keys = ("objectsWanted", "objectsHeld", "deletionGuard")
    same = counts_only(status, observed) and all(status.get(key) == observed.get(key) for key in keys)
    # Definitions older than ``routes`` drop it, so a missing value counts as equal.
    return (
        same
        and status.get("routes") == observed.get("routes", status.get("routes"))
        and _is_synced(status) == _is_synced(observed)
    )


def connection_only(status: dict[str, Any], observed: dict[str, Any]) -> bool:
    """Whether only fields differ that change while a node connects or disconnects, and none that needs a person."""
    defaults: dict[str, Any] = {"objectsParked": 0, "paused": ""}
    granted = observed.get("grantedTopics")
    known = {DEFAULT_TOPIC, *(granted if isinstance(granted, list) else ())}
    return (
        all(status.get(key) == observed.get(key, default) for key, default in defaults.items())
        and known.issuperset(status["grantedTopics"])
        and _guard_of(status) == _guard_of(observed)
        and _held_of(status) == _held_of(observed)
        and ("routes" not in observed or _mistakes_of(status) == _mistakes_of(observed))
        and _of_rules(status) == _of_rules(observed)
        and _needs_person(status) == _needs_person(observed)
    )


def counts_only(status: dict[str, Any], observed: dict[str, Any]) -> bool:
    """Whether only the numbers of wanted and held objects differ, as while a node is being brought up to date."""
    keys = ("connected", "storeEpoch", "agentVersion", "objectsParked", "grantedTopics", "paused")
    same = all(status.get(key) == observed.get(key) for key in keys) and _guard_of(status) == _guard_of(observed)
    same = same and _same_identity(status.get("identity"), observed.get("identity"))
    return same and _of_rules(status) == _of_rules(observed) and _needs_person(status) == _needs_person(observed)


def _needs_person(status: dict[str, Any]) -> Any:
    """Why it has no session, if it does not come back by itself."""
    found = _condition(status, "Connected")
    return found.get("message", "") if found.get("reason") in (STALE_HUB, NODE_DELETED) else ""


def _guard_of(status: dict[str, Any]) -> tuple[Any, Any, Any]:
    guard = status.get("deletionGuard")
    mistaken = deletion_guard.mistaken_in(str(_condition(status, "DeletionGuard").get("message", "")))
    return (guard.get("id"), guard.get("approved"), mistaken) if isinstance(guard, dict) else (None, None, "")


def _same_identity(identity: Any, observed: Any) -> bool:
    """Definitions older than a field drop it, so a missing value counts as equal."""
    if not isinstance(identity, dict) or not isinstance(observed, dict):
        return bool(identity == observed)
    return all(observed.get(key, value) == value for key, value in identity.items())


def _held_of(status: dict[str, Any]) -> Any:
    identity = status.get("identity")
    return (identity.get("held", ""), identity.get("state") == "Revoked") if isinstance(identity, dict) else ("", False)


def _mistakes_of(status: dict[str, Any]) -> dict[Any, Any]:
    """By EdgeRoutes object: errors and warnings of the node."""
    rows = status.get("routes")
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    said = {row.get("name"): (row.get("errors"), row.get("warnings")) for row in found}
    return {name: mistakes for name, mistakes in said.items() if any(mistakes)}


def _is_synced(status: dict[str, Any]) -> Any:
    return _condition(status, "Synced").get("status")


def _of_rules(status: dict[str, Any]) -> Any:
    """The message about unreadable rules; documents of older hubs have none, which counts as empty."""
    return _condition(status, "RulesReadable").get("message", "")


def _condition(status: Mapping[str, Any], type: str) -> dict[str, Any]:
    conditions = status.get("conditions")
    if not isinstance(conditions, list):
        return {}
    return next((each for each in conditions if each.get("type") == type), {})


def _queues(edge: message.EdgeStatus | None) -> list[dict[str, Any]]:
    if edge is None:
        return []
    by_priority: dict[int, dict[str, Any]] = {}
    for queue in edge.queues:
        row = by_priority.setdefault(
            queue.priority, {"priority": queue.priority, "length": 0, "bytes": 0, "oldestAgeSeconds": 0}
        )
        row["length"] += queue.length
        row["bytes"] += queue.bytes
        row["oldestAgeSeconds"] = max(row["oldestAgeSeconds"], int(queue.oldest_age_seconds))
        if queue.stalled_seconds:
            row |= {"stalledSeconds": int(queue.stalled_seconds), "stalledBy": queue.stalled_by}
    return [by_priority[priority] for priority in sorted(by_priority)][:PRIORITIES_MAX]
