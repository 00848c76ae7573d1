"""What has been listed, and therefore whether it is certain what a node should hold.

    inputs (Nodes, rules, EdgeNodes) and kinds, as their lists come in ─not_synced(node)─▶ the reason, or ""

A deletion is never derived from a cache that is not synced.  A kind that cannot be listed (403, CRD removed) is
*frozen*: edges keep the objects they hold of it.
"""

from __future__ import annotations

from fairlead_hub.cluster.content import GroupKind
from fairlead_hub.cluster.rule_set import RuleSet

EDGE_NODES = "edgenodes"
INPUTS = ("nodes", "syncrules", "edgeroutes", EDGE_NODES)
"""What must be listed before anything is decided.  EdgeNodes are included because a node may be paused."""


class Listed:
    """See the module."""

    def __init__(self, rules: RuleSet) -> None:
        self.inputs: set[str] = set()
        """The ``INPUTS`` that are listed."""
        self.kinds: set[GroupKind] = set()
        """Delivered kinds that are listed and watched."""
        self.frozen: dict[GroupKind, str] = {}
        """Kinds that cannot be listed, and why."""
        self._rules = rules

    @property
    def nodes(self) -> bool:
        """Whether Nodes are listed."""
        return "nodes" in self.inputs

    def input_synced(self, name: str) -> bool:
        """An input is listed.  Returns True the first time."""
        if name in self.inputs:
            return False
        self.inputs.add(name)
        return True

    def kind_synced(self, kind: GroupKind) -> bool:
        """A kind is listed.  Returns True if it was not before."""
        self.frozen.pop(kind, None)
        self._rules.touch(kind)
        if kind in self.kinds:
            return False
        self.kinds.add(kind)
        return True

    def kind_unsynced(self, kind: GroupKind) -> None:
        """The watch broke in a way that requires a new list."""
        self.kinds.discard(kind)
        self._rules.touch(kind)

    def kind_frozen(self, kind: GroupKind, reason: str) -> bool:
        """A kind cannot be listed.  Returns True if that is new."""
        is_news = kind not in self.frozen
        self.kinds.discard(kind)
        self.frozen[kind] = reason
        self._rules.touch(kind)
        return is_news

    def kind_dropped(self, kind: GroupKind) -> None:
        """The kind is no longer watched."""
        self.kinds.discard(kind)
        self.frozen.pop(kind, None)

    def not_synced(self, node: str) -> str:
        """Why it is not known yet what this node should hold; empty if it is known."""
        for name in INPUTS:
            if name not in self.inputs:
                return f"{name} are not listed yet"
        for kind in self._rules.kinds_of(node):
            if kind not in self.kinds and kind not in self.frozen and not self._rules.is_unserved(kind):
                return f"{kind[1]} is not listed yet"
        return ""
