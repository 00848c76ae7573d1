"""The hub's core: one way in, typed methods with the time; one way out, ``take_ready``.  Pure; ``io`` acts on it.

    cluster: put_object, set_rule, set_node, …   ┐            ┌ sessions with frames to send
    edges:   open, receive, tick, closed         ├──▶ Hub ──▶ │ documents to write        ``take_ready(now)``
    API:     document_observed, _answered, …     │            │ Kubernetes Events
    time:    heartbeat                           ┘            └ CloudEvents

Inside: ObjectCache and Placement say who is concerned by a change, NodeSession brings the node up to date, its delivery
events become status (SyncController), and what is worth an event is passed on.  There is no queue for a node that is
away: what it should hold is derived from object cache and rules when it comes back.  What follows from each change is
in ``core``; this module joins its halves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.content import GroupKind, LiveObject, ServedKind
from fairlead_hub.cluster.desired_state import DesiredState
from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.cluster.spec_check import SpecCheck
from fairlead_hub.core.certificate_changes import CertificateChanges
from fairlead_hub.core.document_changes import DocumentChanges
from fairlead_hub.core.edge_node_changes import EdgeNodeChanges
from fairlead_hub.core.identity_reports import IdentityReports
from fairlead_hub.core.node_authorities import NodeAuthorities
from fairlead_hub.core.node_changes import NodeChanges
from fairlead_hub.core.node_terms import NodeTerms
from fairlead_hub.core.object_changes import ObjectChanges
from fairlead_hub.core.open_sessions import OpenSessions
from fairlead_hub.core.passes import Passes
from fairlead_hub.core.reports import Reports
from fairlead_hub.core.rule_changes import RuleChanges
from fairlead_hub.core.session_lifecycle import SessionLifecycle
from fairlead_hub.counts import Counts
from fairlead_hub.delivery.frames import Frame
from fairlead_hub.delivery.opening import identities
from fairlead_hub.delivery.pause import NodeControls
from fairlead_hub.delivery.send_rate import SendRate
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.events.cloud_events import CloudEvents
from fairlead_hub.events.kube_events import KubeEvents
from fairlead_hub.identity.joining import KnownIdentity
from fairlead_hub.identity.late_renewal import Claim, RenewalRefusal
from fairlead_hub.identity.renewal import RenewalPlan
from fairlead_hub.ready import Ready
from fairlead_hub.rule_reader import RuleReader
from fairlead_hub.settings import HubSettings
from fairlead_hub.status import edge_node, status_cache
from fairlead_hub.status.debounce import ReturnSummary
from fairlead_hub.status.edge_routes_controller import EdgeRoutesController
from fairlead_hub.status.node_status import NodeStatus
from fairlead_hub.status.object_sync_status import ObjectSyncRecords
from fairlead_hub.status.rule_statuses import RuleStatuses
from fairlead_hub.status.sync_controller import SyncController
from fairlead_hub.upstream.publish_batch import TopicGrants
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import message
from fairlead_wire.link import peer_json

_status = msgspec.json.Decoder(message.EdgeStatus)


class Hub:
    """See the module.  ``now`` is always seconds of one monotonic clock."""

    def __init__(
        self,
        settings: HubSettings,
        *,
        name: str,
        fence: int,
        clock: WallClock,
        draw: Callable[[], float] = lambda: 0.5,
    ) -> None:
        """``draw`` gives random numbers from [0, 1)."""
        self.settings, self.name, self.clock = settings, name, clock
        self.counts = counts = Counts()
        # What the cluster says.
        self.object_cache = ObjectCache()
        self.placement = placement = Placement(self.object_cache, settings.delivery.policy())
        placement.paused_kinds.wait()
        self.grants = TopicGrants(placement)
        self.desired_state = desired = DesiredState(self.object_cache, placement, self.grants.unwritten)
        # The nodes.
        limit = settings.rate_limit
        rate = SendRate(limit.objects_per_second, limit.burst) if limit.objects_per_second else None
        self._open = OpenSessions(rate)
        self.sessions: Mapping[str, NodeSession] = self._open.by_node
        self.identities = identities.Identities(accept_recreated=settings.link.recreated_nodes == "accept")
        self.node_controls = NodeControls(settings.deletion_guard, text=clock.text)
        # What we write.
        self.status_cache = cache = status_cache.StatusCache(fence)
        self.edge_routes = routes = EdgeRoutesController(self.sessions, placement, cache)
        self.rule_statuses = RuleStatuses(placement, routes, cache, clock)
        self.object_syncs = syncs = ObjectSyncRecords(cache, desired.kinds, clock)
        self.node_status = nodes = NodeStatus(name, cache=cache, placement=placement, clock=clock, edge_routes=routes)
        self.sync_controller = controller = SyncController(
            self.sessions, desired_state=desired, object_syncs=syncs, node_status=nodes, settings=settings
        )
        self.kube_events = KubeEvents()
        has_topic = settings.messaging_url is not None and bool(settings.events.topic)
        self.cloud_events = CloudEvents(clock, desired.kinds, enabled=has_topic or settings.console.enabled)
        # What follows from what.
        self._reports = reports = Reports(controller, self.kube_events, self.cloud_events, clock, counts)
        self._terms = terms = NodeTerms(self.identities, self.node_controls, self.grants, nodes)
        self.identity_reports = IdentityReports(reports, self._open)
        self.renewal_plan = RenewalPlan(clock, draw)
        self.node_authorities = NodeAuthorities(self._open, self.identities, self.renewal_plan)
        self.certificates = CertificateChanges(self._open, terms, reports, clock, late_days=settings.identity.late_days)
        self._lifecycle = SessionLifecycle(
            settings, name, sessions=self._open, desired_state=desired, terms=terms, reports=reports
        )
        self.rules = RuleReader(placement)
        self._rules = RuleChanges(self.rules, self.rule_statuses, terms, reports)
        self._objects = ObjectChanges(self._open, desired, self._rules, terms, counts)
        self._nodes = NodeChanges(placement.rules, self._lifecycle, terms, controller, counts)
        self._edge_nodes = EdgeNodeChanges(cache, self._open, terms, reports)
        self._documents = DocumentChanges(cache, controller, self._edge_nodes, counts)
        self._passes = Passes(self._open, controller, terms, reports, counts)
        self._reconciled: float | None = None

    @property
    def fence(self) -> int:
        return self.status_cache.fence

    def raise_fence(self, fence: int) -> None:
        """The Lease was taken, or taken anew, under this number."""
        self.status_cache.raise_fence(fence)

    # ---- the way out -----------------------------------------------------------------------------

    def subscribe(self, notify: Callable[[], None]) -> None:
        """``notify`` is called once when there may be something to take, and again after each ``take_ready``."""
        self._open.subscribe(notify)

    def take_ready(self, now: float, *, documents: bool = True, kube_events: bool = True) -> Ready:
        """What to do next.  What the shell has no time for now (False) waits here, where the newest replaces older."""
        self._open.taking()
        self.sync_controller.away.compare(self._open.to_compare)
        self._lifecycle.compare_again(now)
        self._passes.deliver_events(now)
        self._open.take_turns(now)
        return Ready(
            sessions=[session for session in self._open.take() if session.has_frames],
            documents=self._documents.take(now) if documents else [],
            kube_events=self.kube_events.take() if kube_events else [],
            cloud_events=self.cloud_events.take(),
        )

    def next_turn(self, now: float) -> float | None:
        """When ``take_ready`` has something that only waited for the overall rate limit; None: nothing waits for it."""
        return self._open.next_turn(now)

    @property
    def send_rate(self) -> SendRate | None:
        """The overall limit; None: there is none."""
        return self._open.rate

    # ---- the cluster: objects and lists ----------------------------------------------------------

    def put_object(self, live: LiveObject, now: float) -> None:
        if (change := self._objects.put(live, now)) is not None:
            self.sync_controller.object_changed(change, now)

    def remove_object(self, key: str, uid: str, now: float) -> None:
        if (change := self._objects.remove(key, uid, now)) is not None:
            self.sync_controller.object_changed(change, now)

    def relist(self, kind: GroupKind, uids: Mapping[str, str], now: float) -> None:
        """A list is complete: what we had and it does not name is gone."""
        for change in self._objects.relist(kind, uids, now):
            self.sync_controller.object_changed(change, now)

    def know_kind(self, kind: ServedKind) -> None:
        """Discovery found what a rule names."""
        self.desired_state.know_kind(kind)

    def kind_synced(self, kind: GroupKind) -> None:
        self._objects.kind_synced(kind)

    def kind_unsynced(self, kind: GroupKind) -> None:
        """The watch broke in a way that needs a new list; until then nothing of it is taken away."""
        self._objects.kind_unsynced(kind)

    def kind_frozen(self, kind: GroupKind, reason: str) -> None:
        """It cannot be listed: what edges hold of it stays."""
        self._objects.kind_frozen(kind, reason)

    def kind_dropped(self, kind: GroupKind, now: float) -> None:
        """No rule names it any more."""
        self._objects.kind_dropped(kind)

    def kind_served(self, kind: GroupKind, answers: Mapping[str, str]) -> None:
        """What the API server says of the apiVersions rules name for a kind: "" it serves this one, or why not."""
        self._objects.kind_served(kind, answers)

    def input_synced(self, name: str) -> None:
        """One of ``listed.INPUTS`` is listed."""
        self._objects.input_synced(name)

    # ---- the cluster: Nodes and rules ------------------------------------------------------------

    def set_node(self, name: str, uid: str, labels: Mapping[str, str], now: float) -> None:
        """An edge Node exists, as it is now.  A new UID is a new node: what stands for the old one goes."""
        if self._nodes.set_node(name, uid, labels, now):
            self._open.compare((name,))

    def drop_node(self, name: str, now: float) -> None:
        """The Node was deleted, or is no edge any more."""
        self._nodes.drop_node(name, now)

    def set_rule(self, rule: sync_rule.Rule, now: float) -> None:
        self._open.compare(self._rules.set_rule(rule, now))

    def break_rule(self, found: sync_rule.BrokenRule, now: float) -> None:
        """It cannot be read: what it selected goes on, and nothing of that is removed until it is mended."""
        self._open.compare(self._rules.break_rule(found, now))

    def drop_rule(self, name: str) -> None:
        self._rules.drop_rule(name)
        self._open.compare_all()

    def rule_checked(self, check: SpecCheck) -> None:
        """A handler held a SyncRule or EdgeRoutes object against the model of its definition."""
        self.rule_statuses.checked(check)

    def rule_observed(self, collection: str, name: str, observed: status_cache.Observed) -> None:
        """The status of a SyncRule or EdgeRoutes object as it stands."""
        self.rule_statuses.observed(collection, name, observed)

    # ---- documents of ours -----------------------------------------------------------------------

    def edge_node_observed(
        self, node: str, observed: status_cache.Observed, annotations: Mapping[str, str], now: float
    ) -> None:
        """An EdgeNode document as it stands, with its annotations."""
        self._edge_nodes.observed(node, observed, annotations, now)
        self._lifecycle.revoked(node, now)
        self._lifecycle.resync(node, annotations, now)

    def edge_node_vanished(self, node: str, now: float, version: str = "") -> None:
        """It was deleted: its annotations are gone; it is written again, unless its Node is gone, too."""
        self._edge_nodes.vanished(node, now, version)

    def is_echo(self, name: status_cache.Name, version: str, read: Callable[[], status_cache.Observed]) -> bool:
        """Is this version of an ObjectSync no news?  Then the rest of it need not be read."""
        return self.status_cache.is_echo(name, version, read)

    def collection_restored(self, collection: str) -> None:
        """The API server is an older copy of itself: versions of these documents begin again."""
        self.status_cache.restored(collection)

    def document_observed(
        self, name: status_cache.Name, node: str, observed: status_cache.Observed, now: float
    ) -> None:
        """An ObjectSync as it stands; one that others changed is set right with the next heartbeat."""
        self._documents.observed(name, node, observed)

    def document_vanished(self, name: status_cache.Name, node: str, now: float, version: str = "") -> None:
        """An ObjectSync was deleted: it is written again if it still says something true."""
        self._documents.vanished(name, node, version)

    def documents_named(self, collection: str, names: set[str], version: str, now: float) -> None:
        """A list of this version names these (``namespace/name``): other documents of ours were gone by then."""
        self._documents.named(collection, names, version, now)

    def documents_listed(self, collection: str, now: float) -> None:
        """The first list of our own documents is in: what was decided without them is decided again."""
        self._passes.deliver_events(now)
        if collection not in self.status_cache.synced:
            self._objects.paused_before(self.object_syncs.paused_kinds(collection, self.placement.listed.kinds))
        self._documents.listed(collection, now)
        if self.object_syncs.listed:
            self._objects.all_paused_known()
        if collection == EDGE_NODES:
            self.input_synced(EDGE_NODES)

    def document_answered(
        self,
        wanted: status_cache.Wanted,
        answer: status_cache.WriteOutcome,
        there: status_cache.Observed | None,
        now: float,
        *,
        reason: str = "",
    ) -> bool:
        """The outcome of a write of ``Ready.documents``.  True: its refusal is worth a line in the log."""
        return self._documents.answered(wanted, answer, there, now, reason=reason)

    def document_unwritten(self, wanted: status_cache.Wanted, now: float) -> None:
        """One of the ``documents`` of a ``Ready`` was not tried: it is wanted still."""
        self.status_cache.failed(wanted, now)

    def known_identity(self, node: str) -> KnownIdentity:
        """What is known of a name that a device wants to have."""
        return self._terms.known_identity(node, self.placement.listed.inputs)

    def node_facts(self, node: str) -> edge_node.NodeFacts:
        """What is known of one node now."""
        return self.node_status.of(node, self.sessions.get(node), self._terms.of(node))

    # ---- sessions --------------------------------------------------------------------------------

    @property
    def judges_certificates(self) -> bool:
        """It is known which are held and revoked: before, sessions of them are refused as ``starting``."""
        return not self._terms.JUDGED_BY - self.placement.listed.inputs

    def open(
        self, node: str, hello: message.Hello, now: float, shown: identities.Shown | None = None
    ) -> NodeSession | message.Refuse:
        """An edge said hello; ``node`` is what its certificate ``shown`` says (or its word, where security is off)."""
        after = None if shown is None else self.renew_after(shown, now)
        opened = self._lifecycle.open(node, hello, shown, self.fence, now, renew_after=after)
        if isinstance(opened, NodeSession):
            self.certificates.opened(node, hello.store_epoch)
        return opened

    def refuse(self, session: NodeSession, refusal: message.Refuse) -> None:
        """End a session with a reason of the shell's: it broke the protocol, or the hub stops."""
        session.refuse(refusal)
        self._open.touch(session)

    def closed(self, session: NodeSession, now: float) -> None:
        """The connection is gone.  Nothing of the session is kept; a newer one of the same node stays."""
        self._lifecycle.closed(session, now)
        self.node_authorities.closed(session)

    def receive(self, session: NodeSession, header: message.FromEdge, body: bytes, now: float) -> None:
        """A frame that is not upstream.  Raises ``Malformed``: close the session with the reason."""
        if session.closing is not None:
            return  # it crossed the refusal, and a newer session may know better what the node holds
        if isinstance(header, message.Status):
            session.heard(header, now)
            status = peer_json.decode(_status, body)
            self._edge_nodes.said(session.node, status, now)
            self.node_authorities.said(session, status.authorities)
            return
        session.receive(header, body, now)
        self._open.touch(session)

    def receive_part(self, session: NodeSession, now: float, *, may_send: bool) -> message.Keepalive | None:
        """A message takes long to arrive: the node is there, and hears that we are; its keepalive waits behind it."""
        return session.part_received(now, may_send=may_send)

    def frames(self, session: NodeSession, now: float, limit: int) -> list[Frame]:
        """At most about ``limit`` frames to send now, in this order.  Call again when the link has room."""
        found = session.frames(now, limit)
        self._open.sent(session)
        return found

    def tick(self, session: NodeSession, now: float) -> bool:
        """False: the peer is silent, close the connection."""
        alive = session.tick(now)
        if session.has_events or session.has_frames:
            self._open.touch(session)
        return alive

    def renew_after(self, shown: identities.Shown, now: float) -> float | None:
        """When a node with this certificate should ask for the next one, in seconds; None: this hub signs none."""
        return self.renewal_plan.renew_after(issued=shown.issued, expires=shown.expires, issuer=shown.issuer, now=now)

    def judge_late(self, claim: Claim, now: float, *, given_to: str = "") -> RenewalRefusal | None:
        """A device away for too long has proved this; None: it may have a new certificate."""
        nodes = self.placement.rules.nodes if self.judges_certificates else None
        return self.certificates.judge_late(claim, nodes, now, given_to=given_to)

    def renewal_received(self, session: NodeSession, header: message.Renew, now: float) -> bool:
        """A request for a certificate, which the shell answers.  False: the session is refused, and gets none."""
        if session.closing is not None:
            return False
        session.heard(header, now)
        return True

    def renewal_answered(
        self, session: NodeSession, answer: message.Issued | message.Nack, content: bytes = b""
    ) -> None:
        """The outcome."""
        session.say(answer, content)
        self._open.touch(session)

    # ---- topics and messages up ------------------------------------------------------------------

    def upstream_received(
        self, session: NodeSession, header: message.Upstream | message.AskTables | message.Report, now: float
    ) -> bool:
        """A batch that the shell publishes, or answers.  False: the session is refused, and takes nothing more."""
        if session.closing is not None:
            return False
        session.heard(header, now)
        return True

    def upstream_answered(
        self, session: NodeSession, answer: message.Ack | message.Nack | message.Tables, content: bytes = b""
    ) -> None:
        """The answer: only after messaging, or the API server, has it, or will not; or what tables have."""
        session.say(answer, content)
        self._open.touch(session)

    def say(self, session: NodeSession, header: message.Input | message.AskInputs, content: bytes = b"") -> None:
        """A message for a module, or a question about some."""
        session.say(header, content)
        self._open.touch(session)

    def report_refused(self, session: NodeSession, live: LiveObject, code: str, reason: str, now: float) -> None:
        """The status that a node reported of this object will never be written."""
        self._reports.status_refused(session.node, live, code, reason, now)
        self._open.changed()

    def messages_refused(self, node: str, refused: list[message.RefusedItem], now: float) -> None:
        """Messages that will never be stored."""
        self.cloud_events.messages_refused(node, refused, now)
        self._open.changed()

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
        self._open.changed()

    def stopped(self, now: float) -> None:
        """It ends its service."""
        self.cloud_events.hub_stopped(self.fence, now)
        self._open.changed()

    def heartbeat(self, now: float) -> ReturnSummary | None:
        """Asked every second or so.  Returns how the nodes' return after our start ended, once."""
        self.sweep(now)
        self.report(now)
        self.node_authorities.heartbeat(now)
        self.cloud_events.flush(now)
        if self._reconciled is None:
            self._reconciled = now
        elif now - self._reconciled >= self.settings.reconcile.interval_seconds:
            self.reconcile(now)
        return self.node_status.returned(now)

    def sweep(self, now: float) -> None:
        """Write down which nodes lag, of those that are connected and of those that are away."""
        self._passes.sweep(now, self.settings.record.pending_seconds)

    def report(self, now: float, *, last: bool = False) -> None:
        """Want the documents of nodes and rules that changed; the ``last`` time nothing waits until it settles."""
        self._passes.deliver_events(now)
        self.rule_statuses.report(now)
        self._passes.report(now, last=last)

    def reconcile(self, now: float) -> None:
        """The SyncController's slow pass: what events should have done already is done again where it was not."""
        if self.placement.listed.nodes:
            self._reconciled = now
            self._passes.reconcile(now, self.clock.text(now))
