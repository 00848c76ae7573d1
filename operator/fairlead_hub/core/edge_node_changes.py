"""EdgeNodes as they stand in the API: what people say by their annotations, and what an earlier hub remembered there.

observed ─▶ NodeTerms ─▶ pauses, deletion guards, certificates, granted topics
                └──────▶ the node's session goes on, pauses, or is sent EdgeRoutes that waited for a topic
"""

from __future__ import annotations

from collections.abc import Mapping

from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.core.node_terms import NodeTerms
from fairlead_hub.core.open_sessions import OpenSessions
from fairlead_hub.core.reports import Reports
from fairlead_hub.status import edge_node, status_cache
from fairlead_hub.status.edge_node import EdgeNodeDocument
from fairlead_hub.status.notice import of_node
from fairlead_wire import message

LIFT = "to lift that, take spec.revoked away"


class EdgeNodeChanges:
    """See the module.  ``now`` is always seconds of one monotonic clock."""

    def __init__(
        self,
        cache: status_cache.StatusCache,
        sessions: OpenSessions,
        terms: NodeTerms,
        reports: Reports,
    ) -> None:
        self._cache = cache
        self._sessions = sessions
        self._terms = terms
        self._reports = reports

    def observed(self, node: str, observed: status_cache.Observed, annotations: Mapping[str, str], now: float) -> None:
        """With its annotations."""
        controls = self._terms.controls
        readable = edge_node.readable(observed)
        is_news = self._cache.observe((EDGE_NODES, "", node), node, readable)
        connected = node in self._sessions.by_node
        self._terms.observed(node, readable, now, is_news=is_news, connected=connected)
        self._revoked(node, observed, now)
        self._terms.identities.observed(node, observed.status, annotations)
        if is_news:
            self._topics_written(node, edge_node.granted_topics(readable), now)
        before = controls.paused(node)
        if controls.observed(node, annotations, observed.status):
            self._controls_changed(node, before, now)
        self._sessions.changed()

    def _revoked(self, node: str, observed: status_cache.Observed, now: float) -> None:
        """What its spec says.  An Event where it is news, also to a hub that starts and finds it."""
        identities = self._terms.identities
        before = identities.revoked.get(node)
        is_more = identities.spec_observed(node, observed.head.get("spec") or {})
        found = identities.revoked.get(node)
        if found == before:
            return
        self._terms.node_status.refused(node)
        said = observed.status.get("identity")
        was_said = before is None and isinstance(said, dict) and said.get("state") == "Revoked"
        if found is None:
            self._reports.notices(
                [of_node(node, "Normal", "RevocationLifted", "its certificates are taken again")], now
            )
        elif is_more and not was_said:
            self._reports.notices([of_node(node, "Warning", "IdentityRevoked", found.why(node))], now)

    def said(self, node: str, status: message.EdgeStatus, now: float) -> None:
        """The edge's own report."""
        before = self._terms.node_status.said(node, status, now)
        self._reports.cloud_events.routes_reported(node, before.routes if before else {}, status.routes, now)
        self._reports.cloud_events.queues_stalled(node, status, now)
        self._sessions.changed()

    def vanished(self, node: str, now: float, version: str = "") -> None:
        """It was deleted: its annotations are gone; it is written again, unless its Node is gone, too.

        With what was revoked it is always written again: only its spec lifts that.
        """
        terms = self._terms
        if self._cache.vanished((EDGE_NODES, "", node), node, version):
            if node in terms.identities.revoked:
                text = f"its EdgeNode was deleted and is written again, for it says what is revoked; {LIFT} first"
                self._reports.notices([of_node(node, "Warning", "RevocationKept", text)], now)
                terms.node_status.refused(node)
            elif terms.node_status.is_gone(node):
                terms.identities.forget(node)
            elif node in terms.node_status.node_uids:
                terms.node_status.changed(node)
            self._topics_written(node, frozenset(), now)
        before = terms.controls.paused(node)
        if terms.controls.vanished(node):
            self._controls_changed(node, before, now)

    def answered(
        self,
        wanted: status_cache.Wanted,
        answer: status_cache.WriteOutcome,
        there: status_cache.Observed | None,
        now: float,
    ) -> None:
        """The outcome of a write of one."""
        stands = self._cache.observed.get(wanted.name)
        if answer is status_cache.WriteOutcome.WRITTEN and stands is there and isinstance(wanted, EdgeNodeDocument):
            self._topics_written(wanted.node, wanted.facts.granted_topics, now)
        else:
            self._topics_written(wanted.node, edge_node.granted_topics(stands), now)

    def _controls_changed(self, node: str, before: str, now: float) -> None:
        """A pause came, changed or went, or a deletion guard was approved."""
        session = self._sessions.by_node.get(node)
        paused = self._terms.controls.paused(node)
        if session is not None:
            self._reports.delivered(session, now)
            session.pause(paused, now)
            self._reports.pause_changed(session, now)
            self._sessions.touch(session)
        if paused != before and EDGE_NODES in self._cache.synced:
            reason, text = ("Paused", paused) if paused else ("Resumed", f"it was paused: {before}")
            self._reports.notices([of_node(node, "Normal", reason, text)], now)
        self._terms.node_status.changed(node)

    def _topics_written(self, node: str, topics: frozenset[str], now: float) -> None:
        """Its EdgeNode names these as it stands in the API: EdgeRoutes that waited for that go to the node."""
        self._terms.grants.written(node, topics)
        session = self._sessions.by_node.get(node)
        if session is not None:
            for key in session.no_longer_withheld():
                self._sessions.offer(node, key, now)
