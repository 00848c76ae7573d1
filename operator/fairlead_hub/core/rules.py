"""SyncRules and EdgeRoutes as they come from the watch, and what follows when one cannot be read.

    a rule ─ read | unreadable | gone ─▶ Placement ─▶ RulesRead: the nodes it concerns
                                              └─────▶ an Event on the rule, its status, the nodes' EdgeNodes

A SyncRule that cannot be read goes on as it was read last, and nothing of that is removed until it is mended.  An
EdgeRoutes object that cannot be read (its nodes are not known) is sent to no node: nodes keep what they hold of it.
"""

from __future__ import annotations

import msgspec

from fairlead_hub.cluster import content, deletion_blocked, sync_rule
from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.cluster.rule_set import RuleSet
from fairlead_hub.status.notice import Notice
from fairlead_hub.status.rule_statuses import RuleStatuses

MENDED = "it can be read again"


class RulesRead(msgspec.Struct, frozen=True, kw_only=True):
    """What one reading changed."""

    nodes: frozenset[str] = frozenset()
    """They are compared again."""
    notice: Notice | None = None
    """It cannot be read any more, or can be again: the status of ``nodes`` says so, too."""


class RuleReader:
    """See the module.  ``cluster`` does what follows from each ``RulesRead``."""

    def __init__(self, placement: Placement, statuses: RuleStatuses) -> None:
        self._placement = placement
        self._rules: RuleSet = placement.rules
        self._statuses = statuses

    # ---- SyncRules -------------------------------------------------------------------------------

    def read(self, rule: sync_rule.Rule) -> RulesRead:
        """The nodes are those it concerns, before or after."""
        was_broken = f"syncrules/{rule.name}" in self._rules.broken
        nodes = self._rules.set_rule(rule)
        return RulesRead(nodes=nodes, notice=_readable("SyncRule", rule.name) if was_broken else None)

    def unreadable(self, found: sync_rule.BrokenRule) -> RulesRead:
        """Its last readable form stays in force.  The nodes are those a difference concerns."""
        before = self._stands(found.name)
        nodes = self._rules.break_rule(found)
        if self._stands(found.name) == before:
            return RulesRead()  # the same again: its status was written, or it was listed anew
        if before[0] == found.reason:
            return RulesRead(nodes=nodes)
        text = f"{found.reason}; {deletion_blocked.consequence(self._placement, found.name)}"
        return RulesRead(nodes=nodes, notice=_unreadable("SyncRule", found.name, text))

    def _stands(self, name: str) -> tuple[str, sync_rule.Rule | None, sync_rule.Rule | None]:
        broken = self._rules.broken.get(f"syncrules/{name}", "")
        return broken, self._rules.readable.get(name), self._rules.reaches.get(name)

    def gone(self, name: str) -> RulesRead:
        """The nodes are those it concerned."""
        self._statuses.vanished("syncrules", name)
        return RulesRead(nodes=self._rules.drop_rule(name))

    # ---- EdgeRoutes ------------------------------------------------------------------------------

    def routes_seen(self, live: LiveObject) -> RulesRead:
        """Afterwards ``rules.routes`` has it where it is known which nodes it is for and which topics it names."""
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
        """One more of the inputs is: what the status of EdgeRoutes says may be known now."""
        for name in {*self._rules.routes, *self._rules.broken_names("edgeroutes")}:
            self._statuses.routes.object_changed(name)


def _readable(kind: str, name: str) -> Notice:
    return Notice(kind=kind, name=name, type="Normal", reason="Readable", message=MENDED)


def _unreadable(kind: str, name: str, text: str) -> Notice:
    return Notice(kind=kind, name=name, type="Warning", reason="Unreadable", message=text)
