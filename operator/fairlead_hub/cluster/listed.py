"""What has been listed, and with it whether it is certain what a node should hold.

    inputs (Nodes, rules, EdgeNodes) and kinds, as their lists come in ─not_synced(node)─▶ the reason, or ""

No delete is ever derived from a cache that is not synced.  A kind that cannot be listed (403, CRD gone) is *frozen*:
what edges hold of it stays.
"""

from __future__ import annotations

from fairlead_hub.cluster.content import GroupKind
from fairlead_hub.cluster.rule_set import RuleSet

EDGE_NODES = "edgenodes"
INPUTS = ("nodes", "syncrules", "edgeroutes", EDGE_NODES)
"""What must be listed before anything is decided; EdgeNodes, because a node may be paused."""


class Listed:
    """See the module."""

    def __init__(self, rules: RuleSet) -> None:
        self.inputs: set[str] = set()
        """Those of ``INPUTS`` that are listed."""
        self.kinds: set[GroupKind] = set()
        """Delivered kinds that are listed and followed."""
        self.frozen: dict[GroupKind, str] = {}
        """Kinds that cannot be listed, and why."""
        self._rules = rules

    @property
    def nodes(self) -> bool:
        """Is it known which Nodes there are?"""
        return "nodes" in self.inputs

    def input_synced(self, name: str) -> bool:
        """True: for the first time."""
        if name in self.inputs:
            return False
        self.inputs.add(name)
        return True

    def kind_synced(self, kind: GroupKind) -> bool:
        """True: it was not, before."""
        self.frozen.pop(kind, None)
        self._rules.touch(kind)
        if kind in self.kinds:
            return False
        self.kinds.add(kind)
        return True

    def kind_unsynced(self, kind: GroupKind) -> None:
        """The watch broke in a way that needs a new list."""
        self.kinds.discard(kind)
        self._rules.touch(kind)

    def kind_frozen(self, kind: GroupKind, reason: str) -> bool:
        """True: it was not, before."""
        is_news = kind not in self.frozen
        self.kinds.discard(kind)
        self.frozen[kind] = reason
        self._rules.touch(kind)
        return is_news

    def kind_dropped(self, kind: GroupKind) -> None:
        """It is not watched any more."""
        self.kinds.discard(kind)
        self.frozen.pop(kind, None)

    def not_synced(self, node: str) -> str:
        """Why it is not known yet what this node should hold; empty when it is."""
        for name in INPUTS:
            if name not in self.inputs:
                return f"{name} are not listed yet"
        for kind in self._rules.kinds_of(node):
            if kind not in self.kinds and kind not in self.frozen and not self._rules.is_unserved(kind):
                return f"{kind[1]} is not listed yet"
        return ""
