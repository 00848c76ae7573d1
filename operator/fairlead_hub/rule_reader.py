"""SyncRules and EdgeRoutes as they come from the watch, into placement; and who is told when one cannot be read.

    a rule ─ read | unreadable | gone ─▶ Placement ─▶ the nodes it concerns, to be compared again
                      └─▶ an Event on the rule, the conditions of those nodes' EdgeNodes

An EdgeRoutes object that cannot be read (its nodes cannot be told) is sent to nobody: nodes keep what they hold of it.
"""

from __future__ import annotations

from fairlead_hub.cluster import content, deletion_blocked, sync_rule
from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.events.cloud_events import CloudEvents
from fairlead_hub.status.node_status import NodeStatus

MENDED = "it can be read again"


class RuleReader:
    """See the module."""

    def __init__(self, placement: Placement, node_status: NodeStatus, cloud_events: CloudEvents) -> None:
        self._placement = placement
        self._node_status = node_status
        self._cloud_events = cloud_events

    def read(self, rule: sync_rule.Rule) -> frozenset[str]:
        """Returns the nodes it concerns, before or after."""
        was_broken = f"syncrules/{rule.name}" in self._placement.broken
        concerned = self._placement.set_rule(rule)
        if was_broken:
            self._node_status.rule_happened("SyncRule", rule.name, "Normal", "Readable", MENDED, concerned)
        return concerned

    def unreadable(self, found: sync_rule.Unreadable) -> frozenset[str]:
        """Its last readable form stays in force.  Returns the nodes a difference concerns."""
        before = self._stands(found.name)
        concerned = self._placement.break_rule(found)
        if self._stands(found.name) == before:
            return frozenset()  # the same again: its status was written, or it was listed anew
        if before[0] != found.reason:
            text = f"{found.reason}; {deletion_blocked.consequence(self._placement, found.name)}"
            self._node_status.rule_happened("SyncRule", found.name, "Warning", "Unreadable", text, concerned)
        return concerned

    def _stands(self, name: str) -> tuple[str, sync_rule.Rule | None, sync_rule.Rule | None]:
        placement = self._placement
        broken = placement.broken.get(f"syncrules/{name}", "")
        return broken, placement.rules.get(name), placement.reaches.get(name)

    def gone(self, name: str) -> frozenset[str]:
        """Returns the nodes it concerned."""
        was_broken = f"syncrules/{name}" in self._placement.broken
        concerned = self._placement.drop_rule(name)
        for node in concerned if was_broken else ():
            self._node_status.changed(node)
        return concerned

    def routes_seen(self, live: LiveObject, now: float) -> bool:
        """True when it is known which nodes it is for and which topics it names."""
        name, known = live.resource.name, f"edgeroutes/{live.resource.name}"
        before = self._placement.broken.get(known, "")
        try:
            if live.problem is not None:
                raise ValueError(live.problem.reason)
            self._placement.routes[name] = sync_rule.routes(content.unpacked(live))
        except ValueError as error:
            self._placement.routes.pop(name, None)
            self._placement.broken[known] = str(error)
            self._cloud_events.routes_read(name, str(error), now)
            if before != str(error):
                text = f"{error}; {deletion_blocked.ROUTES_CONSEQUENCE}"
                self._node_status.rule_happened("EdgeRoutes", name, "Warning", "Unreadable", text, ())
            return False
        self._placement.broken.pop(known, None)
        self._cloud_events.routes_read(name, "", now)
        if before:
            self._node_status.rule_happened("EdgeRoutes", name, "Normal", "Readable", MENDED, ())
        return True

    def routes_gone(self, name: str, now: float) -> None:
        self._placement.routes.pop(name, None)
        self._placement.broken.pop(f"edgeroutes/{name}", None)
        self._cloud_events.routes_read(name, "", now)
