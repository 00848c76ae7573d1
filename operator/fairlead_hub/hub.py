"""The hub's core: changes come in through four parts, and ``take_ready`` returns what to do.  No I/O; ``io`` does that.

    watches:  hub.cluster.put_object(…), hub.documents.observed(…)  ┐          ┌ frames of sessions, connections to end
    nodes:    hub.sessions.receive(…), .room(…), .closed(…)         ├─▶ Hub ──▶│ documents to write
    signer:   hub.certificates.renewed(…), .judge_late(…)           │          │ Kubernetes Events, CloudEvents
    time:     hub.heartbeat(…)                                      ┘          └ when there is more  ``take_ready(now)``

``Ready`` is complete.  The shell carries it out without calling the core and names sessions by ``SessionRef``; it reads
what it shows to people from ``hub.view``.  ``sessions.receive`` immediately returns requests that need I/O (messages
up, positions of tables, reported status, certificates, answers of modules), and ``sessions.say`` takes their answers.

Back-pressure.  A session whose connection has no room (``sessions.room``) yields no frames.  One that has room yields
at most ``sessions.TURN_FRAMES`` per ``take_ready``; if it has more, ``Ready.next_turn`` is now, so that all other
sessions get their turn in between, and the connection can report that it is full before the next one.

There is no queue for a node that is away: what it should hold is derived from object cache and rules when it returns
(``delivery.anti_entropy``).

The path of one ConfigMap update, from the API server to its ObjectSync:

     1  io/cluster/reflector.Reflector.run                   a line of the watch arrives
     2  io/cluster/watches._KindSink.on_object               it is read
     3  cluster/content.build                                content, digest, packed once for all nodes
     4  core/cluster.ClusterChanges.put_object               into the core
     5  cluster/object_cache.ObjectCache.put                 is it news?
     6  core/cluster.ClusterChanges._follow                  what follows: which nodes (``placement.concerned``)
     7  delivery/node_keys.NodeKeys.offer                    queued for each session; the shell is notified
     8  io/ready_loop.ReadyLoop.perform                      at most 4 ms later
     9  hub.Hub.take_ready, core/sessions.Sessions.take      sessions that were touched
    10  delivery/node_keys.NodeKeys.frames                   the newest content, in flight
    11  io/link/link_server.LinkServer.send                  encoded, written
    12  io/link/link_server.LinkServer._receive              the node's ack
    13  core/sessions.Sessions.receive                       by ``_HANDLERS``
    14  delivery/node_keys.NodeKeys.acked                    held; ``AckedByEdge``
    15  io/ready_loop.ReadyLoop.perform, Hub.take_ready      the next turn: ``Reports.delivered``
    16  status/sync_controller.SyncController.delivered      what its ObjectSync should say
    17  status/status_cache.StatusCache.want, take           when the writer is idle
    18  io/cluster/status_writer.StatusWriter.push           written
    19  core/documents.Documents.answered                    done; its echo in the watch is no news
"""

from __future__ import annotations

from collections.abc import Callable

from fairlead_hub.cluster.desired_state import DesiredState
from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.core.certificates import Certificates
from fairlead_hub.core.cluster import ClusterChanges
from fairlead_hub.core.documents import Documents
from fairlead_hub.core.node_terms import NodeTerms
from fairlead_hub.core.open_sessions import OpenSessions
from fairlead_hub.core.reports import Reports
from fairlead_hub.core.rules import RuleReader
from fairlead_hub.core.sessions import Sessions
from fairlead_hub.counts import Counts
from fairlead_hub.delivery.identities import Identities
from fairlead_hub.delivery.pause import NodeControls
from fairlead_hub.delivery.send_rate import SendRate
from fairlead_hub.events.cloud_events import CloudEvents
from fairlead_hub.events.kube_events import KubeEvents
from fairlead_hub.identity.renewal import RenewalPlan
from fairlead_hub.publish_batch import TopicGrants
from fairlead_hub.ready import Ready
from fairlead_hub.settings import HubSettings
from fairlead_hub.status.debounce import ReturnSummary
from fairlead_hub.status.edge_routes_controller import EdgeRoutesController
from fairlead_hub.status.node_status import NodeStatus
from fairlead_hub.status.object_sync_status import ObjectSyncRecords
from fairlead_hub.status.rule_statuses import RuleStatuses
from fairlead_hub.status.status_cache import StatusCache
from fairlead_hub.status.sync_controller import SyncController
from fairlead_hub.view import HubView
from fairlead_hub.wall_clock import WallClock


