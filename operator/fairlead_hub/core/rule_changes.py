"""SyncRules and EdgeRoutes as the cluster has them, and how a handler found them.

set, break, drop ─▶ RuleReader ─▶ the nodes to compare again
                        └──────▶ the status of the rule, an Event, the nodes' EdgeNodes
"""

from __future__ import annotations

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.core.node_terms import NodeTerms
from fairlead_hub.core.reports import Reports
from fairlead_hub.rule_reader import RuleReader, RulesRead
from fairlead_hub.status.rule_statuses import RuleStatuses


class RuleChanges:
    """See the module.  Returned are the nodes to compare again."""

    def __init__(self, reader: RuleReader, statuses: RuleStatuses, terms: NodeTerms, reports: Reports) -> None:
        self._reader = reader
        self._rules = reader.rules
        self._statuses = statuses
        self._terms = terms
        self._reports = reports

    # ---- SyncRules -------------------------------------------------------------------------------

    def set_rule(self, rule: sync_rule.Rule, now: float) -> frozenset[str]:
        return self._read(self._reader.read(rule), now)

    def break_rule(self, found: sync_rule.BrokenRule, now: float) -> frozenset[str]:
        """It cannot be read: what it selected goes on, and nothing of that is removed until it is mended."""
        return self._read(self._reader.unreadable(found), now)

    def drop_rule(self, name: str) -> None:
        was_broken = f"syncrules/{name}" in self._rules.broken
        nodes = self._reader.gone(name).nodes
        self._statuses.vanished("syncrules", name)
        if was_broken:
            self._terms.node_status.changed(*nodes)

    # ---- EdgeRoutes ------------------------------------------------------------------------------

    def routes_seen(self, live: LiveObject, now: float) -> frozenset[str]:
        name = live.resource.name
        self._statuses.routes.object_changed(name)
        nodes = self._read(self._reader.routes_seen(live), now)
        self._routes_read(name, now)
        return nodes

    def routes_gone(self, name: str, now: float) -> None:
        self._reader.routes_gone(name)
        self._routes_read(name, now)
        self._statuses.routes.object_changed(name)
        self._statuses.vanished("edgeroutes", name)

    def inputs_listed(self) -> None:
        """One more of the inputs is: what the status of EdgeRoutes says may be known now."""
        for name in {*self._rules.routes, *self._rules.broken_names("edgeroutes")}:
            self._statuses.routes.object_changed(name)

    def _routes_read(self, name: str, now: float) -> None:
        self._reports.cloud_events.routes_read(name, self._rules.broken.get(f"edgeroutes/{name}", ""), now)

    def _read(self, read: RulesRead, now: float) -> frozenset[str]:
        if read.notice is not None:
            self._reports.notices([read.notice], now)
            self._terms.node_status.changed(*read.nodes)
        return read.nodes
