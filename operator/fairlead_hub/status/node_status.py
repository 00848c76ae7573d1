"""EdgeNode status of all nodes: connection, objects, queues.

    a session opens, ends, converges; an edge reports ─changed─▶ report ─▶ EdgeNodeDocument ─▶ StatusCache
                                                                    └────▶ Notices (connected, away)

Written on transitions, combined for changes within seconds (``debounce``), and every few minutes otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairlead_hub.cluster import deletion_blocked
from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.delivery import admission
from fairlead_hub.delivery.deletion_guard import DeletionGuard
from fairlead_hub.delivery.delivery_events import Parked
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.status import debounce, edge_node, status_cache
from fairlead_hub.status.debounce import Debounce, ReturningNodes, ReturnSummary
from fairlead_hub.status.edge_node import Terms
from fairlead_hub.status.edge_routes_controller import EdgeRoutesController
from fairlead_hub.status.status_cache import Notice, node_notice
from fairlead_hub.status.to_table import ToTables
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import message

RETURN_SECONDS = 30.0
"""Grace period after a start before nodes that were connected and have not returned are reported as disconnected."""
REPORT_SECONDS = 180.0
"""Minimum interval between writes of an EdgeNode for queue lengths and contact times only."""

Sessions = Mapping[str, NodeSession]
"""The open sessions, by node."""
TermsOf = Callable[[str], Terms]
"""What a node is currently allowed to do."""


class NodeStatus:
    """See the module docstring.  ``hub`` is this hub's name."""

    def __init__(
        self,
        hub: str,
        *,
        cache: status_cache.StatusCache,
        placement: Placement,
        clock: WallClock,
        edge_routes: EdgeRoutesController,
    ) -> None:
        self._hub = hub
        self._cache = cache
        self.placement = placement
        self._clock = clock
        self._edge_routes = edge_routes
        self.node_uids: dict[str, str] = {}
        self.edges: dict[str, message.EdgeStatus] = {}
        """The last reports of connected edges."""
        self._to_tables = ToTables()
        self._reported: dict[str, float] = {}
        self._unreported: set[str] = set()
        self._stale_hub: dict[str, tuple[int, str]] = {}
        """Nodes refused because they have obeyed a higher fencing number → that number, and a sentence."""
        self._stale_hub_at: dict[str, float] = {}
        self._debounce = Debounce()
        self.returning = ReturningNodes()
        self._store_epochs: dict[str, int] = {}
        """Of the last session of each node with this process."""
        self._met: set[str] = set()
        """Nodes that had a session with this process."""
        self._first_report: float | None = None
        self._grace_over = False
        """Whether nodes that were connected before our start have had time to return."""

    # ---- what happened ---------------------------------------------------------------------------

    def set_uid(self, node: str, uid: str) -> None:
        """The edge Node of this name has this UID."""
        self.node_uids[node] = uid
        if edge_node.is_deleted(self._standing(node)):
            self._unreported.add(node)

    def drop_uid(self, node: str) -> None:
        """There is no edge Node of this name any more."""
        self.node_uids.pop(node, None)

    def relabelled(self, node: str) -> None:
        """Other EdgeRoutes may select it now."""
        self._edge_routes.node_changed(node)

    def is_gone(self, node: str) -> bool:
        """Whether Nodes are listed and none has this name."""
        return self._nodes_listed and node not in self.placement.rules.nodes

    def changed(self, *nodes: str) -> None:
        """The status of these nodes may have changed."""
        for node in nodes:
            self._unreported.add(node)
            self._edge_routes.node_changed(node)

    def opened(self, node: str) -> None:
        self._met.add(node)
        self._stale_hub.pop(node, None)
        self.returning.back(node)
        self.changed(node)

    def opened_with(self, node: str, store_epoch: int) -> None:
        """Remember its store epoch, even if the session ends before its EdgeNode is written."""
        self._store_epochs[node] = store_epoch

    def ended(self, node: str) -> None:
        self.edges.pop(node, None)
        self._edge_routes.ended(node)
        self._unreported.add(node)

    def stale_hub(self, node: str, fence: int, reason: str, now: float) -> None:
        """The node is refused: it has obeyed a hub with this number, which is higher than ours.

        Written once per number; if a node reports another number each time, no more often than it may reconnect.
        """
        said, _ = self._stale_hub.get(node, (0, ""))
        is_early = now - self._stale_hub_at.get(node, float("-inf")) < admission.STALE_RETRY_SECONDS
        if fence != said and not is_early and node in self.placement.rules.nodes:
            self._stale_hub[node], self._stale_hub_at[node] = (fence, reason), now
            self.refused(node)

    def refused(self, node: str) -> None:
        """Its certificate is refused, or which ones are refused changed: write its EdgeNode immediately."""
        self._met.add(node)
        self._unreported.add(node)

    def forget(self, node: str, terms: Terms, now: float) -> None:
        """The Node is gone: remove its document too, unless it records whose certificates are blocked."""
        self._met.discard(node)
        self._stale_hub.pop(node, None)
        self._stale_hub_at.pop(node, None)
        self._store_epochs.pop(node, None)
        self.returning.forget(node)
        self._edge_routes.forget(node)
        self._to_tables.forget(node)
        if terms.identity is not None:
            self._cache.want(self._document(node, self.of(node, None, terms), now))
        else:
            self._cache.want(status_cache.Removal(name=(EDGE_NODES, "", node), node=node))

    def received(self, node: str, status: message.EdgeStatus, now: float) -> message.EdgeStatus | None:
        """The edge's own report; returns the previous one."""
        before = self.edges.get(node)
        self.edges[node] = status
        if before is None or before.routes != status.routes:
            self._edge_routes.received(node, status.routes)
        is_step = (before is None or before.to_table != status.to_table) and self._to_tables.received(
            node, status.to_table, lambda: self._standing(node), self._clock.text(now)
        )
        if (
            before is None
            or is_step
            or before.routes != status.routes
            or before.dead_letters != status.dead_letters
            or _stalled(before) != _stalled(status)
        ):
            self._unreported.add(node)
        return before

    def observed(
        self, node: str, observed: status_cache.Observed, now: float, *, is_news: bool, connected: bool
    ) -> None:
        """An EdgeNode as it is in the API; ``is_news`` is False for an echo of our write.

        ``connected``: it has a session.
        """
        self._edge_routes.observed(node, observed.status)
        away = not connected and bool(observed.status.get("connected"))
        if away and node not in self._met:
            self.returning.expect(node, now)
        # For a connected node, foreign changes are compared with our own state.
        edited = is_news and connected
        is_otherwise = self._is_otherwise(node, observed.status)
        if edited or (away and self._nodes_listed) or is_otherwise or observed.is_absurd(self._cache.fence):
            self._unreported.add(node)

    def _is_otherwise(self, node: str, status: status_cache.Status) -> bool:
        """Whether this status says that the Node is gone and it is not, or the other way round."""
        return self._nodes_listed and edge_node.is_deleted(status) != self.is_gone(node)

    # ---- what is written -------------------------------------------------------------------------

    @property
    def fence(self) -> int:
        """This hub's fencing number."""
        return self._cache.fence

    @property
    def _nodes_listed(self) -> bool:
        return "nodes" in self.placement.listed.inputs

    @property
    def is_reporting(self) -> bool:
        """Whether EdgeNodes and Nodes are listed; nothing is reported before."""
        return EDGE_NODES in self._cache.synced and self._nodes_listed

    def report(self, sessions: Sessions, terms_of: TermsOf, now: float, *, last: bool = False) -> list[Notice]:
        """Queue every document whose status changed; with ``last``, without waiting for it to settle."""
        if not self.is_reporting:
            return []
        self._end_grace(now)
        due = {n for n, at in self._reported.items() if now - at >= REPORT_SECONDS and n in sessions}
        settled = self._debounce.waiting() if last else self._debounce.due(now)
        waiting, self._unreported = self._unreported.union(due, settled), set()
        notices: list[Notice] = []
        for node in waiting:
            # A hub that has just started does not report nodes as away that are about to return.
            known = node in sessions or node in self._met or self._grace_over
            terms = terms_of(node)
            if not known:
                self._unreported.add(node)
            elif node in self.placement.rules.nodes or terms.identity is not None:
                facts = self.of(node, sessions.get(node), terms)
                notices += self._report(node, facts, sessions.get(node), now, due=node in due, last=last)
            else:
                self._debounce.done(node)
        return notices

    def _end_grace(self, now: float) -> None:
        if self._first_report is None:
            self._first_report = now
        elif now - self._first_report >= RETURN_SECONDS and not self._grace_over:
            self._grace_over = True
            for name, observed in self._cache.observed.items():
                if name[0] != EDGE_NODES:
                    continue
                if observed.status.get("connected") or self._is_otherwise(name[2], observed.status):
                    self._unreported.add(name[2])

    def returned(self, now: float) -> ReturnSummary | None:
        """How the return of nodes after our start ended; returned once."""
        return self.returning.summary(now, give_up=self._grace_over) if self._first_report is not None else None

    def _standing(self, node: str) -> status_cache.Status:
        """The status in its EdgeNode; empty if there is none."""
        observed = self._cache.observed.get((EDGE_NODES, "", node))
        return observed.status if observed is not None else {}

    @property
    def is_grace_over(self) -> bool:
        """Whether nodes that were connected before our start have had time to return."""
        return self._grace_over

    def last_store_epoch(self, node: str) -> int:
        """Of its last session, with us or according to its EdgeNode; 0 if unknown."""
        if (known := self._store_epochs.get(node)) is not None:
            return known
        observed = self._cache.observed.get((EDGE_NODES, "", node))
        return int(observed.status.get("storeEpoch") or 0) if observed is not None else 0

    def reported_away(self, node: str) -> bool:
        """No EdgeNode reports it as connected: it was away before this hub started."""
        observed = self._cache.observed.get((EDGE_NODES, "", node))
        return observed is None or not observed.outline.get("connected")

    def was_ever_connected(self, node: str) -> bool:
        """To this hub or an earlier one."""
        observed = self._cache.observed.get((EDGE_NODES, "", node))
        return node in self._met or (observed is not None and bool(observed.outline.get("lastContactTime")))

    def was_met(self, node: str) -> bool:
        """Whether it had a session with this process."""
        return node in self._met

    def guard_changed(self, node: str, guard: DeletionGuard | None) -> list[Notice]:
        """Its deletion guard tripped, was approved or ended, or the number of waiting deletions changed."""
        self._unreported.add(node)
        observed = self._cache.observed.get((EDGE_NODES, "", node))
        status = observed.status if observed is not None else {}
        said = status.get("deletionGuard") or {}
        if guard is None or not guard.stops or guard.tripped is None or said.get("id") == guard.tripped.id:
            return []
        return [node_notice(node, "Warning", "DeletionGuard", guard.why)]

    def _report(
        self, node: str, facts: edge_node.NodeFacts, session: NodeSession | None, now: float, *, due: bool, last: bool
    ) -> list[Notice]:
        observed = self._cache.observed.get((EDGE_NODES, "", node))
        is_known = facts.connected or facts.granted_topics or facts.revoked is not None or facts.stale_hub
        if observed is None and not is_known:
            self._debounce.done(node)
            return []  # never seen: there is nothing to write
        document = self._document(node, facts, now)
        said = observed.status if observed is not None else {}
        status = document.status(observed)
        due = due or (observed is not None and observed.is_absurd(self._cache.fence))
        if observed is not None and not due and edge_node.decides_the_same(status, said):
            self._debounce.done(node)
            return []
        if not (due or last or self._debounce.is_due(node, self._change(node, session, status, said), now)):
            return []
        self._debounce.done(node)
        self._to_tables.written(node)
        self._reported[node] = now
        self._cache.want(document)
        if observed is not None and observed.status.get("connected") == facts.connected:
            return []
        reason = "Connected" if facts.connected else "Away"
        return [node_notice(node, "Normal", reason, f"node is {reason.lower()}")]

    def _change(
        self, node: str, session: NodeSession | None, status: status_cache.Status, said: status_cache.Status
    ) -> debounce.Change:
        """The kind of change, as far as it determines when it is written."""
        if not edge_node.connection_only(status, said):
            return "urgent"
        if bool(said.get("connected")) == status["connected"]:
            return "times" if edge_node.decides_the_same_but_times(status, said) else "counts"
        if session is None:
            return "left" if node in self._met else "urgent"  # the grace period is over: it is not about to return
        return "came" if session.keys.live and not session.keys.unsynced.pending else "coming"

    def _document(self, node: str, facts: edge_node.NodeFacts, now: float) -> edge_node.EdgeNodeDocument:
        return edge_node.EdgeNodeDocument(
            name=(EDGE_NODES, "", node),
            node=node,
            # A document that blocks certificates must not be deleted along with the Node.
            uid="" if facts.identity else self.node_uids.get(node, ""),
            facts=facts,
            at=self._clock.text(now),
            fence=self._cache.fence,
        )

    def of(self, node: str, session: NodeSession | None, terms: Terms) -> edge_node.NodeFacts:
        """The current state of one node."""
        unreadable = deletion_blocked.unreadable_rules(self.placement, node) if self.placement.rules.broken else ""
        to_table = self._to_tables.of(node, lambda: self._standing(node))
        if session is None:
            said = self._standing(node)
            obeyed, stale_hub = self._stale_hub.get(node, (None, ""))
            deleted = edge_node.deletion_text(node, terms.identity) if self.is_gone(node) else ""
            return edge_node.NodeFacts(
                connected=False,
                hub=self._hub,
                store_epoch=self.last_store_epoch(node),
                agent=str(said.get("agentVersion", "")),
                last_contact=str(said.get("lastContactTime") or ""),
                wanted=int(said.get("objectsWanted", 0)),
                held=int(said.get("objectsHeld", 0)),
                parked=int(said.get("objectsParked", 0)),
                granted_topics=terms.granted_topics,
                edge=None,
                paused=terms.paused,
                guard=terms.guard,
                unreadable=unreadable,
                routes=tuple(self._edge_routes.rows_of(node)),
                identity=terms.identity,
                revoked=terms.revoked,
                to_table=to_table,
                obeyed_fence=obeyed,
                stale_hub=stale_hub,
                deleted=deleted,
            )
        return edge_node.NodeFacts(
            connected=True,
            hub=self._hub,
            store_epoch=session.hello.store_epoch,
            agent=session.hello.agent,
            last_contact=self._clock.text(session.link.last_received),
            wanted=len(self.placement.desired_objects(node)),
            held=len(session.keys.held) if session.keys.live else int(session.hello.held),
            parked=session.keys.unsynced.count(Parked),
            granted_topics=terms.granted_topics,
            edge=self.edges.get(node),
            pending=len(session.keys.unsynced.pending),
            paused=terms.paused,
            guard=terms.guard,
            kept=session.keys.unsynced.one_kept(),
            unreadable=unreadable,
            routes=tuple(self._edge_routes.rows_of(node)),
            identity=terms.identity,
            revoked=terms.revoked,
            to_table=to_table,
        )


def _stalled(edge: message.EdgeStatus) -> set[int]:
    """Priorities whose queue is stalled."""
    return {queue.priority for queue in edge.queues if queue.stalled_seconds}
