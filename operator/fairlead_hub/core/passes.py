"""What time alone asks of the core: what lags is written down, changed nodes are reported, and the slow pass.

every second             ─sweep, report─▶ ObjectSync of what lags, EdgeNodes that changed, Events about nodes
every reconcile interval ─reconcile─────▶ what events should have done already is done again where it was not
"""

from __future__ import annotations

from fairlead_hub.core.node_terms import NodeTerms
from fairlead_hub.core.open_sessions import OpenSessions
from fairlead_hub.core.reports import Reports
from fairlead_hub.counts import Counts
from fairlead_hub.status.sync_controller import SyncController


class Passes:
    """See the module.  ``now`` is always seconds of one monotonic clock."""

    def __init__(
        self,
        sessions: OpenSessions,
        sync_controller: SyncController,
        terms: NodeTerms,
        reports: Reports,
        counts: Counts,
    ) -> None:
        self._sessions = sessions
        self._sync_controller = sync_controller
        self._terms = terms
        self._reports = reports
        self._counts = counts

    def deliver_events(self, now: float) -> None:
        """Collect the delivery events of every session that was touched."""
        for session in self._sessions.touched:
            self._reports.delivered(session, now)

    def sweep(self, now: float, pending_seconds: float) -> None:
        """Write down which nodes lag longer than this."""
        self.deliver_events(now)
        self._sync_controller.sweep(now, pending_seconds)

    def report(self, now: float, *, last: bool) -> None:
        """Want the documents of nodes that changed; the ``last`` time nothing waits until it settles."""
        status, controls = self._terms.node_status, self._terms.controls
        if status.is_reporting:
            for node in sorted(controls.take_news()):
                if not status.is_gone(node):
                    self._reports.notices(status.guard_changed(node, controls.guard(node)), now)
        notices = status.report(self._sessions.by_node, self._terms.of, now, last=last)
        self._reports.notices(notices, now)
        for each in notices:
            if each.reason == "Away" and not status.was_met(each.name):
                self._reports.cloud_events.node_away(each.name, "not_returned", now)
        self._sessions.changed()

    def reconcile(self, now: float, text: str) -> None:
        """The SyncController's slow pass, when it is known which Nodes there are; ``text`` is ``now`` in RFC 3339."""
        self.deliver_events(now)
        self._terms.forget_expired(now, text)
        self._counts.collected(self._sync_controller.collect())
        self._sync_controller.reconcile(now)
        self._sessions.touch_all()
