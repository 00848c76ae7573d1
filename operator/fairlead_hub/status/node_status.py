"""The accounts of all nodes: who is connected, holds what, queues what; told through EdgeNode documents.

    a session opens, ends, converges; an edge says how it is ─changed─▶ report ─▶ EdgeNodeDocument ─▶ Book

Written on transitions, once for what happens within seconds (``settling``), and every few minutes otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fairlead_hub.cluster import deletion_blocked
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.delivery.delivery_events import Parked
from fairlead_hub.delivery.identities import Identities
from fairlead_hub.delivery.pause import NodeControls
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.events import kube_events
from fairlead_hub.events.cloud_events import CloudEvents
from fairlead_hub.status import debounce, edge_node, status_cache
from fairlead_hub.status.debounce import Debounce
from fairlead_hub.status.edge_routes_controller import EdgeRoutesController
from fairlead_hub.status.object_sync_status import ObjectSyncStatus
from fairlead_hub.status.returning_nodes import ReturningNodes, Summary
from fairlead_hub.upstream.grants import EDGE_NODES as EDGE_NODES
from fairlead_hub.upstream.grants import Grants
from fairlead_wire import message

RETURN_SECONDS = 30.0
"""How long after a start nodes that were connected are given to return before they are called away."""
REPORT_SECONDS = 180.0
"""EdgeNode is written at most this often for queue lengths and contact times alone."""


class NodeStatus:
    """See the module.  ``hub`` is this hub's name; ``sessions`` are the open ones, kept by the hub."""

    def __init__(
        self,
        hub: str,
        sessions: Mapping[str, NodeSession],
        *,
        placement: Placement,
        object_syncs: ObjectSyncStatus,
        grants: Grants,
        node_controls: NodeControls,
        identities: Identities,
        events: kube_events.KubeEvents,
        cloud_events: CloudEvents,
        edge_routes: EdgeRoutesController,
    ) -> None:
        self._hub = hub
        self._sessions = sessions
        self._placement = placement
        self._object_syncs = object_syncs
        self._cache = object_syncs.cache
        self._grants = grants
        self._node_controls = node_controls
        self._identities = identities
        self._events = events
        self._cloud_events = cloud_events
        self._edge_routes = edge_routes
        self.node_uids: dict[str, str] = {}
        self.edges: dict[str, message.EdgeStatus] = {}
        """What connected edges said of themselves last."""
        self._reported: dict[str, float] = {}
        self._unreported: set[str] = set()
        self._settling = Debounce()
        self.returning = ReturningNodes()
        self._met: set[str] = set()
        """Nodes that had a session with this process."""
        self._first_report: float | None = None
        self._returned = False
        """Whoever wanted to come back after our start has had the time."""

    # ---- what happened ---------------------------------------------------------------------------

    def changed(self, node: str) -> None:
        """Something about it may be worth telling."""
        self._unreported.add(node)
        self._edge_routes.node_changed(node)

    def opened(self, node: str) -> None:
        self._met.add(node)
        self.returning.back(node)
        self.changed(node)

    def replaced(self, node: str, silent_seconds: float, now: float) -> None:
        """A newer connection took over from one that was silent for so long: again and again, it is two machines."""
        text = f"a newer connection took over, {silent_seconds:.0f} s after the older one spoke"
        self.happened(node, "Normal", "Replaced", text, now)

    def ended(self, node: str) -> None:
        self.edges.pop(node, None)
        self._edge_routes.ended(node)
        self._unreported.add(node)

    def identity_held(self, node: str, why: str, now: float) -> None:
        """It came with a certificate of an earlier life of its Node, and was refused."""
        self._met.add(node)
        self.happened(node, "Warning", "IdentityHeld", why, now)
        self._unreported.add(node)

    def forget(self, node: str) -> None:
        """The Node is gone: so is its document, unless it has to remember whose certificates were cut off with it."""
        self._met.discard(node)
        self.returning.forget(node)
        self._edge_routes.forget(node)
        if self._identities.is_bound(node):
            self._cache.want(self._document(node, self.of(node)))
        else:
            self._cache.want(status_cache.Removal(name=(EDGE_NODES, "", node), node=node))

    def forget_expired(self) -> None:
        """Of vanished Nodes none of whose certificates can come again."""
        for node in self._identities.expired(self._object_syncs.text()):
            if self._nodes_listed and node not in self._placement.nodes:
                self._identities.forget(node)
                self.forget(node)

    def vanished(self, node: str) -> None:
        """Somebody deleted its document: of a Node that is gone, too, nothing is remembered any more."""
        if node in self._placement.nodes:
            self.changed(node)
        elif self._nodes_listed:
            self._identities.forget(node)

    def said(self, node: str, status: message.EdgeStatus, now: float) -> None:
        """The edge's own account."""
        before = self.edges.get(node)
        self.edges[node] = status
        self._cloud_events.routes_reported(node, before.routes if before else {}, status.routes, now)
        self._cloud_events.queues_stalled(node, status, now)
        if before is None or before.routes != status.routes:
            self._edge_routes.said(node, status.routes)
        if (
            before is None
            or before.routes != status.routes
            or before.dead_letters != status.dead_letters
            or _stalled(before) != _stalled(status)
        ):
            self._unreported.add(node)

    def observed(self, node: str, observed: status_cache.Observed) -> None:
        """An EdgeNode document as it stands: topics granted before a restart count again."""
        observed = edge_node.readable(observed)
        is_news = self._cache.observe((EDGE_NODES, "", node), node, observed)
        self._edge_routes.observed(node, observed.status)
        topics = observed.status.get("grantedTopics")
        if isinstance(topics, list):
            self._grants.remember(node, (topic for topic in topics if isinstance(topic, str)))
        away = node not in self._sessions and bool(observed.status.get("connected"))
        if away and node not in self._met:
            self.returning.expect(node, self._object_syncs.now)
        # Of a node that is here, what others wrote is compared with what we know.
        edited = is_news and node in self._sessions
        if edited or (away and self._nodes_listed) or observed.is_absurd(self._object_syncs.fence):
            self._unreported.add(node)

    # ---- what is told ----------------------------------------------------------------------------

    @property
    def _nodes_listed(self) -> bool:
        return "nodes" in self._placement.inputs_synced

    def report(self, now: float, *, last: bool = False) -> None:
        """Want every document written that has something to tell; the ``last`` time nothing waits until it settles."""
        if EDGE_NODES not in self._cache.synced or not self._nodes_listed:
            return
        self._tell_of_brakes(now)
        if self._first_report is None:
            self._first_report = now
        elif now - self._first_report >= RETURN_SECONDS and not self._returned:
            self._returned = True
            for name, observed in self._cache.observed.items():
                if name[0] == EDGE_NODES and observed.status.get("connected"):
                    self._unreported.add(name[2])
        due = {n for n, at in self._reported.items() if now - at >= REPORT_SECONDS and n in self._sessions}
        settled = self._settling.waiting() if last else self._settling.due(now)
        waiting, self._unreported = self._unreported.union(due, settled), set()
        for node in waiting:
            # A hub that has just started does not call nodes away that are about to come back.
            known = node in self._sessions or node in self._met or self._returned
            if not known:
                self._unreported.add(node)
            elif node in self._placement.nodes or self._identities.is_bound(node):
                self._report(node, now, due=node in due, last=last)
            else:
                self._settling.settled(node)

    def returned(self, now: float) -> Summary | None:
        """How the return after our start ended; told once."""
        return self.returning.summary(now, give_up=self._returned) if self._first_report is not None else None

    def _tell_of_brakes(self, now: float) -> None:
        told, news = self._node_controls.news.copy(), self._node_controls.news
        news.clear()
        for node in told & self._placement.nodes.keys():
            self._unreported.add(node)
            guard = self._node_controls.guard(node)
            observed = self._cache.observed.get((EDGE_NODES, "", node))
            said = (observed.status.get("brake") or {}) if observed is not None else {}
            if guard is not None and guard.stops and guard.tripped is not None and said.get("id") != guard.tripped.id:
                self.happened(node, "Warning", "DeletionGuard", guard.why, now)

    def happened(self, node: str, type: kube_events.Type, reason: str, text: str, now: float) -> None:
        """An event about its EdgeNode."""
        regarding = kube_events.Regarding(kind="EdgeNode", namespace="", name=node)
        self._events.note(regarding, type, reason, text, now, self._object_syncs.text(now))
        self._cloud_events.node_restrained(node, reason, text, now)

    def rule_happened(
        self, kind: str, name: str, type: kube_events.Type, reason: str, text: str, nodes: Iterable[str]
    ) -> None:
        """An event about a SyncRule or EdgeRoutes object that concerns these nodes."""
        regarding = kube_events.Regarding(kind=kind, namespace="", name=name)
        self._events.note(regarding, type, reason, text, self._object_syncs.now, self._object_syncs.text())
        self._unreported.update(nodes)

    def _report(self, node: str, now: float, *, due: bool, last: bool) -> None:
        account = self.of(node)
        name: status_cache.Name = (EDGE_NODES, "", node)
        observed = self._cache.observed.get(name)
        if observed is None and not account.connected and node not in self._grants.ever:
            self._settling.settled(node)
            return  # never seen: nothing to tell
        document = self._document(node, account)
        said = observed.status if observed is not None else {}
        status = document.status(observed)
        due = due or (observed is not None and observed.is_absurd(self._object_syncs.fence))
        if observed is not None and not due and edge_node.decides_the_same(status, said):
            self._settling.settled(node)
            return
        if not (due or last or self._settling.is_due(node, self._change(node, status, said), now)):
            return
        self._settling.settled(node)
        self._reported[node] = now
        self._cache.want(document)
        if observed is None or observed.status.get("connected") != account.connected:
            reason = "Connected" if account.connected else "Away"
            self.happened(node, "Normal", reason, f"node is {reason.lower()}", now)
            if not account.connected and node not in self._met:
                self._cloud_events.node_away(node, "not_returned", now)

    def _change(self, node: str, status: status_cache.Status, said: status_cache.Status) -> debounce.Change:
        """Which kind of change this is, as far as it decides when it is written."""
        if not edge_node.comes_or_goes(status, said):
            return "urgent"
        if bool(said.get("connected")) == status["connected"]:
            return "counts"
        session = self._sessions.get(node)
        if session is None:
            return "left" if node in self._met else "urgent"  # half a minute after a start nobody is just about to come
        return "came" if session.live and not session.unsynced.pending else "coming"

    def _document(self, node: str, account: edge_node.Account) -> edge_node.EdgeNodeDocument:
        return edge_node.EdgeNodeDocument(
            name=(EDGE_NODES, "", node),
            node=node,
            # What remembers certificates must not be taken along with the Node.
            uid="" if account.identity else self.node_uids.get(node, ""),
            account=account,
            at=self._object_syncs.text(),
            fence=self._object_syncs.fence,
        )

    def of(self, node: str) -> edge_node.Account:
        """What is known of one node now."""
        session = self._sessions.get(node)
        granted = self._grants.ever.get(node, frozenset())
        unreadable = deletion_blocked.told(self._placement, node) if self._placement.broken else ""
        if session is None:
            observed = self._cache.observed.get((EDGE_NODES, "", node))
            said = observed.status if observed is not None else {}
            return edge_node.Account(
                connected=False,
                hub=self._hub,
                store_epoch=int(said.get("storeEpoch") or 0),
                agent=str(said.get("agentVersion", "")),
                last_contact=str(said.get("lastContactTime") or ""),
                wanted=int(said.get("objectsWanted", 0)),
                held=int(said.get("objectsHeld", 0)),
                parked=int(said.get("objectsParked", 0)),
                granted_topics=granted,
                edge=None,
                paused=self._node_controls.paused(node),
                guard=self._node_controls.guard(node),
                unreadable=unreadable,
                routes=tuple(self._edge_routes.rows_of(node)),
                identity=self._identities.status(node),
            )
        return edge_node.Account(
            connected=True,
            hub=self._hub,
            store_epoch=session.hello.store_epoch,
            agent=session.hello.agent,
            last_contact=self._object_syncs.text(session.link.last_received),
            wanted=len(self._placement.desired_objects(node)),
            held=len(session.held) if session.live else int(session.hello.held),
            parked=session.unsynced.count(Parked),
            granted_topics=granted,
            edge=self.edges.get(node),
            pending=len(session.unsynced.pending),
            paused=self._node_controls.paused(node),
            guard=self._node_controls.guard(node),
            kept=session.unsynced.one_kept(),
            unreadable=unreadable,
            routes=tuple(self._edge_routes.rows_of(node)),
            identity=self._identities.status(node),
        )


def _stalled(edge: message.EdgeStatus) -> set[int]:
    """Priorities of which nothing is taken."""
    return {queue.priority for queue in edge.queues if queue.stalled_seconds}
