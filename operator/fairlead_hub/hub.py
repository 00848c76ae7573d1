"""The hub's core: one way in, typed methods with the time; one way out, ``take_ready``.  Pure; ``io`` acts on it.

    cluster: put_object, set_rule, set_node, …   ┐            ┌ sessions with frames to send
    edges:   open, receive, tick, closed         ├──▶ Hub ──▶ │ documents to write        ``take_ready(now)``
    API:     document_observed, _answered, …     │            │ Kubernetes Events
    time:    heartbeat                           ┘            └ CloudEvents

Inside: ObjectCache and Placement say who is concerned by a change, NodeSession brings the node up to date, its delivery
events become status (SyncController), and what is worth an event is passed on.  There is no queue for a node that is
away: what it should hold is derived from object cache and rules when it comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.content import EDGE_ROUTES, GroupKind, Kind, LiveObject
from fairlead_hub.cluster.desired_state import DesiredState
from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.cluster.object_cache import Change, ObjectCache
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.counts import Counts
from fairlead_hub.delivery import admission, delivery_events, identities
from fairlead_hub.delivery.frames import Frame
from fairlead_hub.delivery.pause import NodeControls
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.events.cloud_events import CloudEvents
from fairlead_hub.events.kube_events import KubeEvents, Regarding
from fairlead_hub.ready import Ready
from fairlead_hub.rule_reader import Read, RuleReader
from fairlead_hub.settings import Settings
from fairlead_hub.status import edge_node, status_cache
from fairlead_hub.status.edge_node import EdgeNodeDocument
from fairlead_hub.status.edge_routes_controller import EdgeRoutesController
from fairlead_hub.status.node_status import NodeStatus
from fairlead_hub.status.notice import Notice, of_node
from fairlead_hub.status.object_sync_status import ObjectSyncStatus
from fairlead_hub.status.returning_nodes import Summary
from fairlead_hub.status.rule_statuses import RuleStatuses
from fairlead_hub.status.sync_controller import SyncController
from fairlead_hub.upstream.grants import Grants
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import codec, message

REPLACED = "a newer connection of this node took over; if it was not yours, a second machine has its identity"
REPLACED_RETRY_SECONDS = 60.0
"""A second machine with the same identity: long enough that two of them do not throw each other out all day."""

_status = msgspec.json.Decoder(message.EdgeStatus)


def _nothing() -> None:
    """Until the shell wants to know."""


class Hub:
    """See the module.  ``now`` is always seconds of one monotonic clock."""

    def __init__(self, settings: Settings, *, name: str, fence: int, clock: WallClock) -> None:
        self.settings = settings
        self.name = name
        self.clock = clock
        self.counts = Counts()
        self.sessions: dict[str, NodeSession] = {}
        self.object_cache = ObjectCache()
        self._policy = settings.delivery.policy()
        self.placement = Placement(self.object_cache, self._policy)
        self.grants = Grants(self.placement)
        self.desired_state = DesiredState(self.object_cache, self.placement, self.grants.unwritten)
        self.status_cache = status_cache.StatusCache(fence)
        self.identities = identities.Identities(accept_recreated=settings.link.recreated_nodes == "accept")
        self.node_controls = NodeControls(settings.brake, text=clock.text)
        self.rules = RuleReader(self.placement)
        kinds = self.desired_state.kinds
        self.kube_events = KubeEvents()
        has_topic = settings.messaging_url is not None and bool(settings.events.topic)
        self.cloud_events = CloudEvents(clock, kinds, enabled=has_topic)
        self.edge_routes = EdgeRoutesController(self.sessions, self.placement, self.status_cache)
        self.rule_statuses = RuleStatuses(self.placement, self.edge_routes, self.status_cache, clock)
        self.object_syncs = ObjectSyncStatus(self.status_cache, kinds, clock)
        self.node_status = NodeStatus(
            name, cache=self.status_cache, placement=self.placement, clock=clock, edge_routes=self.edge_routes
        )
        self.sync_controller = SyncController(
            self.sessions,
            desired_state=self.desired_state,
            object_syncs=self.object_syncs,
            node_status=self.node_status,
        )
        self._notify: Callable[[], None] = _nothing
        self._notified = False
        self._touched: set[NodeSession] = set()
        """Sessions that may have delivery events, or frames to send."""
        self._to_compare: set[str] = set()
        self._compare_all = False
        self._next_session = 1
        self._reconciled: float | None = None

    @property
    def fence(self) -> int:
        return self.status_cache.fence

    def raise_fence(self, fence: int) -> None:
        """The Lease was taken, or taken anew, under this number."""
        self.status_cache.fence = fence

    # ---- the way out -----------------------------------------------------------------------------

    def subscribe(self, notify: Callable[[], None]) -> None:
        """``notify`` is called once when there may be something to take, and again after each ``take_ready``."""
        self._notify = notify

    def take_ready(self, now: float, *, documents: bool = True, kube_events: bool = True) -> Ready:
        """What to do next.  What the shell has no time for now (False) waits here, where the newest replaces older."""
        self._notified = False
        self._compare_again(now)
        self._deliver_events(now)
        touched, self._touched = self._touched, set()
        writes = self.status_cache.take(now) if documents else []
        self.counts.absurd_fences += sum(write.is_over_absurd(self.fence) for write in writes)
        return Ready(
            sessions=[session for session in touched if session.has_frames],
            documents=writes,
            kube_events=self.kube_events.take() if kube_events else [],
            cloud_events=self.cloud_events.take(),
        )

    def _changed(self) -> None:
        if not self._notified:
            self._notified = True
            self._notify()

    def _touch(self, session: NodeSession) -> None:
        self._touched.add(session)
        self._changed()

    def _deliver_events(self, now: float) -> None:
        """What became of deliveries since the last time, as status and events."""
        for session in self._touched:
            self._deliver_events_of(session, now)

    def _deliver_events_of(self, session: NodeSession, now: float) -> None:
        events = session.take_events()
        if events:
            delivery_events.count(events, self.counts)
            self._pass_on(self.sync_controller.delivered(session, events, now), now)
            self.cloud_events.delivered(session.node, events, now)

    def _pass_on(self, notices: list[Notice], now: float) -> None:
        for each in notices:
            regarding = Regarding(kind=each.kind, namespace=each.namespace, name=each.name)
            self.kube_events.note(regarding, each.type, each.reason, each.message, now, self.clock.text(now))
            if each.kind == "EdgeNode":
                self.cloud_events.node_controlled(each.name, each.reason, each.message, now)

    # ---- the cluster -----------------------------------------------------------------------------

    def put_object(self, live: LiveObject, now: float) -> None:
        before_nodes: set[str] = set()
        if live.group_kind == EDGE_ROUTES:
            before_nodes = self.placement.nodes_for(live)
            self.edge_routes.object_changed(live.resource.name)
            self._rule_read(self.rules.routes_seen(live), now)
            self._routes_read(live.resource.name, now)
            if live.resource.name in self.placement.rules.routes:
                for node in self.sessions:
                    self._grant(node)
        change = self.object_cache.put(live)
        if change is None:
            self.counts.same_content += 1
            return
        self._object_changed(change, now, before_nodes)

    def remove_object(self, key: str, uid: str, now: float) -> None:
        live = self.object_cache.get(key)
        before_nodes: set[str] = set()
        if live is not None and live.group_kind == EDGE_ROUTES and live.uid == uid:
            before_nodes = self.placement.nodes_for(live)
            self.rules.routes_gone(live.resource.name)
            self._routes_read(live.resource.name, now)
            self.edge_routes.object_changed(live.resource.name)
            self.rule_statuses.vanished("edgeroutes", live.resource.name)
        change = self.object_cache.remove(key, uid)
        if change is not None:
            self._object_changed(change, now, before_nodes)

    def _routes_read(self, name: str, now: float) -> None:
        self.cloud_events.routes_read(name, self.placement.rules.broken.get(f"edgeroutes/{name}", ""), now)

    def relist(self, kind: GroupKind, uids: Mapping[str, str], now: float) -> None:
        """A list is complete: what we had and it does not name is gone."""
        for live in list(self.object_cache.of_kind(kind).values()):
            if uids.get(live.key) != live.uid:
                self.remove_object(live.key, live.uid, now)

    def know_kind(self, kind: Kind) -> None:
        """Discovery found what a rule names."""
        self.desired_state.know_kind(kind)

    def kind_synced(self, kind: GroupKind) -> None:
        if self.placement.listed.kind_synced(kind):
            if kind == EDGE_ROUTES:
                self.input_synced("edgeroutes")
            self._compare_everything()

    def kind_unsynced(self, kind: GroupKind) -> None:
        """The watch broke in a way that needs a new list; until then nothing of it is taken away."""
        self.placement.listed.kind_unsynced(kind)

    def kind_frozen(self, kind: GroupKind, reason: str) -> None:
        """It cannot be listed: what edges hold of it stays."""
        if self.placement.listed.kind_frozen(kind, reason):
            self._compare_everything()

    def kind_dropped(self, kind: GroupKind, now: float) -> None:
        """No rule names it any more."""
        self.placement.listed.kind_dropped(kind)
        self.object_cache.forget_kind(kind)
        self._compare_everything()

    def input_synced(self, name: str) -> None:
        """One of ``listed.INPUTS`` is listed."""
        if self.placement.listed.input_synced(name):
            for routes in {*self.placement.rules.routes, *self.placement.rules.broken_names("edgeroutes")}:
                self.edge_routes.object_changed(routes)
            self._compare_everything()

    def set_node(self, name: str, uid: str, labels: Mapping[str, str], now: float) -> None:
        """An edge Node exists, as it is now.  A new UID is a new node: what stands for the old one goes."""
        known = self.node_status.node_uids.get(name)
        if known is not None and known != uid:
            self.drop_node(name, now)
        self.node_status.node_uids[name] = uid
        if self.placement.rules.set_node(name, labels):
            self.edge_routes.node_changed(name)
            self._compare_nodes((name,))

    def drop_node(self, name: str, now: float) -> None:
        """The Node was deleted, or is no edge any more."""
        self.node_status.node_uids.pop(name, None)
        self.placement.rules.drop_node(name)
        session = self.sessions.get(name)
        if session is not None:
            reason = f"Node {name} was deleted or is no edge node"
            self._refuse(session, "node_deleted", reason, admission.NODE_GONE_RETRY_SECONDS, now)
        self.grants.forget(name)
        self.node_controls.forget(name)
        self.counts.records_collected += self.object_syncs.forget_node(name)
        self.node_status.forget(name, self._terms(name), now)

    def kind_served(self, kind: GroupKind, answers: Mapping[str, str]) -> None:
        """What the API server says of the apiVersions rules name for a kind: "" it serves this one, or why not."""
        self._compare_nodes(self.placement.rules.set_served(kind, answers))

    def set_rule(self, rule: sync_rule.Rule, now: float) -> None:
        self._rule_read(self.rules.read(rule), now)

    def break_rule(self, found: sync_rule.Unreadable, now: float) -> None:
        """It cannot be read: what it selected goes on, and nothing of that is removed until it is mended."""
        self._rule_read(self.rules.unreadable(found), now)

    def drop_rule(self, name: str) -> None:
        was_broken = f"syncrules/{name}" in self.placement.rules.broken
        nodes = self.rules.gone(name).nodes
        self.rule_statuses.vanished("syncrules", name)
        if was_broken:
            self.node_status.changed(*nodes)
        self._compare_everything()

    def rule_observed(self, collection: str, name: str, observed: status_cache.Observed) -> None:
        """The status of a SyncRule or EdgeRoutes object as it stands."""
        self.rule_statuses.observed(collection, name, observed)

    def _rule_read(self, read: Read, now: float) -> None:
        if read.notice is not None:
            self._pass_on([read.notice], now)
            self.node_status.changed(*read.nodes)
        self._compare_nodes(read.nodes)

    def _object_changed(self, change: Change, now: float, nodes: set[str]) -> None:
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
            self._touch(session)

    def _compare_nodes(self, nodes: Iterable[str]) -> None:
        """Compare these sessions again with what they should hold, with the next ``take_ready``: once for a burst."""
        self._to_compare.update(nodes)
        self._changed()

    def _compare_everything(self) -> None:
        self._compare_all = True
        self._changed()

    def _compare_again(self, now: float) -> None:
        if self._compare_all:
            self._to_compare.update(self.sessions)
            self._compare_all = False
        if not self._to_compare:
            return
        nodes_known = "nodes" in self.placement.listed.inputs
        for node in self._to_compare & self.sessions.keys():
            session = self.sessions[node]
            if nodes_known and node not in self.placement.rules.nodes:
                self._refuse(session, "node_unknown", admission.unknown(node), admission.NODE_GONE_RETRY_SECONDS, now)
                continue
            if why := self._refused_identity(node, self.identities.of_session(node), now):
                self._refuse(session, "identity", why, identities.HELD_RETRY_SECONDS, now)
                continue
            self._grant(node)
            session.try_compare()
            session.diff(now)
            self._touched.add(session)
        self._to_compare.clear()

    # ---- EdgeNodes, and what people say by their annotations -----------------------------------------

    def edge_node_observed(
        self, node: str, observed: status_cache.Observed, annotations: Mapping[str, str], now: float
    ) -> list[str]:
        """An EdgeNode document as it stands, with its annotations.  Returns what to say of their old names, once."""
        renamed = self.node_controls.renamed(node, annotations)
        self._pass_on([of_node(node, "Warning", "AnnotationRenamed", text) for text in renamed], now)
        readable = edge_node.readable(observed)
        is_news = self.status_cache.observe((EDGE_NODES, "", node), node, readable)
        topics = edge_node.granted_topics(readable)
        self.grants.remember(node, topics)
        self.node_status.observed(node, readable, now, is_news=is_news, connected=node in self.sessions)
        self.identities.observed(node, observed.status, annotations)
        if is_news:
            self._topics_written(node, topics, now)
        before = self.node_controls.paused(node)
        if self.node_controls.observed(node, annotations, observed.status):
            self._controls_changed(node, before, now)
        self._changed()
        return renamed

    def edge_node_vanished(self, node: str, now: float, version: str = "") -> None:
        """Somebody deleted it: its annotations are gone; it is written again, unless its Node is gone, too."""
        if self.status_cache.vanished((EDGE_NODES, "", node), node, version):
            if self.desired_state.is_gone(node):
                self.identities.forget(node)
            elif node in self.placement.rules.nodes:
                self.node_status.changed(node)
            self._topics_written(node, frozenset(), now)
        before = self.node_controls.paused(node)
        if self.node_controls.vanished(node):
            self._controls_changed(node, before, now)

    def _controls_changed(self, node: str, before: str, now: float) -> None:
        """A pause came, changed or went, or a deletion guard was approved."""
        session = self.sessions.get(node)
        paused = self.node_controls.paused(node)
        if session is not None:
            self._deliver_events_of(session, now)
            session.pause(paused, now)
            self.sync_controller.pause_changed(session, now)
            self._touch(session)
        if paused != before and EDGE_NODES in self.status_cache.synced:
            reason, text = ("Paused", paused) if paused else ("Resumed", f"it was paused: {before}")
            self._pass_on([of_node(node, "Normal", reason, text)], now)
        self.node_status.changed(node)

    def _terms(self, node: str) -> edge_node.Terms:
        return edge_node.Terms(
            granted_topics=self.grants.ever.get(node, frozenset()),
            paused=self.node_controls.paused(node),
            guard=self.node_controls.guard(node),
            identity=self.identities.status(node),
        )

    def node_facts(self, node: str) -> edge_node.NodeFacts:
        """What is known of one node now."""
        return self.node_status.of(node, self.sessions.get(node), self._terms(node))

    # ---- documents of ours -----------------------------------------------------------------------

    def is_echo(self, name: status_cache.Name, version: str, read: Callable[[], status_cache.Observed]) -> bool:
        """Is this version of an ObjectSync no news?  Then the rest of it need not be read."""
        return self.status_cache.is_echo(name, version, read)

    def collection_restored(self, collection: str) -> None:
        """The API server is an older copy of itself: versions of these documents begin again."""
        self.status_cache.restored(collection)

    def document_observed(
        self, name: status_cache.Name, node: str, observed: status_cache.Observed, now: float
    ) -> None:
        """An ObjectSync as it stands; one that somebody else changed is set right with the next heartbeat."""
        if self.status_cache.observe(name, node, observed) and name[0] in self.status_cache.synced:
            self.sync_controller.edited(name, node)

    def document_vanished(self, name: status_cache.Name, node: str, now: float, version: str = "") -> None:
        """Somebody deleted an ObjectSync: it is written again if it still says something true."""
        if self.status_cache.vanished(name, node, version):
            self.sync_controller.vanished(node)

    def documents_named(self, collection: str, names: set[str], version: str, now: float) -> None:
        """A list of this version names these (``namespace/name``): other documents of ours were gone by then."""
        for name in self.status_cache.missing(collection, names, version):
            if collection == EDGE_NODES:
                self.edge_node_vanished(name[2], now)
            else:
                spec = self.status_cache.observed[name].head["spec"]
                self.document_vanished(name, str(spec.get("nodeName", "")), now)

    def documents_listed(self, collection: str, now: float) -> None:
        """The first list of our own documents is in: what was decided without them is decided again."""
        self._deliver_events(now)
        self.status_cache.synced.add(collection)
        self.counts.records_collected += self.sync_controller.collect()
        self.sync_controller.compare_all(now)
        if collection == EDGE_NODES:
            self.input_synced(EDGE_NODES)

    def document_answered(
        self,
        wanted: status_cache.Wanted,
        answer: status_cache.Answer,
        there: status_cache.Observed | None,
        now: float,
        *,
        reason: str = "",
    ) -> bool:
        """What became of one of the ``documents`` of a ``Ready``.  True: its refusal is worth a line in the log."""
        self.counts.record_writes[answer.value] += 1
        is_news = self.status_cache.answered(wanted, answer, there, now, reason=reason)
        if wanted.name[0] == EDGE_NODES:
            stands = self.status_cache.observed.get(wanted.name)
            if answer is status_cache.Answer.WRITTEN and stands is there and isinstance(wanted, EdgeNodeDocument):
                self._topics_written(wanted.node, wanted.facts.granted_topics, now)
            else:
                self._topics_written(wanted.node, edge_node.granted_topics(stands), now)
        return is_news

    def document_unwritten(self, wanted: status_cache.Wanted, now: float) -> None:
        """One of the ``documents`` of a ``Ready`` was not tried: it is wanted still."""
        self.status_cache.failed(wanted, now)

    # ---- sessions --------------------------------------------------------------------------------

    def open(
        self, node: str, hello: message.Hello, now: float, shown: identities.Shown | None = None
    ) -> NodeSession | message.Refuse:
        """An edge said hello; ``node`` is what its certificate ``shown`` says (or its word, where security is off)."""
        nodes_listed = "nodes" in self.placement.listed.inputs
        refusal = admission.refusal(
            node,
            hello,
            fence=self.fence,
            nodes=self.placement.rules.nodes if nodes_listed else None,
            others=len(self.sessions) - (node in self.sessions),
            nodes_max=self.settings.link.nodes_max,
        )
        if refusal is None and (why := self._refused_identity(node, shown, now)):
            refusal = message.Refuse(code="identity", reason=why, retry_after=identities.HELD_RETRY_SECONDS)
        if refusal is not None:
            self.counts.refused[refusal.code] = self.counts.refused.get(refusal.code, 0) + 1
            return refusal
        self._replace(node, hello, now)
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
        self.node_status.opened(node)
        self.cloud_events.node_connected(session.number, hello, now)
        self._touch(session)
        return session

    def _replace(self, node: str, hello: message.Hello, now: float) -> None:
        old = self.sessions.get(node)
        if old is not None:
            self._refuse(old, "replaced", REPLACED, REPLACED_RETRY_SECONDS, now)
            # Again and again, it is two machines.
            text = f"a newer connection took over, {now - old.link.last_received:.0f} s after the older one spoke"
            self._pass_on([of_node(node, "Normal", "Replaced", text)], now)
            self.cloud_events.node_replaced(old.hello, hello, now)

    def _refused_identity(self, node: str, shown: identities.Shown | None, now: float) -> str:
        """Why this certificate is not taken for this Node; empty when it is, or cannot be judged yet."""
        if not {"nodes", EDGE_NODES} <= self.placement.listed.inputs:
            return ""
        why = self.identities.judge(node, self.node_status.node_uids.get(node, ""), shown)
        if why:
            self.node_status.refused(node)
            self._pass_on([of_node(node, "Warning", "IdentityHeld", why)], now)
        return why

    def _refuse(self, session: NodeSession, code: Any, reason: str, retry_after: float, now: float) -> None:
        session.refuse(message.Refuse(code=code, reason=reason, retry_after=retry_after))
        self.counts.refused[code] = self.counts.refused.get(code, 0) + 1
        if self.sessions.get(session.node) is session:
            self._deliver_events_of(session, now)
            del self.sessions[session.node]
            self.node_status.ended(session.node)
            if code != "replaced":
                self.cloud_events.node_away(session.node, code, now)
        self._touch(session)

    def refuse(self, session: NodeSession, refusal: message.Refuse) -> None:
        """End a session with a reason of the shell's: it broke the protocol, or the hub stops."""
        session.refuse(refusal)
        self._touch(session)

    def closed(self, session: NodeSession, now: float) -> None:
        """The connection is gone.  Nothing of the session is kept; a newer one of the same node stays."""
        self._deliver_events_of(session, now)
        self._touched.discard(session)
        if self.sessions.get(session.node) is session:
            del self.sessions[session.node]
            self.node_status.ended(session.node)
            self.cloud_events.node_away(session.node, _ending(session), now)
            self._changed()

    def receive(self, session: NodeSession, header: message.FromEdge, body: bytes, now: float) -> None:
        """A frame that is not upstream.  Raises ``Malformed``: close the session with the reason."""
        if session.closing is not None:
            return  # it crossed the refusal, and a newer session may know better what the node holds
        if isinstance(header, message.Status):
            session.heard(header, now)
            self._reported(session.node, codec.decode_json(_status, body), now)
            return
        session.receive(header, body, now)
        self._touch(session)

    def _reported(self, node: str, status: message.EdgeStatus, now: float) -> None:
        """The edge's own report."""
        before = self.node_status.said(node, status)
        self.cloud_events.routes_reported(node, before.routes if before else {}, status.routes, now)
        self.cloud_events.queues_stalled(node, status, now)
        self._changed()

    def receive_part(self, session: NodeSession, now: float, *, may_send: bool) -> message.Keepalive | None:
        """A message takes long to arrive: the node is there, and is told that we are; its keepalive waits behind it."""
        return session.part_received(now, may_send=may_send)

    def frames(self, session: NodeSession, now: float, limit: int) -> list[Frame]:
        """At most about ``limit`` frames to send now, in this order.  Call again when the link has room."""
        found = session.frames(now, limit)
        if session.has_events:
            self._touch(session)
        return found

    def tick(self, session: NodeSession, now: float) -> bool:
        """False: the peer is silent, close the connection."""
        alive = session.tick(now)
        if session.has_events or session.has_frames:
            self._touch(session)
        return alive

    # ---- topics and messages up ------------------------------------------------------------------

    def upstream_received(self, session: NodeSession, header: message.Upstream, now: float) -> bool:
        """A batch that the shell publishes.  False: the session is refused, and takes nothing more."""
        if session.closing is not None:
            return False
        session.heard(header, now)
        return True

    def upstream_answered(self, session: NodeSession, answer: message.Ack | message.Nack) -> None:
        """What became of it: only after messaging stored it, or will not."""
        session.say(answer)
        self._touch(session)

    def messages_refused(self, node: str, refused: list[message.Refused], now: float) -> None:
        """Messages that will never be stored."""
        self.cloud_events.messages_refused(node, refused, now)
        self._changed()

    def _grant(self, node: str) -> None:
        if self.grants.widen(node):
            self.node_status.changed(node)

    def _topics_written(self, node: str, topics: frozenset[str], now: float) -> None:
        """Its EdgeNode names these as it stands in the API: EdgeRoutes that waited for that go to the node."""
        self.grants.written(node, topics)
        session = self.sessions.get(node)
        if session is not None:
            for key in session.unsynced.withheld():
                if not self.desired_state.withheld(node, key):
                    self._offer(node, key, now)

    def grants_known(self) -> str:
        """Why topics cannot be judged yet; empty when they can."""
        for name in ("nodes", "edgeroutes"):
            if name not in self.placement.listed.inputs:
                return f"{name} are not listed yet"
        return "" if EDGE_NODES in self.status_cache.synced else "edgenodes are not listed yet"

    # ---- time ------------------------------------------------------------------------------------

    def started(self, now: float) -> None:
        """This process is the hub now."""
        self.cloud_events.hub_started(self.fence, now)
        self._changed()

    def stopped(self, now: float) -> None:
        """It ends its service."""
        self.cloud_events.hub_stopped(self.fence, now)
        self._changed()

    def heartbeat(self, now: float) -> Summary | None:
        """Asked every second or so.  Returns how the nodes' return after our start ended, once."""
        self.sweep(now)
        self.report(now)
        self.cloud_events.flush(now)
        if self._reconciled is None:
            self._reconciled = now
        elif now - self._reconciled >= self.settings.reconcile.interval_seconds:
            self.reconcile(now)
        return self.node_status.returned(now)

    def sweep(self, now: float) -> None:
        """Write down who lags."""
        self._deliver_events(now)
        self.sync_controller.sweep(now, self.settings.record.pending_seconds)

    def report(self, now: float, *, last: bool = False) -> None:
        """Want the documents of nodes and rules that changed; the ``last`` time nothing waits until it settles."""
        self._deliver_events(now)
        self.rule_statuses.report(now)
        if self.node_status.is_reporting:
            for node in self.node_controls.take_news() & self.placement.rules.nodes.keys():
                self._pass_on(self.node_status.guard_changed(node, self.node_controls.guard(node)), now)
        notices = self.node_status.report(self.sessions, self._terms, now, last=last)
        self._pass_on(notices, now)
        for each in notices:
            if each.reason == "Away" and not self.node_status.was_met(each.name):
                self.cloud_events.node_away(each.name, "not_returned", now)
        self._changed()

    def reconcile(self, now: float) -> None:
        """The SyncController's slow pass: what events should have done already is done again where it was not."""
        if "nodes" not in self.placement.listed.inputs:
            return
        self._reconciled = now
        self._deliver_events(now)
        self._forget_expired(now)
        self.counts.records_collected += self.sync_controller.collect()
        self.sync_controller.reconcile(now)
        self._touched.update(self.sessions.values())
        self._changed()

    def _forget_expired(self, now: float) -> None:
        """Of vanished Nodes none of whose certificates can come again."""
        for node in self.identities.expired(self.clock.text(now)):
            if self.desired_state.is_gone(node):
                self.identities.forget(node)
                self.node_status.forget(node, self._terms(node), now)


def _ending(session: NodeSession) -> str:
    return "connection_ended" if session.closing is None else session.closing.code
