"""Reads SyncRules and EdgeRoutes as the watch reports them, and handles unreadable ones.

    a rule ─ read | unreadable | gone ─▶ Placement ─▶ RulesRead: the nodes it concerns
                                              └─────▶ an Event on the rule, its status, the nodes' EdgeNodes

An unreadable SyncRule stays in force in its last readable form, and nothing it selects is deleted until it is fixed.
An unreadable EdgeRoutes object (its nodes are unknown) is sent to no node; nodes keep the copy they hold.
"""

from __future__ import annotations

import msgspec

from fairlead_hub.cluster import content, deletion_blocked, sync_rule
from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.cluster.rule_set import RuleSet
from fairlead_hub.status.rule_statuses import RuleStatuses
from fairlead_hub.status.status_cache import Notice

MENDED = "it is readable again"


class RulesRead(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of reading one rule."""

    nodes: frozenset[str] = frozenset()
    """The nodes to compare again."""
    notice: Notice | None = None
    """Whether readability changed, so that the status of ``nodes`` changes too."""


class RuleReader:
    """See the module docstring.  ``cluster`` applies each ``RulesRead``."""

    def __init__(self, placement: Placement, statuses: RuleStatuses) -> None:
        self._placement = placement
        self._rules: RuleSet = placement.rules
        self._statuses = statuses

    # ---- SyncRules -------------------------------------------------------------------------------

    def read(self, rule: sync_rule.Rule) -> RulesRead:
        """Returns the nodes the rule concerns, before or after."""
        was_broken = f"syncrules/{rule.name}" in self._rules.broken
        nodes = self._rules.set_rule(rule)
        return RulesRead(nodes=nodes, notice=_readable("SyncRule", rule.name) if was_broken else None)

    def unreadable(self, found: sync_rule.BrokenRule) -> RulesRead:
        """Keep its last readable form in force.  Returns the nodes that a difference concerns."""
        before = self._stands(found.name)
        nodes = self._rules.break_rule(found)
        if self._stands(found.name) == before:
            return RulesRead()  # unchanged: its status was written, or it was listed again
        if before[0] == found.reason:
            return RulesRead(nodes=nodes)
        text = f"{found.reason}; {deletion_blocked.consequence(self._placement, found.name)}"
        return RulesRead(nodes=nodes, notice=_unreadable("SyncRule", found.name, text))

    def _stands(self, name: str) -> tuple[str, sync_rule.Rule | None, sync_rule.Rule | None]:
        broken = self._rules.broken.get(f"syncrules/{name}", "")
        return broken, self._rules.readable.get(name), self._rules.reaches.get(name)

    def gone(self, name: str) -> RulesRead:
        """Returns the nodes the rule concerned."""
        self._statuses.vanished("syncrules", name)
        return RulesRead(nodes=self._rules.drop_rule(name))

    # ---- EdgeRoutes ------------------------------------------------------------------------------

    def routes_seen(self, live: LiveObject) -> RulesRead:
        """Read an EdgeRoutes object; ``rules.routes`` has it afterwards if its nodes and topics are known."""
        name, known = live.resource.name, f"edgeroutes/{live.resource.name}"
        self._statuses.routes.object_changed(name)
        before = self._rules.broken.get(known, "")
        try:
            if live.problem is not None:
                raise ValueError(live.problem.reason)
            routes = sync_rule.routes(content.unpacked(live))
        except ValueError as error:
            self._rules.break_routes(name, str(error))
            if before == str(error):
                return RulesRead()
            text = f"{error}; {deletion_blocked.ROUTES_CONSEQUENCE}"
            return RulesRead(notice=_unreadable("EdgeRoutes", name, text))
        self._rules.set_routes(routes)
        return RulesRead(notice=_readable("EdgeRoutes", name) if before else None)

    def routes_gone(self, name: str) -> RulesRead:
        self._rules.drop_routes(name)
        self._statuses.routes.object_changed(name)
        self._statuses.vanished("edgeroutes", name)
        return RulesRead()

    def inputs_listed(self) -> None:
        """Another input is listed, so more may be known for the status of EdgeRoutes."""
        for name in {*self._rules.routes, *self._rules.broken_names("edgeroutes")}:
            self._statuses.routes.object_changed(name)


def _readable(kind: str, name: str) -> Notice:
    return Notice(kind=kind, name=name, type="Normal", reason="Readable", message=MENDED)


def _unreadable(kind: str, name: str, text: str) -> Notice:
    return Notice(kind=kind, name=name, type="Warning", reason="Unreadable", message=text)