class Hub:
    """See the module docstring.  ``now`` is always seconds of one monotonic clock."""

    def __init__(
        self,
        settings: HubSettings,
        *,
        name: str,
        fence: int,
        clock: WallClock,
        draw: Callable[[], float] = lambda: 0.5,
    ) -> None:
        """``draw`` returns random numbers from [0, 1)."""
        self.settings, self.name, self.clock = settings, name, clock
        self.counts = counts = Counts()
        # The state of the cluster.
        self.object_cache = ObjectCache()
        self.placement = placement = Placement(self.object_cache, settings.delivery.policy())
        placement.paused_kinds.wait()
        self.grants = TopicGrants(placement)
        self.desired_state = desired = DesiredState(self.object_cache, placement, self.grants.unwritten)
        # The nodes.
        limit = settings.rate_limit
        rate = SendRate(limit.objects_per_second, limit.burst) if limit.objects_per_second else None
        self.open_sessions = index = OpenSessions(rate)
        plan = RenewalPlan(clock, draw)
        self.identities = Identities(plan, accept_recreated=settings.link.recreated_nodes == "accept")
        self.node_controls = NodeControls(settings.deletion_guard, text=clock.text)
        # What the hub writes.
        self.status_cache = cache = StatusCache(fence)
        self.edge_routes = routes = EdgeRoutesController(index.by_node, placement, cache)
        self.rule_statuses = RuleStatuses(placement, routes, cache, clock)
        self.object_syncs = syncs = ObjectSyncRecords(cache, desired.kinds, clock)
        self.node_status = nodes = NodeStatus(name, cache=cache, placement=placement, clock=clock, edge_routes=routes)
        self.sync_controller = controller = SyncController(
            index.by_node, desired_state=desired, object_syncs=syncs, node_status=nodes, settings=settings
        )
        self.kube_events = KubeEvents()
        has_topic = settings.messaging_url is not None and bool(settings.events.topic)
        self.cloud_events = CloudEvents(clock, desired.kinds, enabled=has_topic or settings.console.enabled)
        # The consequences of changes.
        self._reports = reports = Reports(controller, self.kube_events, self.cloud_events, clock, counts)
        self._terms = terms = NodeTerms(self.identities, self.node_controls, self.grants, nodes)
        self.sessions = Sessions(settings, name, index=index, desired_state=desired, terms=terms, reports=reports)
        rules = RuleReader(placement, self.rule_statuses)
        self.cluster = ClusterChanges(desired, rules, self.sessions, reports, counts)
        self.documents = Documents(self.rule_statuses, self.cluster, self.sessions, reports, counts)
        self.certificates = Certificates(self.sessions, reports, clock, late_days=settings.identity.late_days)
        self.view = HubView(
            settings,
            name,
            desired_state=desired,
            sessions=self.sessions,
            certificates=self.certificates,
            rule_statuses=self.rule_statuses,
            reports=reports,
            counts=counts,
            clock=clock,
        )
        self._reconciled: float | None = None

    @property
    def fence(self) -> int:
        return self.status_cache.fence

    def raise_fence(self, fence: int) -> None:
        """The Lease was taken, or taken again, under this number."""
        self.status_cache.raise_fence(fence)

    # ---- the way out -----------------------------------------------------------------------------

    def subscribe(self, notify: Callable[[], None], at_once: Callable[[], None] | None = None) -> None:
        """``notify`` is called once when there may be something to take, and again after each ``take_ready``.

        ``at_once`` is called instead if a connection waits for what is taken: that need not be paced.
        """
        self.open_sessions.subscribe(notify, at_once)

    def take_ready(self, now: float, *, documents: bool = True, kube_events: bool = True) -> Ready:
        """What to do next.

        Kinds of output the shell does not want now (False) stay here, where newer ones replace older ones.
        """
        self.open_sessions.taking()
        self.sync_controller.away.compare(self.open_sessions.to_compare)
        self.sessions.tick(now)
        self.sessions.compare_again(now)
        self._reports.delivered_all(self.open_sessions.touched, now)
        sessions, has_more = self.sessions.take(now)
        return Ready(
            sessions=sessions,
            documents=self.documents.take(now) if documents else [],
            kube_events=self.kube_events.take() if kube_events else [],
            cloud_events=self.cloud_events.take(),
            next_turn=now if has_more else self.open_sessions.next_due(now),
        )

    # ---- time ------------------------------------------------------------------------------------

    def started(self, now: float) -> None:
        """This process is the hub now."""
        self.cloud_events.hub_started(self.fence, now)
        self.open_sessions.changed()

    def stopped(self, now: float) -> None:
        """The hub ends its service."""
        self.cloud_events.hub_stopped(self.fence, now)
        self.open_sessions.changed()

    def heartbeat(self, now: float) -> ReturnSummary | None:
        """Call about every second.  Returns once the summary of how the nodes returned after our start."""
        self.sweep(now)
        self.report(now)
        self.certificates.heartbeat(now)
        self.cloud_events.flush(now)
        if self._reconciled is None:
            self._reconciled = now
        elif now - self._reconciled >= self.settings.reconcile.interval_seconds:
            self.reconcile(now)
        return self.node_status.returned(now)

    def sweep(self, now: float) -> None:
        """Record which nodes lag, among those that are connected and those that are away."""
        self._reports.delivered_all(self.open_sessions.touched, now)
        self.sync_controller.sweep(now, self.settings.record.pending_seconds)

    def report(self, now: float, *, last: bool = False) -> None:
        """Queue the documents of nodes and rules that changed; with ``last``, without waiting for them to settle."""
        self._reports.delivered_all(self.open_sessions.touched, now)
        self.rule_statuses.report(now)
        status, controls = self.node_status, self.node_controls
        if status.is_reporting:
            for node in sorted(controls.take_news()):
                if not status.is_gone(node):
                    self._reports.notices(status.guard_changed(node, controls.guard(node)), now)
        notices = status.report(self.open_sessions.by_node, self._terms.of, now, last=last)
        self._reports.notices(notices, now)
        for each in notices:
            if each.reason == "Away" and not status.was_met(each.name):
                self.cloud_events.node_away(each.name, "not_returned", now)
        self.open_sessions.changed()

    def reconcile(self, now: float) -> None:
        """The SyncController's slow pass: repeats what events should have done already, wherever it was not done."""
        if not self.placement.listed.nodes:
            return
        self._reconciled = now
        self._reports.delivered_all(self.open_sessions.touched, now)
        self._terms.forget_expired(now, self.clock.text(now))
        self.counts.collected(self.sync_controller.collect())
        self.sync_controller.reconcile(now)
        self.open_sessions.touch_all()
