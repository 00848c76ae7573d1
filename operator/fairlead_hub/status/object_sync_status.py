"""What became of deliveries, turned into ObjectSync documents for the status cache.

A record is written on ack, park, unpark and delete, and when a connected node lags longer than ``pending_seconds``;
records of a node that is away stay untouched (contract section 3).  Whatever a crash left half done is found again
when the node's next comparison is over (``compared``) or by the SyncController's pass.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from fairlead_hub.cluster.content import Held, Kind, LiveObject
from fairlead_hub.delivery.delivery_events import Acked, Parked, Recovered, Removed, Unparked
from fairlead_hub.delivery.key_state import Cause, Withheld
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.events import kube_events
from fairlead_hub.status import object_sync, object_sync_diff, status_cache
from fairlead_hub.status.object_sync import Record, State

COLLECTIONS = ("objectsyncs", "clusterobjectsyncs")


class RecordDocument(status_cache.Document, frozen=True, kw_only=True):
    """One record for the status cache."""

    record: Record
    object_syncs: ObjectSyncStatus

    def head(self) -> dict[str, Any]:
        return object_sync.head(self.record)

    def status(self, observed: status_cache.Observed | None) -> dict[str, Any]:
        before = observed.status.get("conditions", []) if observed is not None else []
        generation = observed.generation if observed is not None else 1
        return object_sync.status(self.record, before, generation, self.object_syncs.text(), self.object_syncs.fence)

    def is_told_by(self, observed: status_cache.Observed) -> bool:
        there = _parse(self.name, observed, observed.status)
        return there is not None and there.says_the_same(self.record)


class ObjectSyncStatus:
    """Writes into the status cache only; ``wall_offset`` turns the monotonic clock into times people read."""

    def __init__(self, cache: status_cache.StatusCache, *, fence: int) -> None:
        self.cache = cache
        self.fence = fence
        self._now = 0.0
        self.wall_offset = 0.0
        self._second, self._text = -1, ""
        self.kinds: dict[str, Kind] = {}
        """By the type part of a key: what a path's plural is called."""

    @property
    def now(self) -> float:
        """The latest time anybody told, seconds of the monotonic clock."""
        return self._now

    @now.setter
    def now(self, value: float) -> None:
        self._now = self.cache.now = value

    # ---- outcomes --------------------------------------------------------------------------------

    def acked(self, session: NodeSession, outcome: Acked, live: LiveObject | None) -> None:
        held = outcome.held
        wanted = live.version if live is not None and live.uid == held.uid else held.version
        reached = live is not None and live.uid == held.uid and live.digest == held.digest
        record = self._record(session.node, held.path, held.uid, held, wanted, "Synced" if reached else "Pending")
        self.want(replace(record, last_ack_time=self.text()))

    def removed(self, session: NodeSession, outcome: Removed) -> None:
        _, _, namespace, _ = object_sync.identity(outcome.path, self.kinds)
        self.drop(session.node, namespace, outcome.uid)

    def parked(self, session: NodeSession, outcome: Parked, live: LiveObject | None) -> None:
        held = session.held.get(outcome.key)
        wanted = live.version if live is not None and live.uid == outcome.uid else ""
        record = self._record(session.node, outcome.path, outcome.uid, held, wanted, "Parked")
        self.want(
            replace(
                record,
                reason=outcome.code,
                message=outcome.reason,
                retries=outcome.retries,
                next_retry_time=self.text(outcome.next_retry_at),
            )
        )

    def unparked(self, session: NodeSession, outcome: Unparked, live: LiveObject | None) -> None:
        held = session.held.get(outcome.key)
        if live is not None:
            record = self._record(session.node, live.path, live.uid, held, live.version, "Pending")
            self.want(replace(record, reason=f"Retrying_{outcome.why}"))

    def lagging(self, session: NodeSession, key: str, live: LiveObject | None, seconds: float) -> None:
        """A connected node is behind on this key for longer than it should be."""
        held = session.held.get(key)
        path, uid = (
            (live.path, live.uid) if live is not None else (held.path, held.uid) if held is not None else ("", "")
        )
        if not path:
            return
        wanted = live.version if live is not None else ""
        record = self._record(session.node, path, uid, held, wanted, "Pending" if live is not None else "Deleting")
        reason, text = ("Paused", session.paused) if session.paused else ("Lagging", f"pending for {seconds:.0f} s")
        state = session.state_of(key)
        if isinstance(state, Withheld) and state.cause is Cause.NOT_GRANTED:
            reason, text = "Withheld", state.why
        self.want(replace(record, reason=reason, message=text))

    def tripped(self, session: NodeSession, held: Held) -> None:
        """It should go, and is kept."""
        record = self._record(session.node, held.path, held.uid, held, "", "Deleting")
        self.want(
            replace(
                record, reason="DeletionGuard", message="too many deletions at once; EdgeNode says how to approve them"
            )
        )

    def kept(self, session: NodeSession, held: Held, why: str) -> None:
        """It should go, and may not yet."""
        record = self._record(session.node, held.path, held.uid, held, "", "Deleting")
        self.want(replace(record, reason="Kept", message=why))

    def recovered(self, session: NodeSession, outcome: Recovered, live: LiveObject | None) -> None:
        """It was late, and is as it should be without having been sent."""
        held = session.held.get(outcome.key)
        if live is not None and held is not None and held.content_id == live.content_id:
            self.want(self._record(session.node, live.path, live.uid, live.held, live.version, "Synced"))

    def compared(self, session: NodeSession, wanted: Mapping[str, LiveObject]) -> None:
        """The truth of one node is known: set right every record of it that says otherwise."""
        held_by_uid = {held.uid: held for held in session.held.values()}
        wanted_by_uid = {live.uid: live for live in wanted.values()}
        names: set[status_cache.Name] = set()
        for held in held_by_uid.values():
            live = wanted_by_uid.get(held.uid)
            _, _, namespace, _ = object_sync.identity(held.path, self.kinds)
            names.add(name := _name(session.node, namespace, held.uid))
            before = self._outlined(name)
            decision = object_sync_diff.record_of_held(before, held, live)
            if decision is not None:
                version, wanted_version, state = decision
                record = self._record(session.node, held.path, held.uid, held, wanted_version, state)
                last_ack = before.last_ack_time if before is not None else ""
                self.want(replace(record, version=version, last_ack_time=last_ack or self.text()))
        for name in self.cache.of_node(session.node):
            if name[0] not in COLLECTIONS or name in names:
                continue
            there = self._outlined(name, absurd=True)
            if there is not None and there.uid not in held_by_uid:
                live = wanted_by_uid.get(there.uid)
                if live is None:
                    self.drop(session.node, there.namespace, there.uid)
                elif there.version or there.state == "Synced":
                    # The store was wiped or is an older copy: the record must not lead.
                    self.want(self._record(session.node, live.path, live.uid, None, live.version, "Pending"))

    def forget_node(self, node: str) -> int:
        """The Node is gone: so are its records.  Returns how many."""
        names = [name for name in self.cache.of_node(node) if name[0] in COLLECTIONS]
        for name in names:
            self.cache.want(status_cache.Removal(name=name, node=node))
        return len(names)

    # ---- book ------------------------------------------------------------------------------------

    def want(self, record: Record) -> None:
        """Unless it is what stands there already."""
        name = name_of(record)
        there = self._parsed(name)
        if there is not None and not record.last_ack_time:
            record = replace(record, last_ack_time=there.last_ack_time)
        pending = self.cache.pending(name)
        if isinstance(pending, RecordDocument) and pending.record.says_the_same(record):
            return  # being written, or about to be
        if there is not None and there.says_the_same(record) and not isinstance(pending, status_cache.Removal):
            self.cache.settled(name)
            if self.cache.pending(name) is None:
                return
        self.cache.behind_since.setdefault(name, self.now)
        self.cache.want(RecordDocument(name=name, node=record.node, record=record, object_syncs=self))

    def drop(self, node: str, namespace: str, uid: str) -> None:
        name = _name(node, namespace, uid)
        if name in self.cache.observed or self.cache.pending(name) is not None:
            self.cache.want(status_cache.Removal(name=name, node=node))

    def regarding(self, node: str, path: str, uid: str) -> kube_events.Regarding:
        """The record an event is about."""
        _, _, namespace, _ = object_sync.identity(path, self.kinds)
        collection, _, name = _name(node, namespace, uid)
        kind = "ObjectSync" if collection == COLLECTIONS[0] else "ClusterObjectSync"
        return kube_events.Regarding(kind=kind, namespace=namespace, name=name)

    def _parsed(self, name: status_cache.Name) -> Record | None:
        """What stands there.  Under a fence that cannot be it counts as nothing, and is written over."""
        observed = self.cache.observed.get(name)
        return None if observed is None or observed.is_absurd(self.fence) else _parse(name, observed, observed.status)

    def _outlined(self, name: status_cache.Name, *, absurd: bool = False) -> Record | None:
        """The same without its message: thousands are looked at when all nodes return."""
        observed = self.cache.observed.get(name)
        if observed is None or (not absurd and observed.is_absurd(self.fence)):
            return None
        return _parse(name, observed, observed.outline)

    def _record(self, node: str, path: str, uid: str, held: Held | None, wanted: str, state: State) -> Record:
        api_version, kind, namespace, name = object_sync.identity(path, self.kinds)
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

    def text(self, now: float | None = None) -> str:
        """RFC 3339 of a monotonic time; None: of now."""
        second = int((self.now if now is None else now) + self.wall_offset)
        if second != self._second:
            stamp = datetime.datetime.fromtimestamp(second, datetime.UTC)
            self._second, self._text = second, stamp.isoformat().replace("+00:00", "Z")
        return self._text


def _parse(name: status_cache.Name, observed: status_cache.Observed, status: status_cache.Status) -> Record | None:
    body = {"metadata": {"namespace": name[1]}, "spec": observed.head.get("spec"), "status": status}
    return object_sync.parse(body)


def name_of(record: Record) -> status_cache.Name:
    return _name(record.node, record.namespace, record.uid)


def _name(node: str, namespace: str, uid: str) -> status_cache.Name:
    return (COLLECTIONS[0] if namespace else COLLECTIONS[1], namespace, object_sync.name_of(node, uid))
