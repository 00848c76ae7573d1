"""What became of deliveries, turned into ObjectSync documents for the status cache.

A record is written on ack, park, unpark and delete, and when a connected node lags longer than ``pending_seconds``;
records of a node that is away stay untouched (contract section 3).  Whatever a crash left half done is found again
when the node's next comparison is over (``compared``) or by the SyncController's pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from fairlead_hub.cluster.content import Held, Kind, LiveObject, identity
from fairlead_hub.delivery.delivery_events import Acked, Parked, Recovered, Removed, Unparked
from fairlead_hub.delivery.key_state import Cause, Withheld
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.status import object_sync, object_sync_diff, status_cache
from fairlead_hub.status.notice import Notice, Type
from fairlead_hub.status.object_sync import Record, State
from fairlead_hub.wall_clock import WallClock

COLLECTIONS = ("objectsyncs", "clusterobjectsyncs")


class RecordDocument(status_cache.Document, frozen=True, kw_only=True):
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

    def is_told_by(self, observed: status_cache.Observed) -> bool:
        there = _parse(self.name, observed, observed.status)
        return there is not None and there.says_the_same(self.record)


class ObjectSyncStatus:
    """Writes into the status cache only.  ``now`` is always seconds of the monotonic clock."""

    def __init__(self, cache: status_cache.StatusCache, kinds: Mapping[str, Kind], clock: WallClock) -> None:
        self._cache = cache
        self._kinds = kinds
        """By the type part of a key: what a path's plural is called."""
        self._clock = clock

    # ---- delivery events -------------------------------------------------------------------------

    def acked(self, session: NodeSession, event: Acked, live: LiveObject | None, now: float) -> None:
        held = event.held
        wanted = live.version if live is not None and live.uid == held.uid else held.version
        reached = live is not None and live.uid == held.uid and live.digest == held.digest
        record = self._record(session.node, held.path, held.uid, held, wanted, "Synced" if reached else "Pending")
        self.want(replace(record, last_ack_time=self._clock.text(now)), now)

    def removed(self, session: NodeSession, event: Removed) -> None:
        _, _, namespace, _ = identity(event.path, self._kinds)
        self.drop(session.node, namespace, event.uid)

    def parked(self, session: NodeSession, event: Parked, live: LiveObject | None, now: float) -> None:
        held = session.held.get(event.key)
        wanted = live.version if live is not None and live.uid == event.uid else ""
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

    def unparked(self, session: NodeSession, event: Unparked, live: LiveObject | None, now: float) -> None:
        held = session.held.get(event.key)
        if live is not None:
            record = self._record(session.node, live.path, live.uid, held, live.version, "Pending")
            self.want(replace(record, reason=f"Retrying_{event.why}"), now)

    def lagging(self, session: NodeSession, key: str, live: LiveObject | None, since: float, now: float) -> None:
        """A connected node is behind on this key for longer than it should be."""
        held = session.held.get(key)
        path, uid = (
            (live.path, live.uid) if live is not None else (held.path, held.uid) if held is not None else ("", "")
        )
        if not path:
            return
        wanted = live.version if live is not None else ""
        record = self._record(session.node, path, uid, held, wanted, "Pending" if live is not None else "Deleting")
        reason, text = ("Paused", session.paused) if session.paused else ("Lagging", f"pending for {now - since:.0f} s")
        state = session.state_of(key)
        if isinstance(state, Withheld) and state.cause is Cause.NOT_GRANTED:
            reason, text = "Withheld", state.why
        self.want(replace(record, reason=reason, message=text), now)

    def tripped(self, session: NodeSession, held: Held, now: float) -> None:
        """It should go, and is kept."""
        record = self._record(session.node, held.path, held.uid, held, "", "Deleting")
        text = "too many deletions at once; EdgeNode says how to approve them"
        self.want(replace(record, reason="DeletionGuard", message=text), now)

    def kept(self, session: NodeSession, held: Held, why: str, now: float) -> None:
        """It should go, and may not yet."""
        record = self._record(session.node, held.path, held.uid, held, "", "Deleting")
        self.want(replace(record, reason="Kept", message=why), now)

    def recovered(self, session: NodeSession, event: Recovered, live: LiveObject | None, now: float) -> None:
        """It was late, and is as it should be without having been sent."""
        held = session.held.get(event.key)
        if live is not None and held is not None and held.content_id == live.content_id:
            self.want(self._record(session.node, live.path, live.uid, live.held, live.version, "Synced"), now)

    def compared(self, session: NodeSession, wanted: Mapping[str, LiveObject], now: float) -> None:
        """The truth of one node is known: set right every record of it that says otherwise."""
        held_by_uid = {held.uid: held for held in session.held.values()}
        wanted_by_uid = {live.uid: live for live in wanted.values()}
        names: set[status_cache.Name] = set()
        for held in held_by_uid.values():
            live = wanted_by_uid.get(held.uid)
            _, _, namespace, _ = identity(held.path, self._kinds)
            names.add(name := _name(session.node, namespace, held.uid))
            before = self._outlined(name)
            decision = object_sync_diff.record_of_held(before, held, live)
            if decision is not None:
                version, wanted_version, state = decision
                record = self._record(session.node, held.path, held.uid, held, wanted_version, state)
                last_ack = before.last_ack_time if before is not None else ""
                last_ack = last_ack or self._clock.text(now)
                self.want(replace(record, version=version, last_ack_time=last_ack), now)
        for name in self._cache.of_node(session.node):
            if name[0] not in COLLECTIONS or name in names:
                continue
            there = self._outlined(name, absurd=True)
            if there is not None and there.uid not in held_by_uid:
                live = wanted_by_uid.get(there.uid)
                if live is None:
                    self.drop(session.node, there.namespace, there.uid)
                elif there.version or there.state == "Synced":
                    # The store was wiped or is an older copy: the record must not lead.
                    self.want(self._record(session.node, live.path, live.uid, None, live.version, "Pending"), now)

    def forget_node(self, node: str) -> int:
        """The Node is gone: so is the status of its objects, also what was not written yet.  Returns how many."""
        names = [name for name in self._cache.of_node(node) if name[0] in COLLECTIONS]
        for name in names:
            if self._cache.is_known(name):
                self._cache.want(status_cache.Removal(name=name, node=node))
            else:
                self._cache.cancel(name)
        return len(names)

    # ---- status cache ----------------------------------------------------------------------------

    def want(self, record: Record, now: float) -> None:
        """Unless it is what stands there already."""
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
        """Is it known what stands in the API?"""
        return all(name in self._cache.synced for name in COLLECTIONS)

    def nodes(self) -> list[str]:
        """Nodes with any document."""
        return self._cache.nodes()

    def remove(self, name: status_cache.Name, node: str) -> None:
        """A document nothing stands for."""
        self._cache.want(status_cache.Removal(name=name, node=node))

    def notice(self, node: str, event: Parked | Unparked, type: Type, reason: str, message: str) -> Notice:
        """What happened to a delivery, about its record."""
        _, _, namespace, _ = identity(event.path, self._kinds)
        collection, _, name = _name(node, namespace, event.uid)
        kind = "ObjectSync" if collection == COLLECTIONS[0] else "ClusterObjectSync"
        return Notice(kind=kind, namespace=namespace, name=name, type=type, reason=reason, message=message)

    def _parsed(self, name: status_cache.Name) -> Record | None:
        """What stands there.  Under a fence that cannot be it counts as nothing, and is written over."""
        observed = self._cache.observed.get(name)
        if observed is None or observed.is_absurd(self._cache.fence):
            return None
        return _parse(name, observed, observed.status)

    def _outlined(self, name: status_cache.Name, *, absurd: bool = False) -> Record | None:
        """The same without its message: thousands are looked at when all nodes return."""
        observed = self._cache.observed.get(name)
        if observed is None or (not absurd and observed.is_absurd(self._cache.fence)):
            return None
        return _parse(name, observed, observed.outline)

    def _record(self, node: str, path: str, uid: str, held: Held | None, wanted: str, state: State) -> Record:
        api_version, kind, namespace, name = identity(path, self._kinds)
        same = held is not None and held.uid == uid
        return Record(
            node=node,
            api_version=api_version,
            kind=kind,
            namespace=namespace,
            object_name=name,
            uid=uid,
            version=held.version if held is not None and same else "",
            digest=held.digest if held is not None and same else "",
            wanted_version=wanted,
            state=state,
        )


def _parse(name: status_cache.Name, observed: status_cache.Observed, status: status_cache.Status) -> Record | None:
    body = {"metadata": {"namespace": name[1]}, "spec": observed.head.get("spec"), "status": status}
    return object_sync.parse(body)


def name_of(record: Record) -> status_cache.Name:
    return _name(record.node, record.namespace, record.uid)


def _name(node: str, namespace: str, uid: str) -> status_cache.Name:
    return (COLLECTIONS[0] if namespace else COLLECTIONS[1], namespace, object_sync.name_of(node, uid))
