"""Which nodes that are away are behind: ObjectSync state ``Behind``, including after a restart of the hub.

    an object changed                          ─▶ key  ┐         what the ObjectSync says the node holds
    a node left, rules or labels changed       ─▶ node ├─sweep─▶ against what it should hold ─▶ ObjectSync
    documents listed, every reconcile interval ─▶ all  ┘         only where it should say something else now

A node that is not affected costs no write, and a delivery costs nothing: a change only marks its key, regardless of the
number of nodes, and ``sweep`` does the rest in portions: at most ``COMPARISONS_MAX`` comparisons and
``away_writes_per_second`` writes per second.  An object that changes constantly is compared every ``AGAIN_SECONDS``,
and an ObjectSync that already says Behind is rewritten for a newer version only in the slow pass
(docs/decisions/0402-status-writing.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from fairlead_hub.cluster.desired_state import DesiredState
from fairlead_hub.cluster.object_cache import ObjectChange
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.status import object_sync
from fairlead_hub.status.node_status import NodeStatus
from fairlead_hub.status.object_sync import Record
from fairlead_hub.status.object_sync_status import ObjectSyncRecords
from fairlead_hub.token_bucket import TokenBucket

COMPARISONS_MAX: Final = 1000
"""Comparisons per sweep: about 20 ms of one core."""
AGAIN_SECONDS: Final = 10.0
"""Minimum interval between comparisons of an object at all away nodes, if the last one wrote something or was
expensive."""
CHEAP_NODES: Final = 100
AWAY_SECONDS: Final = 3.0
"""Grace period: broken links are usually back within this time."""
KEYS_MAX: Final = 100
"""If more objects than this have changed, each away node is compared once instead."""
CREATION_WRITES: Final = 2.0
"""Requests per ObjectSync: a missing one is created, then its status is written."""


class _Changed(msgspec.Struct):
    """One changed object; times are seconds of the monotonic clock."""

    since: float
    namespace: str
    uids: set[str]
    """Its UID, and those of deleted objects with the same name."""


class _Comparison(msgspec.Struct, frozen=True):
    """One object, or several with the same key, at one node."""

    node: str
    key: str
    """Empty if nothing is wanted under this UID."""
    namespace: str
    uids: tuple[str, ...]
    since: float | None = None
    """When it changed; None if no hub saw the change."""
    refresh: bool = False


class _Comparisons:
    """Queued comparisons: those of one object or node until they are done, then of the next."""

    def __init__(self, take: Callable[[float], Iterator[_Comparison] | None]) -> None:
        self._take = take
        self._current: Iterator[_Comparison] = iter(())

    def next(self, now: float) -> _Comparison | None:
        """Returns None if there is none now."""
        while (comparison := next(self._current, None)) is None:
            found = self._take(now)
            if found is None:
                return None
            self._current = found
        return comparison


class AwayObjects:
    """See the module docstring.  ``sessions`` are the open ones; ``now`` is always seconds of one monotonic clock."""

    def __init__(
        self,
        sessions: Mapping[str, NodeSession],
        *,
        desired_state: DesiredState,
        object_syncs: ObjectSyncRecords,
        node_status: NodeStatus,
        writes_per_second: float,
    ) -> None:
        self._sessions = sessions
        self._desired_state = desired_state
        self._object_syncs = object_syncs
        self._node_status = node_status
        self._is_on = writes_per_second > 0
        self._writes = TokenBucket(writes_per_second, max(1.0, writes_per_second))
        self._keys: dict[str, _Changed] = {}
        self._again: dict[str, float] = {}
        """Keys compared recently → when they may be compared again."""
        self._nodes: dict[str, bool] = {}
        """Nodes to compare → whether to write ObjectSyncs also if only the wanted version is newer."""
        self._left: dict[str, float] = {}
        """Nodes whose session with this process ended → when."""
        self._of_nodes = _Comparisons(self._next_node)
        self._of_objects = _Comparisons(self._next_object)
        self._grace_was_over = False

    @property
    def waiting(self) -> int:
        """Number of objects and nodes waiting to be compared."""
        return len(self._keys) + len(self._nodes)

    # ---- what happened ---------------------------------------------------------------------------

    def changed(self, change: ObjectChange, now: float) -> None:
        """An object was added, changed or deleted."""
        if not self._is_on or len(self._sessions) >= len(self._desired_state.nodes):
            return
        known = self._keys.get(change.key)
        if known is None:
            if len(self._keys) >= KEYS_MAX:
                self._keys.clear()
                self.compare(None)
                return
            namespace = next(live.resource.namespace for live in (change.after, change.before) if live is not None)
            known = self._keys[change.key] = _Changed(now, namespace, set())
        known.uids.update(live.uid for live in (change.before, change.after) if live is not None)

    def opened(self, node: str) -> None:
        """The node has a session: it reports itself what it holds."""
        self._left.pop(node, None)
        self._nodes.pop(node, None)

    def ended(self, node: str, now: float) -> None:
        """Its session is over."""
        self._left[node] = now
        self.compare((node,))

    def forget(self, node: str) -> None:
        """The Node no longer exists."""
        self.opened(node)

    def compare(self, nodes: Iterable[str] | None, *, refresh: bool = False) -> None:
        """What these nodes should hold may have changed; None: every node that is away.

        ``refresh``: newer wanted versions are recorded, too.
        """
        if not self._is_on or (nodes is not None and not nodes):
            return
        known = self._desired_state.nodes
        for node in known if nodes is None else sorted(nodes):
            if node in known and node not in self._sessions:
                self._nodes[node] = refresh or self._nodes.get(node, False)

    # ---- every second ----------------------------------------------------------------------------

    def sweep(self, now: float) -> None:
        """Compare some of what is waiting, and queue the ObjectSyncs that should say something else."""
        if not self._is_on or not self._object_syncs.listed or not self._node_status.is_reporting:
            return
        if self._node_status.is_grace_over and not self._grace_was_over:
            self._grace_was_over = True
            self.compare(None)
        self._again = {key: at for key, at in self._again.items() if now < at}
        # Half for nodes, then half for objects, so that neither starves; either may use what the other leaves.
        half = COMPARISONS_MAX // 2
        left = self._some(self._of_nodes, half, now)
        left = self._some(self._of_objects, half + left, now)
        self._some(self._of_nodes, left, now)

    def _some(self, comparisons: _Comparisons, most: int, now: float) -> int:
        """Make up to this many comparisons; returns how many of them were not needed."""
        for made in range(most):
            if not self._writes.has_one(now):
                return 0
            comparison = comparisons.next(now)
            if comparison is None:
                return most - made
            if self._is_away(comparison.node, now):
                self._compare(comparison, now)
        return 0

    def _next_object(self, now: float) -> Iterator[_Comparison] | None:
        for key in self._keys:
            if key not in self._again:
                # A node without any document has nothing to compare, and thousands may never have connected.
                away = self._desired_state.nodes.keys() - self._sessions.keys()
                nodes = sorted(away.intersection(self._object_syncs.nodes()))
                if len(nodes) > CHEAP_NODES:
                    self._again[key] = now + AGAIN_SECONDS
                return self._of_key(key, self._keys.pop(key), nodes)
        return None

    def _next_node(self, now: float) -> Iterator[_Comparison] | None:
        for node in self._nodes:
            if now - self._left.get(node, float("-inf")) >= AWAY_SECONDS:
                refresh = self._nodes.pop(node)
                # A node that is not reported as away yet is compared after the grace period.
                return self._of_node(node, refresh=refresh) if self._is_away(node, now) else iter(())
        return None

    def _is_away(self, node: str, now: float) -> bool:
        """Not for a link that breaks for a moment, or a node that is about to return to a hub that has just started."""
        if node in self._sessions or node not in self._desired_state.nodes:
            return False
        left = self._left.get(node)
        if left is not None:
            return now - left >= AWAY_SECONDS
        return self._grace_was_over or self._node_status.reported_away(node)

    def _of_key(self, key: str, changed: _Changed, nodes: list[str]) -> Iterator[_Comparison]:
        uids = tuple(sorted(changed.uids))
        return (_Comparison(node, key, changed.namespace, uids, changed.since) for node in nodes)

    def _of_node(self, node: str, *, refresh: bool) -> Iterator[_Comparison]:
        """Objects with an ObjectSync, then other wanted objects."""
        keys = {live.uid: key for key, live in self._desired_state.desired_objects(node).items()}
        for namespace, uid in self._object_syncs.objects_of(node):
            yield _Comparison(node, keys.pop(uid, ""), namespace, (uid,), refresh=refresh)
        for uid, key in keys.items():
            yield _Comparison(node, key, key.split("/", 2)[1], (uid,), refresh=refresh)

    def _compare(self, at: _Comparison, now: float) -> None:
        if self._desired_state.not_synced(at.node):
            return  # all nodes are compared once everything is listed
        live = self._desired_state.live(at.node, at.key) if at.key else None
        for uid in at.uids:
            wanted = live if live is not None and live.uid == uid else None
            before = self._object_syncs.last_record(at.node, at.namespace, uid)
            writes = 1.0
            if before is not None:
                record = object_sync.record_of_away(before, wanted, refresh=at.refresh)
                if record is not None and record.state == "Deleting":
                    record = self._kept(before) or record
                if record == before:
                    continue
            elif wanted is not None and self._was_ever_here(at.node):
                before = self._object_syncs.never_held(at.node, wanted)
                record, writes = object_sync.behind(before, wanted), CREATION_WRITES
            else:
                # Nothing is known of a node that never connected, and thousands may be created before they are
                # installed.
                continue
            self._writes.take(now, writes)
            self._object_syncs.want_away(before, record, at.since if at.since is not None else now)
            if at.since is not None:
                self._again[at.key] = now + AGAIN_SECONDS

    def _was_ever_here(self, node: str) -> bool:
        """A node that disconnected soon after connecting may have no EdgeNode, but has ObjectSyncs."""
        return self._node_status.was_ever_connected(node) or self._object_syncs.has_any(node)

    def _kept(self, before: Record) -> Record | None:
        """No longer wanted, but its deletion is not certain or not allowed: it stays as it is held."""
        paused = self._object_syncs.paused(before, self._desired_state)
        if not paused and not self._object_syncs.deletion_blocked(before, self._desired_state):
            return None
        return object_sync.kept(before, paused)
