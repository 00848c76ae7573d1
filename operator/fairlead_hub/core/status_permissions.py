"""Nodes get to know of which objects status is taken from them: when they come, and when rules or labels change.

hello(status_rules) ─opened─▶ held ─tell─▶ differs from what rules say now ─▶ a frame
"""

from __future__ import annotations

from fairlead_hub.cluster.placement import Placement
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.status_from_edge import RulesOfNodes

_NEEDED = frozenset(("nodes", "syncrules"))


class StatusPermissions:
    """See the module.  Agents that do not say which rules they hold do not know the frame."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._rules = RulesOfNodes(placement.rules)
        self._held: dict[NodeSession, str] = {}

    def opened(self, session: NodeSession) -> None:
        if session.hello.status_rules is not None:
            self._held[session] = session.hello.status_rules
            self.tell(session)

    def closed(self, session: NodeSession) -> None:
        self._held.pop(session, None)

    def tell(self, session: NodeSession) -> None:
        """What the node should know may have changed."""
        held = self._held.get(session)
        if held is None or session.closing is not None or not self._placement.listed.inputs >= _NEEDED:
            return
        told = self._rules.of(session.node)
        if told.header.digest != held:
            self._held[session] = told.header.digest
            session.say(told.header, told.content)
