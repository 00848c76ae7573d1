"""The hub's own documents as they are in the API, and the outcomes of its writes.

ObjectSync ─observed, vanished, named─▶ StatusCache: an echo of our write, or news ─▶ SyncController
EdgeNode ───edge_node_observed, …─────▶ the same, and NodeTerms: pauses, deletion guards, certificates, topics
     └────▶ the node's session continues, pauses, ends, or is sent EdgeRoutes that waited for a topic
a write ────answered, unwritten───────▶ StatusCache: done, or still to be written
SyncRule, EdgeRoutes ─rule_observed, rule_checked─▶ RuleStatuses
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.cluster.sync_rule import SpecCheck
from fairlead_hub.core.cluster import ClusterChanges
from fairlead_hub.core.reports import Reports
from fairlead_hub.core.sessions import Sessions
from fairlead_hub.counts import Counts
from fairlead_hub.identity.revocation import Revocation
from fairlead_hub.status import edge_node, status_cache
from fairlead_hub.status.edge_node import EdgeNodeDocument
from fairlead_hub.status.rule_statuses import RuleStatuses
from fairlead_hub.status.status_cache import node_notice

LIFT = "to lift the revocation, remove spec.revoked"


class Documents:
    """See the module docstring.  ``now`` is always seconds of one monotonic clock."""

    def __init__(
        self, rule_statuses: RuleStatuses, cluster: ClusterChanges, sessions: Sessions, reports: Reports, counts: Counts
    ) -> None:
        self._rule_statuses = rule_statuses
        self._cache = rule_statuses.cache
        self._cluster = cluster
        self._sessions, self._open = sessions, sessions.index
        self._terms = sessions.terms
        self._reports, self._sync_controller = reports, reports.sync_controller
        self._counts = counts

    def take(self, now: float) -> list[status_cache.StatusWrite]:
        """The documents to write now."""
        writes = self._cache.take(now)
        self._counts.wrote_over_absurd(sum(write.is_over_absurd(self._cache.fence) for write in writes))
        return writes

    # ---- ObjectSyncs -----------------------------------------------------------------------------

    def is_echo(self, name: status_cache.Name, version: str, read: Callable[[], status_cache.Observed]) -> bool:
        """Whether this version of an ObjectSync is already known, so that the rest need not be parsed."""
        return self._cache.is_echo(name, version, read)

    def observed(self, name: status_cache.Name, node: str, observed: status_cache.Observed) -> None:
        """An ObjectSync as it is in the API.  If others changed it, the next heartbeat corrects it."""
        if self._cache.observe(name, node, observed) and name[0] in self._cache.synced:
            self._sync_controller.edited(name, node)

    def vanished(self, name: status_cache.Name, node: str, version: str = "") -> None:
        """An ObjectSync was deleted: it is written again if it is still needed."""
        if self._cache.vanished(name, node, version):
            self._sync_controller.vanished(node)

    # ---- EdgeNodes -------------------------------------------------------------------------------

    def edge_node_observed(
        self, node: str, observed: status_cache.Observed, annotations: Mapping[str, str], now: float
    ) -> Revocation | None:
        """An EdgeNode as it is in the API, with its annotations.  Returns what its spec revokes if that changed."""
        controls = self._terms.controls
        readable = edge_node.readable(observed)
        is_news = self._cache.observe((EDGE_NODES, "", node), node, readable)
        connected = node in self._open.by_node
        self._terms.observed(node, readable, now, is_news=is_news, connected=connected)
        revoked = self._revoked(node, observed, now)
        self._terms.identities.observed(node, observed.status, annotations)
        if is_news:
            self._topics_written(node, edge_node.granted_topics(readable), now)
        before = controls.paused(node)
        if controls.observed(node, annotations, observed.status):
            self._controls_changed(node, before, now)
        self._open.changed()
        self._sessions.end_refused(node, now)
        self._sessions.resync(node, annotations, now)
        return revoked

    def _revoked(self, node: str, observed: status_cache.Observed, now: float) -> Revocation | None:
        """Apply its spec.  A change gives an Event; for a hub that has just started every revocation is a change."""
        identities = self._terms.identities
        before = identities.revoked.get(node)
        is_more = identities.spec_observed(node, observed.head.get("spec") or {})
        found = identities.revoked.get(node)
        if found == before:
            return None
        self._terms.node_status.refused(node)
        said = observed.status.get("identity")
        was_said = before is None and isinstance(said, dict) and said.get("state") == "Revoked"
        if found is None:
            self._reports.notices(
                [node_notice(node, "Normal", "RevocationLifted", "its certificates are accepted again")], now
            )
        elif is_more and not was_said:
            self._reports.notices([node_notice(node, "Warning", "IdentityRevoked", found.why(node))], now)
        return found

    def edge_node_vanished(self, node: str, now: float, version: str = "") -> None:
        """The EdgeNode was deleted, and its annotations with it; it is written again unless its Node is gone too.

        It is always written again if it revoked anything: only its spec may lift a revocation.
        """
        terms = self._terms
        if self._cache.vanished((EDGE_NODES, "", node), node, version):
            if node in terms.identities.revoked:
                text = f"its EdgeNode was deleted and is written again, because it records a revocation; {LIFT} first"
                self._reports.notices([node_notice(node, "Warning", "RevocationKept", text)], now)
                terms.node_status.refused(node)
            elif terms.node_status.is_gone(node):
                terms.identities.forget(node)
            elif node in terms.node_status.node_uids:
                terms.node_status.changed(node)
            self._topics_written(node, frozenset(), now)
        before = terms.controls.paused(node)
        if terms.controls.vanished(node):
            self._controls_changed(node, before, now)

    def _controls_changed(self, node: str, before: str, now: float) -> None:
        """A pause was set, changed or removed, or a deletion guard was approved."""
        session = self._open.by_node.get(node)
        paused = self._terms.controls.paused(node)
        if session is not None:
            self._reports.delivered(session, now)
            session.keys.pause(paused, now)
            self._sync_controller.pause_changed(session, now)
            self._open.arm(session)  # retries that came due, or will, count again
            self._open.touch(session)
        if paused != before and EDGE_NODES in self._cache.synced:
            reason, text = ("Paused", paused) if paused else ("Resumed", f"it was paused: {before}")
            self._reports.notices([node_notice(node, "Normal", reason, text)], now)
        self._terms.node_status.changed(node)

    def _topics_written(self, node: str, topics: frozenset[str], now: float) -> None:
        """The EdgeNode in the API names these topics: EdgeRoutes that waited for one of them go to the node."""
        self._terms.grants.written(node, topics)
        session = self._open.by_node.get(node)
        if session is not None and session.keys.offer_granted(now):
            self._open.touch(session)

    # ---- SyncRules and EdgeRoutes ----------------------------------------------------------------

    def rule_checked(self, check: SpecCheck) -> None:
        """A handler validated a SyncRule or EdgeRoutes object against the model of its definition."""
        self._rule_statuses.checked(check)

    def rule_observed(self, collection: str, name: str, observed: status_cache.Observed) -> None:
        """The status of a SyncRule or EdgeRoutes object as it is in the API."""
        self._rule_statuses.observed(collection, name, observed)

    # ---- lists -----------------------------------------------------------------------------------

    def named(self, collection: str, names: set[str], version: str, now: float) -> None:
        """A list of this version names these documents (``namespace/name``): all others of ours are gone."""
        for name in self._cache.missing(collection, names, version):
            if collection == EDGE_NODES:
                self.edge_node_vanished(name[2], now)
            else:
                spec = self._cache.observed[name].head["spec"]
                self.vanished(name, str(spec.get("nodeName", "")))

    def listed(self, collection: str, now: float) -> None:
        """The first list of our own documents is complete: decisions made without them are made again."""
        self._reports.delivered_all(self._open.touched, now)
        if collection not in self._cache.synced:
            self._cluster.paused_before(collection)
        self._cache.listed(collection)
        self._counts.collected(self._sync_controller.collect())
        self._sync_controller.compare_all(now)
        if self._sync_controller.object_syncs.listed:
            self._cluster.all_paused_known()
        if collection == EDGE_NODES:
            self._cluster.input_synced(EDGE_NODES)

    def restored(self, collection: str) -> None:
        """The API server was restored from an older copy: the versions of these documents start over."""
        self._cache.restored(collection)

    # ---- the outcome of writes -------------------------------------------------------------------

    def answered(
        self,
        wanted: status_cache.Wanted,
        answer: status_cache.WriteOutcome,
        there: status_cache.Observed | None,
        now: float,
        *,
        reason: str = "",
    ) -> bool:
        """The outcome of writing one of ``Ready.documents``.

        Returns True if it was refused and that should be logged.
        """
        self._counts.wrote(answer.value)
        is_news = self._cache.answered(wanted, answer, there, now, reason=reason)
        if wanted.name[0] == EDGE_NODES:
            stands = self._cache.observed.get(wanted.name)
            if answer is status_cache.WriteOutcome.WRITTEN and stands is there and isinstance(wanted, EdgeNodeDocument):
                self._topics_written(wanted.node, wanted.facts.granted_topics, now)
            else:
                self._topics_written(wanted.node, edge_node.granted_topics(stands), now)
        return is_news

    def unwritten(self, wanted: status_cache.Wanted, now: float) -> None:
        """One of ``Ready.documents`` was not attempted: it still has to be written."""
        self._cache.failed(wanted, now)
