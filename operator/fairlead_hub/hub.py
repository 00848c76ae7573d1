"""The hub's core: the cluster's state on one side, the nodes' sessions on the other.  Pure; the rim calls it.

    objects, rules, nodes ─observe─▶ ObjectCache, Placement ─who is concerned─▶ NodeSession.offer
    frames from edges ─────────────▶ NodeSession ─outcomes─▶ Records ─▶ Book (written behind)

After every call ``woken`` names the sessions that have something to send.  There is no queue for a node that is away:
what it should hold is derived from object cache and rules when it comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.content import EDGE_ROUTES, GroupKind, LiveObject
from fairlead_hub.cluster.desired_state import DesiredState
from fairlead_hub.cluster.object_cache import Change, ObjectCache
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.counts import Counts
from fairlead_hub.delivery import admission, identities
from fairlead_hub.delivery.pause import NodeControls
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.events import kube_events
from fairlead_hub.events.cloud_events import CloudEvents
from fairlead_hub.rule_reader import RuleReader
from fairlead_hub.settings import Settings
from fairlead_hub.status import status_cache
from fairlead_hub.status.edge_routes_controller import EdgeRoutesController
from fairlead_hub.status.node_status import EDGE_NODES, NodeStatus
from fairlead_hub.status.object_sync_status import ObjectSyncStatus
from fairlead_hub.status.rule_statuses import RuleStatuses
from fairlead_hub.status.sync_controller import SyncController
from fairlead_hub.upstream.grants import Grants
from fairlead_wire import codec, message

REPLACED = "a newer connection of this node took over; if it was not yours, a second machine has its identity"
REPLACED_RETRY_SECONDS = 60.0
"""A second machine with the same identity: long enough that two of them do not throw each other out all day."""

_status = msgspec.json.Decoder(message.EdgeStatus)


class Hub:
    """See the module.  ``now`` is seconds of one monotonic clock."""

    def __init__(self, settings: Settings, *, name: str, fence: int, wall_offset: float) -> None:
        self.settings = settings
        self.name = name
        self.object_cache = ObjectCache()
        self._policy = settings.delivery.policy()
        self.placement = Placement(self.object_cache, self._policy)
        self.desired_state = DesiredState(self.object_cache, self.placement)
        self.status_cache = status_cache.StatusCache()
        self.object_syncs = ObjectSyncStatus(self.status_cache, fence=fence)
        self.object_syncs.wall_offset = wall_offset
        self.object_syncs.kinds = self.desired_state.kinds
        self.counts = Counts()
        self.kube_events = kube_events.KubeEvents()
        self.cloud_events = CloudEvents(self.object_syncs.text, self.desired_state.kinds)
        self.sessions: dict[str, NodeSession] = {}
        self.grants = Grants(self.placement, self.status_cache)
        self.desired_state.grants = self.grants
        self.identities = identities.Identities(accept_recreated=settings.link.recreated_nodes == "accept")
        self.node_controls = NodeControls(settings.brake, text=self.object_syncs.text)
        self.edge_routes = EdgeRoutesController(self.sessions, self.placement, self.status_cache)
        self.rule_statuses = RuleStatuses(self.placement, self.edge_routes, self.status_cache, self.object_syncs.text)
        self.node_status = NodeStatus(
            name,
            self.sessions,
            placement=self.placement,
            object_syncs=self.object_syncs,
            grants=self.grants,
            node_controls=self.node_controls,
            identities=self.identities,
            events=self.kube_events,
            cloud_events=self.cloud_events,
            edge_routes=self.edge_routes,
        )
        self.rules = RuleReader(self.placement, self.node_status, self.cloud_events)
        self.sync_controller = SyncController(
            self.sessions,
            desired_state=self.desired_state,
            placement=self.placement,
            object_syncs=self.object_syncs,
            node_status=self.node_status,
            counts=self.counts,
            events=self.kube_events,
            cloud_events=self.cloud_events,
        )
        self.woken: set[NodeSession] = set()
        self._audits: set[str] = set()
        self._audit_all = False
        self._next_session = 1

    @property
    def fence(self) -> int:
        return self.object_syncs.fence

    @fence.setter
    def fence(self, value: int) -> None:
        self.object_syncs.fence = value

    # ---- the cluster -----------------------------------------------------------------------------

    def put_object(self, live: LiveObject, now: float) -> None:
        before_nodes: set[str] = set()
        if live.group_kind == EDGE_ROUTES:
            before_nodes = self.placement.nodes_for(live)
            self.edge_routes.object_changed(live.resource.name)
            if self.rules.routes_seen(live, now):
                for node in self.sessions:
                    self._grant(node)
        change = self.object_cache.put(live)
        if change is None:
            self.counts.same_content += 1
            return
        self._changed(change, now, before_nodes)

    def remove_object(self, key: str, uid: str, now: float) -> None:
        live = self.object_cache.get(key)
        before_nodes: set[str] = set()
        if live is not None and live.group_kind == EDGE_ROUTES and live.uid == uid:
            before_nodes = self.placement.nodes_for(live)
            self.rules.routes_gone(live.resource.name, now)
            self.edge_routes.object_changed(live.resource.name)
        change = self.object_cache.remove(key, uid)
        if change is not None:
            self._changed(change, now, before_nodes)

    def relist(self, kind: GroupKind, uids: Mapping[str, str], now: float) -> None:
        """A list is complete: what we had and it does not name is gone."""
        for live in list(self.object_cache.of_kind(kind).values()):
            if uids.get(live.key) != live.uid:
                self.remove_object(live.key, live.uid, now)

    def kind_synced(self, kind: GroupKind) -> None:
        self.placement.frozen.pop(kind, None)
        self.placement.touch_rules(kind)
        if kind not in self.placement.synced:
            self.placement.synced.add(kind)
            if kind == EDGE_ROUTES:
                self.input_synced("edgeroutes")
            self._audit_all = True

    def kind_unsynced(self, kind: GroupKind) -> None:
        """The watch broke in a way that needs a new list; until then nothing of it is taken away."""
        self.placement.synced.discard(kind)
        self.placement.touch_rules(kind)

    def kind_frozen(self, kind: GroupKind, reason: str) -> None:
        """It cannot be listed: what edges hold of it stays."""
        first = kind not in self.placement.frozen
        self.placement.synced.discard(kind)
        self.placement.frozen[kind] = reason
        self.placement.touch_rules(kind)
        if first:
            self._audit_all = True

    def kind_dropped(self, kind: GroupKind, now: float) -> None:
        """No rule names it any more."""
        self.placement.synced.discard(kind)
        self.placement.frozen.pop(kind, None)
        self.object_cache.forget_kind(kind)
        self._audit_all = True

    def input_synced(self, name: str) -> None:
        """One of ``placement.INPUTS`` is listed."""
        if name not in self.placement.inputs_synced:
            self.placement.inputs_synced.add(name)
            for routes in {*self.placement.routes, *self.placement.broken_names("edgeroutes")}:
                self.edge_routes.object_changed(routes)
            self._audit_all = True

    def set_node(self, name: str, uid: str, labels: Mapping[str, str], now: float) -> None:
        """An edge Node exists, as it is now.  A new UID is a new node: the old one's records go."""
        known = self.node_status.node_uids.get(name)
        if known is not None and known != uid:
            self.drop_node(name, now)
        self.node_status.node_uids[name] = uid
        if self.placement.set_node(name, labels):
            self.edge_routes.node_changed(name)
            self._audits.add(name)

    def drop_node(self, name: str, now: float) -> None:
        """The Node was deleted, or is no edge any more."""
        self.node_status.node_uids.pop(name, None)
        self.placement.drop_node(name)
        session = self.sessions.get(name)
        if session is not None:
            reason = f"Node {name} was deleted or is no edge node"
            self._refuse(session, "node_deleted", reason, admission.NODE_GONE_RETRY_SECONDS, now)
        self.grants.forget(name)
        self.node_controls.forget(name)
        self.counts.records_collected += self.object_syncs.forget_node(name)
        self.node_status.forget(name)

    def kind_served(self, kind: GroupKind, answers: Mapping[str, str]) -> None:
        """What the API server says of the apiVersions rules name for a kind: "" it serves this one, or why not."""
        self._audits |= self.placement.set_served(kind, answers)

    def set_rule(self, rule: sync_rule.Rule) -> None:
        self._audits |= self.rules.read(rule)

    def break_rule(self, found: sync_rule.Unreadable) -> None:
        """It cannot be read: what it selected goes on, and nothing of that is removed until it is mended."""
        self._audits |= self.rules.unreadable(found)

    def drop_rule(self, name: str) -> None:
        self._audits |= self.rules.gone(name)
        self._audit_all = True

    def _changed(self, change: Change, now: float, nodes: set[str]) -> None:
        nodes |= self.placement.concerned(change, self.sessions)
        if change.after is None and change.before is not None:
            self.placement.forget(change.before)
        for node in nodes:
            self._offer(node, change.key, now)
        for node, key in self.placement.referred_by(change):
            self._offer(node, key, now)

    def _offer(self, node: str, key: str, now: float) -> None:
        session = self.sessions.get(node)
        if session is not None:
            session.offer(key, now)
            self.sync_controller.drain(session, now)
            if session.has_frames:
                self.woken.add(session)

    def settle(self, now: float) -> None:
        """After a burst of changes of rules, labels or watches: compare sessions again with what they should hold."""
        if self._audit_all:
            self._audits.update(self.sessions)
            self._audit_all = False
        if not self._audits:
            return
        nodes_known = "nodes" in self.placement.inputs_synced
        for node in self._audits & self.sessions.keys():
            session = self.sessions[node]
            if nodes_known and node not in self.placement.nodes:
                self._refuse(session, "node_unknown", admission.unknown(node), admission.NODE_GONE_RETRY_SECONDS, now)
                continue
            if doubt := self._doubt_identity(node, self.identities.of_session(node), now):
                self._refuse(session, "identity", doubt, identities.HELD_RETRY_SECONDS, now)
                continue
            self._grant(node)
            session.try_compare()
            session.diff(now)
            self.sync_controller.drain(session, now)
            self.woken.add(session)
        self._audits.clear()

    # ---- what people told us not to do -------------------------------------------------------------

    def edge_node_observed(
        self, node: str, observed: status_cache.Observed, told: Mapping[str, str], now: float
    ) -> None:
        """An EdgeNode document as it stands, with its annotations."""
        self.object_syncs.now = now
        self.node_status.observed(node, observed)
        self.identities.observed(node, observed.status, told)
        self._send_granted(now, node)
        before = self.node_controls.paused(node)
        if self.node_controls.observed(node, told, observed.status):
            self._may_send_changed(node, before, now)

    def edge_node_vanished(self, node: str, now: float, version: str = "") -> None:
        """Somebody deleted it: its annotations are gone; it is written again."""
        self.sync_controller.vanished((EDGE_NODES, "", node), node, now, version)
        before = self.node_controls.paused(node)
        if self.node_controls.vanished(node):
            self._may_send_changed(node, before, now)

    def _may_send_changed(self, node: str, before: str, now: float) -> None:
        """A hold came, changed or went, or a brake was released."""
        session = self.sessions.get(node)
        paused = self.node_controls.paused(node)
        if session is not None:
            session.pause(paused, now)
            self.sync_controller.pause_changed(session)
            self.woken.add(session)
        if paused != before and EDGE_NODES in self.status_cache.synced:
            reason, text = ("Paused", paused) if paused else ("Resumed", f"it was paused: {before}")
            self.node_status.happened(node, "Normal", reason, text, now)
        self.node_status.changed(node)

    # ---- sessions --------------------------------------------------------------------------------

    def open(
        self, node: str, hello: message.Hello, now: float, shown: identities.Shown | None = None
    ) -> NodeSession | message.Refuse:
        """An edge said hello; ``node`` is what its certificate ``shown`` says (or its word, where security is off)."""
        nodes_listed = "nodes" in self.placement.inputs_synced
        refusal = admission.refusal(
            node,
            hello,
            fence=self.fence,
            nodes=self.placement.nodes if nodes_listed else None,
            others=len(self.sessions) - (node in self.sessions),
            nodes_max=self.settings.link.nodes_max,
        )
        if refusal is None and (doubt := self._doubt_identity(node, shown, now)):
            refusal = message.Refuse(code="identity", reason=doubt, retry_after=identities.HELD_RETRY_SECONDS)
        if refusal is not None:
            self.counts.refused[refusal.code] = self.counts.refused.get(refusal.code, 0) + 1
            return refusal
        old = self.sessions.get(node)
        if old is not None:
            self._refuse(old, "replaced", REPLACED, REPLACED_RETRY_SECONDS, now)
            self.node_status.replaced(node, now - old.link.last_received, now)
            self.cloud_events.node_replaced(old.hello, hello, now)
        session = NodeSession(
            node=node,
            number=self._next_session,
            hello=hello,
            view=self.desired_state,
            limits=self.settings.window,
            policy=self._policy,
            reconcile=self.settings.reconcile,
            held_max=self.settings.link.held_max,
            keepalive_seconds=self.settings.link.keepalive_seconds,
            now=now,
            paused=self.node_controls.paused(node),
            guard=self.node_controls.guard(node),
        )
        self._next_session += 1
        self.sessions[node] = session
        self.identities.opened(node, shown)
        self.counts.handshakes += 1
        welcome = message.Welcome(
            hub=self.name,
            fence=self.fence,
            session=session.number,
            keepalive_seconds=self.settings.link.keepalive_seconds,
            frame_bytes_max=4 * 1024 * 1024,
            upstream_window=self.settings.link.upstream_window,
        )
        session.welcome(welcome, now)
        self._grant(node)
        self.sync_controller.drain(session, now)
        self.woken.add(session)
        self.node_status.opened(node)
        self.cloud_events.node_connected(session.number, hello, now)
        return session

    def _doubt_identity(self, node: str, shown: identities.Shown | None, now: float) -> str:
        """Why this certificate is not taken for this Node; empty when it is, or cannot be judged yet."""
        if not {"nodes", EDGE_NODES} <= self.placement.inputs_synced:
            return ""
        doubt = self.identities.judge(node, self.node_status.node_uids.get(node, ""), shown)
        if doubt:
            self.node_status.identity_held(node, doubt, now)
        return doubt

    def _refuse(self, session: NodeSession, code: Any, reason: str, retry_after: float, now: float) -> None:
        session.refuse(message.Refuse(code=code, reason=reason, retry_after=retry_after))
        self.counts.refused[code] = self.counts.refused.get(code, 0) + 1
        if self.sessions.get(session.node) is session:
            del self.sessions[session.node]
            self.node_status.ended(session.node)
            if code != "replaced":
                self.cloud_events.node_away(session.node, code, now)
        self.woken.add(session)

    def closed(self, session: NodeSession, now: float) -> None:
        """The connection is gone.  Nothing of the session is kept; a newer one of the same node stays."""
        self.woken.discard(session)
        if self.sessions.get(session.node) is session:
            del self.sessions[session.node]
            self.node_status.ended(session.node)
            self.cloud_events.node_away(session.node, _ending(session), now)

    def receive(self, session: NodeSession, header: message.FromEdge, body: bytes, now: float) -> None:
        """A frame that is not upstream.  Raises ``Malformed``: close the session with the reason."""
        if isinstance(header, message.Status):
            session.heard(header, now)
            self.node_status.said(session.node, codec.decode_json(_status, body), now)
            return
        session.receive(header, body, now)
        self.sync_controller.drain(session, now)
        if session.has_frames:
            self.woken.add(session)

    def tick(self, session: NodeSession, now: float) -> bool:
        """False: the peer is silent, close the connection."""
        alive = session.tick(now)
        self.sync_controller.drain(session, now)
        if session.has_frames:
            self.woken.add(session)
        return alive

    # ---- topics ----------------------------------------------------------------------------------

    def _grant(self, node: str) -> None:
        if self.grants.widen(node):
            self.node_status.changed(node)

    def _send_granted(self, now: float, *nodes: str) -> None:
        """EdgeRoutes that waited for their topics to be written down go to their nodes (none named: to all)."""
        sessions = (self.sessions[node] for node in nodes if node in self.sessions) if nodes else self.sessions.values()
        for session in list(sessions):
            for key in session.unsynced.withheld():
                if not self.desired_state.withheld(session.node, key):
                    self._offer(session.node, key, now)

    def grants_known(self) -> str:
        """Why topics cannot be judged yet; empty when they can."""
        for name in ("nodes", "edgeroutes"):
            if name not in self.placement.inputs_synced:
                return f"{name} are not listed yet"
        return "" if EDGE_NODES in self.status_cache.synced else "edgenodes are not listed yet"

    # ---- heartbeats ------------------------------------------------------------------------------

    def sweep(self, now: float) -> None:
        """Write down who lags; asked every second or so."""
        self.sync_controller.sweep(now, self.settings.record.pending_seconds)

    def report(self, now: float, *, last: bool = False) -> None:
        """Tell of the nodes; asked every second or so, and a last time."""
        self.object_syncs.now = now
        self.rule_statuses.report()
        self.node_status.report(now, last=last)
        self._send_granted(now)

    def reconcile(self, now: float) -> None:
        """The SyncController's slow pass: what events should have done already is done again where it was not."""
        if "nodes" not in self.placement.inputs_synced:
            return
        for node, session in self.sessions.items():
            if session.live and session.diff(now):
                self.woken.add(session)
            self.node_status.changed(node)
        self.node_status.forget_expired()
        self.sync_controller.compare_all(now)


def _ending(session: NodeSession) -> str:
    return "connection_ended" if session.closing is None else session.closing.code
