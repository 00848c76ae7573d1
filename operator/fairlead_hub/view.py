"""What one node's session asks of the cluster's state, always answered as it is now."""

from __future__ import annotations

from typing import Protocol

from fairlead_hub.catalog import Catalog
from fairlead_hub.content import Kind, LiveObject
from fairlead_hub.placement import Placement, Wish


class View(Protocol):
    """The questions."""

    def wish(self, node: str, key: str) -> Wish | None:
        """What is wanted there under this key; None: nothing."""

    def wanted(self, node: str) -> dict[str, LiveObject]:
        """Everything that is wanted there, by key."""

    def doubt(self, node: str, key: str) -> str:
        """Why this key may not be deleted there yet; empty when it may."""

    def waiting_for(self, node: str) -> str:
        """Why it is not known yet what is wanted there; empty when it is."""


class ClusterView:
    """The answers, from what was watched."""

    def __init__(self, catalog: Catalog, placement: Placement) -> None:
        self._catalog = catalog
        self._placement = placement
        self.kinds: dict[str, Kind] = {}
        """What discovery found, by the type part of a key."""

    def know_kind(self, kind: Kind) -> None:
        """Discovery found what a rule names."""
        self.kinds[f"{kind.plural}.{kind.group}" if kind.group else kind.plural] = kind

    def wish(self, node: str, key: str) -> Wish | None:
        live = self._catalog.get(key)
        return None if live is None else self._placement.wish(node, live)

    def live(self, node: str, key: str) -> LiveObject | None:
        """The object, if the node should hold it."""
        wish = self.wish(node, key)
        return None if wish is None else wish.live

    def wanted(self, node: str) -> dict[str, LiveObject]:
        return self._placement.wanted(node)

    def doubt(self, node: str, key: str) -> str:
        type = key.partition("/")[0]
        known = self.kinds.get(type)
        if known is not None:
            return self._placement.doubt(node, known.group_kind)
        # Held from an earlier life, and discovery does not know the type: no rule may name it any more, or its
        # definition is gone.  Any frozen kind of its group that discovery never found may be this one.
        group = type.partition(".")[2]
        found = {kind.group_kind for kind in self.kinds.values()}
        for frozen in self._placement.frozen:
            if frozen[0] == group and frozen not in found:
                return self._placement.doubt(node, frozen)
        return self._placement.doubt(node, (group, ""))

    def waiting_for(self, node: str) -> str:
        return self._placement.waiting_for(node)
