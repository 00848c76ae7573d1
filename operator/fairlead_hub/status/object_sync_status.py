"""Turns delivery events into ObjectSync documents for the status cache.

A record is written on ack, park, unpark and delete, and when a connected node lags for longer than ``pending_seconds``;
for an away node, when it is behind (``away_objects``).  Whatever a crash left half done is found when the node's next
comparison is over (``compared``), or by the SyncController's pass.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from msgspec.structs import replace

from fairlead_hub.cluster.content import GroupKind, HeldCopy, LiveObject, ServedKind, identity
from fairlead_hub.cluster.desired_state import DesiredState
from fairlead_hub.delivery.delivery_events import AckedByEdge, Parked, Recovered, RemovedAtEdge, Unparked
from fairlead_hub.delivery.key_state import Cause, Withheld
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.status import object_sync, status_cache
from fairlead_hub.status.object_sync import PAUSED, Record, State
from fairlead_hub.status.status_cache import Notice, NoticeType
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import durations
from fairlead_wire.objects.resource import Resource

COLLECTIONS = ("objectsyncs", "clusterobjectsyncs")
UNKNOWN_PLURAL = "-"


class RecordDocument(status_cache.StatusDocument, frozen=True, kw_only=True):
    """One record for the status cache."""

    record: Record
    at: str
    """When it was decided, RFC 3339."""
    fence: int

    def head(self) -> dict[str, Any]:
        return object_sync.head(self.record)

    def status(self, observed: status_cache.Observed | None) -> dict[str, Any]:
        before = observed.status.get("conditions", []) if observed is not None else []
        generation = observed.generation if observed is not None else 1
        return object_sync.status(self.record, before, generation, self.at, self.fence)

    def is_written_in(self, observed: status_cache.Observed) -> bool:
        there = _parse(self.name, observed, observed.status)
        return there is not None and there.says_the_same(self.record)


class ObjectSyncRecords:
    """Writes only to the status cache.  ``now`` is always seconds of the monotonic clock."""

    def __init__(self, cache: status_cache.StatusCache, kinds: Mapping[str, ServedKind], clock: WallClock) -> None:
        self._cache = cache
        self._kinds = kinds
        """By the type part of a key, to find the kind for a path's plural."""
        self._clock = clock

    def is_placed(self, node: str, path: str, uid: str) -> bool:
        """Whether there is already a record of this object at this node.

        What a node reports to hold is a claim.  Only objects that are wanted there, or once were according to a record,
        get one: otherwise a node could cause records for objects that never existed.
        """
        _, _, namespace, name = identity(path, self._kinds)
        said = self._latest(_name(node, namespace, uid), absurd=True)
        return said is not None and said.object_name == name

    # ---- delivery events -------------------------------------------------------------------------

    def acked(self, session: NodeSession, event: AckedByEdge, live: LiveObject | None, now: float) -> None:
        held = event.held
        wanted = live.version if live is not None and live.uid == held.uid else held.version
        reached = live is not None and live.uid == held.uid and live.digest == held.digest
        record = self._record(session.node, held.path, held.uid, held, wanted, "Synced" if reached else "Pending")
        self.want(_paused(replace(record, last_ack_time=self._clock.text(now)), live), now)

    def removed(self, session: NodeSession, event: RemovedAtEdge) -> None:
        _, _, namespace, _ = identity(event.path, self._kinds)
        self.drop(session.node, namespace, event.uid)

    def parked(self, session: NodeSession, event: Parked, live: LiveObject | None, now: float) -> bool:
        """Returns False if the object is only a claim of the node; nothing is written then."""
        is_wanted = live is not None and live.uid == event.uid
        if not is_wanted and not self.is_placed(session.node, event.path, event.uid):
            return False
        held = session.keys.held.get(event.key)
        wanted = live.version if live is not None and is_wanted else ""
        record = self._record(session.node, event.path, event.uid, held, wanted, "Parked")
        self.want(
            replace(
                record,
                reason=event.code,
                message=event.reason,
                retries=event.retries,
                next_retry_time=self._clock.text(event.next_retry_at),
            ),
            now,
        )
        return True

    def unparked(self, session: NodeSession, event: Unparked, live: LiveObject | None, now: float) -> None:
        held = session.keys.held.get(event.key)
        if live is not None:
            record = self._record(session.node, live.path, live.uid, held, live.version, "Pending")
            self.want(_paused(replace(record, reason=f"Retrying_{event.why}"), live), now)

    def lagging(self, session: NodeSession, key: str, live: LiveObject | None, since: float, now: float) -> None:
        """A connected node has been behind on this key for longer than allowed."""
        held = session.keys.held.get(key)
        path, uid = (
            (live.path, live.uid) if live is not None else (held.path, held.uid) if held is not None else ("", "")
        )
        if not path or (live is None and not self.is_placed(session.node, path, uid)):
            return
        wanted = live.version if live is not None else ""
        record = self._record(session.node, path, uid, held, wanted, "Pending" if live is not None else "Deleting")
        paused = session.keys.paused
        reason, text = (PAUSED, paused) if paused else ("Lagging", f"pending for {durations.span(now - since)}")
        if not paused and live is not None and live.paused:
            reason, text = PAUSED, live.paused
        state = session.keys.state_of(key)
        if isinstance(state, Withheld) and state.cause is Cause.NOT_GRANTED:
            reason, text = "Withheld", state.why
        self.want(replace(record, reason=reason, message=text), now)

    def tripped(self, session: NodeSession, held: HeldCopy, now: float) -> None:
        """The object should be deleted and is kept because of the deletion guard."""
        if not self.is_placed(session.node, held.path, held.uid):
            return
        record = self._record(session.node, held.path, held.uid, held, "", "Deleting")
        text = "too many deletions at once; EdgeNode says how to approve them"
        self.want(replace(record, reason="DeletionGuard", message=text), now)

    def kept(self, session: NodeSession, held: HeldCopy, withheld: Withheld, now: float) -> None:
        """The object should be deleted and must not be yet."""
        if not self.is_placed(session.node, held.path, held.uid):
            return
        record = self._record(session.node, held.path, held.uid, held, "", "Deleting")
        reason = PAUSED if withheld.cause is Cause.DELETION_PAUSED else "Kept"
        self.want(replace(record, reason=reason, message=withheld.why), now)

    def recovered(self, session: NodeSession, event: Recovered, live: LiveObject | None, now: float) -> None:
        """The object was late, and is correct now without having been sent."""
        self.in_sync(session, event.key, live, now)

    def in_sync(self, session: NodeSession, key: str, live: LiveObject | None, now: float) -> None:
        """The node holds what is wanted, unless that has changed since."""
        held = session.keys.held.get(key)
        if live is not None and held is not None and held.content_id == live.content_id:
            record = self._record(session.node, live.path, live.uid, live.held, live.version, "Synced")
            self.want(_paused(record, live), now)

    def compared(self, session: NodeSession, wanted: Mapping[str, LiveObject], now: float) -> None:
        """It is known what a node holds: correct every record that says otherwise."""
        wanted_by_uid = {live.uid: live for live in wanted.values()}
        held_uids: set[str] = set()
        names: set[status_cache.Name] = set()
        for key, held in session.keys.held.items():
            live = wanted.get(key)
            if live is None or live.uid != held.uid:
                if held.uid in wanted_by_uid:
                    continue  # the UID belongs to another object, and so does its record
                live = None
            held_uids.add(held.uid)
            _, _, namespace, _ = identity(held.path, self._kinds)
            names.add(name := _name(session.node, namespace, held.uid))
            if live is None and not self.is_placed(session.node, held.path, held.uid):
                continue
            before = self._latest(name)
            decision = object_sync.record_of_held(before, held, live)
            if decision is not None:
                version, wanted_version, state = decision
                record = self._record(session.node, held.path, held.uid, held, wanted_version, state)
                last_ack = before.last_ack_time if before is not None else ""
                last_ack = last_ack or self._clock.text(now)
                self.want(_paused(replace(record, version=version, last_ack_time=last_ack), live), now)
        for name in self._cache.of_node(session.node):
            if name[0] not in COLLECTIONS or name in names:
                continue
            there = self._latest(name, absurd=True)
            if there is not None and there.uid not in held_uids:
                live = wanted_by_uid.get(there.uid)
                if live is None:
                    self.drop(session.node, there.namespace, there.uid)
                elif there.version or there.state in ("Synced", "Behind"):
                    # The store was wiped or restored from an older copy: the record must not lead.  Or the node was
                    # away until now.
                    self.want(self._record(session.node, live.path, live.uid, None, live.version, "Pending"), now)

    # ---- nodes that are away ---------------------------------------------------------------------

    def objects_of(self, node: str) -> list[tuple[str, str]]:
        """(namespace, UID) of every object with a record for this node."""
        found = []
        for name in self._cache.of_node(node):
            observed = self._cache.observed.get(name)
            if name[0] in COLLECTIONS and observed is not None:
                spec = observed.head.get("spec") or {}
                found.append((name[1], str(spec.get("objectUID", ""))))
        return sorted(found)

    def has_any(self, node: str) -> bool:
        """Whether there is a record of any object for this node."""
        return any(name[0] in COLLECTIONS for name in self._cache.of_node(node))

    def last_record(self, node: str, namespace: str, uid: str) -> Record | None:
        """The record that is written, or about to be; None if there is none, or it is about to be removed."""
        return self._latest(_name(node, namespace, uid))

    def _latest(self, name: status_cache.Name, *, absurd: bool = False) -> Record | None:
        pending = self._cache.pending(name)
        if pending is not None:
            return pending.record if isinstance(pending, RecordDocument) else None
        return self._outlined(name, absurd=absurd)

    def never_held(self, node: str, live: LiveObject) -> Record:
        """The record of an object that the node never acknowledged."""
        return self._record(node, live.path, live.uid, None, live.version, "Pending")

    def want_away(self, about: Record, record: Record | None, since: float) -> None:
        """The record of an away node should say this since then, or (None) be removed."""
        if record is None:
            self.drop(about.node, about.namespace, about.uid)
        else:
            self.want(record, since)

    def deletion_blocked(self, record: Record, desired_state: DesiredState) -> bool:
        """Whether it is uncertain that the node should no longer hold this.

        Discovery may not know a kind that no rule names; then the kind in the record decides, and it is certain.
        """
        return bool(desired_state.record_deletion_blocked(record.node, self._resource(record), record.group_kind))

    def paused(self, record: Record, desired_state: DesiredState) -> str:
        """Why its user paused this object; empty if it is not paused."""
        return desired_state.paused(self._resource(record).key, record.uid)

    def _resource(self, record: Record) -> Resource:
        """The object's resource; if discovery does not know the kind, with a plural that matches nothing."""
        group, kind = record.group_kind
        plurals = (known.plural for known in self._kinds.values() if known.group_kind == (group, kind))
        version, plural = record.api_version.rpartition("/")[2], next(plurals, UNKNOWN_PLURAL)
        namespace, name = record.namespace, record.object_name
        return Resource(group=group, version=version, plural=plural, namespace=namespace, name=name)

    def forget_node(self, node: str) -> int:
        """The Node is gone: remove the records of its objects, including unwritten ones.  Returns how many."""
        names = [name for name in self._cache.of_node(node) if name[0] in COLLECTIONS]
        for name in names:
            # Also those not known to exist: a write may have arrived whose answer was lost.
            self._cache.want(status_cache.Removal(name=name, node=node))
        return len(names)

    # ---- status cache ----------------------------------------------------------------------------

    def want(self, record: Record, now: float) -> None:
        """Queue a record unless it is already written; ``now`` is since when it applies."""
        name = name_of(record)
        there = self._parsed(name)
        if there is not None and not record.last_ack_time:
            record = replace(record, last_ack_time=there.last_ack_time)
        pending = self._cache.pending(name)
        if isinstance(pending, RecordDocument) and pending.record.says_the_same(record):
            return  # being written, or about to be
        if there is not None and there.says_the_same(record) and not isinstance(pending, status_cache.Removal):
            self._cache.cancel(name)
            if self._cache.pending(name) is None:
                return
        document = RecordDocument(
            name=name, node=record.node, record=record, at=self._clock.text(now), fence=self._cache.fence
        )
        self._cache.want(document, behind_since=now)

    def drop(self, node: str, namespace: str, uid: str) -> None:
        name = _name(node, namespace, uid)
        if name in self._cache.observed or self._cache.pending(name) is not None:
            self._cache.want(status_cache.Removal(name=name, node=node))

    @property
    def listed(self) -> bool:
        """Whether it is known which records exist in the API."""
        return all(name in self._cache.synced for name in COLLECTIONS)

    def paused_kinds(self, collection: str, known: Container[GroupKind]) -> dict[GroupKind, str]:
        """Kinds of objects that documents report as paused, except the ``known`` ones → an apiVersion of each."""
        found: dict[GroupKind, str] = {}
        for name, observed in self._cache.observed.items():
            if name[0] == collection and observed.outline.get("reason") == PAUSED:
                record = _parse(name, observed, observed.outline)
                if record is not None and (kind := record.group_kind) not in known:
                    found[kind] = record.api_version
        return found

    def nodes(self) -> list[str]:
        """Nodes with any document."""
        return self._cache.nodes()

    def remove(self, name: status_cache.Name, node: str) -> None:
        """Remove a document that does not correspond to anything."""
        self._cache.want(status_cache.Removal(name=name, node=node))

    def notice(self, node: str, event: Parked | Unparked, type: NoticeType, reason: str, message: str) -> Notice:
        """A notice about a delivery, on its record."""
        _, _, namespace, _ = identity(event.path, self._kinds)
        collection, _, name = _name(node, namespace, event.uid)
        kind = "ObjectSync" if collection == COLLECTIONS[0] else "ClusterObjectSync"
        return Notice(kind=kind, namespace=namespace, name=name, type=type, reason=reason, message=message)

    def _parsed(self, name: status_cache.Name) -> Record | None:
        """The record in the API.  With an impossible fencing number it counts as missing and is overwritten."""
        observed = self._cache.observed.get(name)
        if observed is None or observed.is_absurd(self._cache.fence):
            return None
        return _parse(name, observed, observed.status)

    def _outlined(self, name: status_cache.Name, *, absurd: bool = False) -> Record | None:
        """Like ``_parsed``, without the message: thousands are read when all nodes return."""
        observed = self._cache.observed.get(name)
        if observed is None or (not absurd and observed.is_absurd(self._cache.fence)):
            return None
        return _parse(name, observed, observed.outline)

    def _record(self, node: str, path: str, uid: str, held: HeldCopy | None, wanted: str, state: State) -> Record:
        api_version, kind, namespace, name = identity(path, self._kinds)
        same = held is not None and held.uid == uid
        return Record(
            node=node,
            api_version=api_version,
            kind=kind,
            namespace=namespace,
            object_name=name,
            uid=uid,
            # Synced is decided by content: then both are the version of the wanted content and never differ.
            version=wanted if state == "Synced" else held.version if held is not None and same else "",
            digest=held.digest if held is not None and same else "",
            wanted_version=wanted,
            state=state,
        )


def _parse(name: status_cache.Name, observed: status_cache.Observed, status: status_cache.Status) -> Record | None:
    body = {"metadata": {"namespace": name[1]}, "spec": observed.head.get("spec"), "status": status}
    return object_sync.parse(body)


def _paused(record: Record, live: LiveObject | None) -> Record:
    """The record, with its object marked as paused if it is."""
    if live is None or not live.paused or record.state not in ("Synced", "Pending"):
        return record
    return replace(record, reason=PAUSED, message=live.paused)


def name_of(record: Record) -> status_cache.Name:
    return _name(record.node, record.namespace, record.uid)


def _name(node: str, namespace: str, uid: str) -> status_cache.Name:
    return (COLLECTIONS[0] if namespace else COLLECTIONS[1], namespace, object_sync.name_of(node, uid))
