"""Passes the outcomes of deliveries and sessions on to status, Kubernetes Events, CloudEvents and totals.

delivery events of a session ─delivered─▶ SyncController ─Notices─▶ KubeEvents
opened, replaced, ended      ───────────▶       └─────────────────▶ CloudEvents
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.counts import Counts
from fairlead_hub.delivery import delivery_events
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.events.cloud_events import CloudEvents
from fairlead_hub.events.kube_events import KubeEvents, Regarding
from fairlead_hub.status.status_cache import Notice, node_notice
from fairlead_hub.status.sync_controller import SyncController
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import durations, message


class Reports:
    """See the module docstring.  ``now`` is always seconds of one monotonic clock."""

    def __init__(
        self,
        sync_controller: SyncController,
        kube_events: KubeEvents,
        cloud_events: CloudEvents,
        clock: WallClock,
        counts: Counts,
    ) -> None:
        self.sync_controller = sync_controller
        self._kube_events = kube_events
        self._clock = clock
        self.cloud_events = cloud_events
        self._counts = counts

    def delivered(self, session: NodeSession, now: float) -> None:
        """Report the outcomes of the session's deliveries since the last call, as status and events."""
        events = session.keys.take_events()
        if events:
            delivery_events.count(events, self._counts)
            if notices := self.sync_controller.delivered(session, events, now):
                self.notices(notices, now)
            self.cloud_events.delivered(session.node, events, now)

    def delivered_all(self, sessions: Iterable[NodeSession], now: float) -> None:
        """Like ``delivered``, for all of these sessions."""
        for session in sessions:
            if session.keys.events:
                self.delivered(session, now)

    def notices(self, notices: Iterable[Notice], now: float) -> None:
        """Record notices as Kubernetes Events."""
        for each in notices:
            regarding = Regarding(kind=each.kind, namespace=each.namespace, name=each.name)
            self._kube_events.note(regarding, each.type, each.reason, each.message, now, self._clock.text(now))
            if each.kind == "EdgeNode":
                self.cloud_events.node_controlled(each.name, each.reason, each.message, now)

    def status_refused(self, node: str, live: LiveObject, code: str, reason: str, now: float) -> None:
        """A status that a node reported will never be written: record an Event on the object itself."""
        at = live.resource
        regarding = Regarding(
            kind=live.kind.kind, namespace=at.namespace, name=at.name, api_version=at.api_version, uid=live.uid
        )
        text = f"the status that node {node} reported is refused: {code}: {reason}"
        self._kube_events.note(regarding, "Warning", "StatusFromEdgeRefused", text, now, self._clock.text(now))

    # ---- sessions --------------------------------------------------------------------------------

    def opened(self, session: NodeSession, hello: message.Hello, now: float) -> None:
        self._counts.opened()
        self.sync_controller.opened(session.node)
        self.cloud_events.node_connected(session.number, hello, now)

    def replaced(self, old: NodeSession, hello: message.Hello, now: float) -> None:
        """A newer connection of the same node took over.  If this repeats, two machines share the identity."""
        silent = durations.span(now - old.link.last_received)
        text = f"a newer connection took over, {silent} after the last frame of the older one"
        self.notices([node_notice(old.node, "Normal", "Replaced", text)], now)
        self.cloud_events.node_replaced(old.hello, hello, now)

    def ended(self, session: NodeSession, why: str, now: float) -> None:
        """The node's session ended; ``why`` is empty if a newer one replaces it."""
        self.sync_controller.ended(session.node, now)
        if why:
            self.cloud_events.node_away(session.node, why, now)

    def refused(self, code: str) -> None:
        """A session, or an attempt to open one, was refused."""
        self._counts.refused_session(code)
