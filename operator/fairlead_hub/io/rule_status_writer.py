"""Writes verdicts (``verdicts``) into the status of SyncRules and EdgeRoutes, coalesced like every other document."""

from __future__ import annotations

from functools import partial

from fairlead_hub.cluster import deletion_blocked
from fairlead_hub.hub import Hub
from fairlead_hub.status import edge_routes_status, rule_status, status_cache

COLLECTIONS = ("syncrules", "edgeroutes")
NODES_A_TURN = 500
"""With more of them the status of EdgeRoutes is looked at every second, third … time: it has a row for each."""


class RuleStatusWriter:
    """``ask`` for one; ``refresh`` asks for all (cheap: nothing is written that stands there already)."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._turn = 0
        self._tried: dict[status_cache.Name, tuple[status_cache.Status, str]] = {}
        """What was wanted last, and the version it was wanted on."""

    def refresh(self) -> None:
        placement = self._hub.placement
        for name in placement.rule_names():
            self.ask("syncrules", name)
        self._turn += 1
        if self._turn % max(1, len(placement.nodes) // NODES_A_TURN) == 0:
            for name in {*placement.routes, *placement.broken_names("edgeroutes")}:
                self.ask("edgeroutes", name)
        for document_name in self._tried.keys() - self._hub.status_cache.observed.keys():
            del self._tried[document_name]

    def ask(self, collection: str, name: str) -> None:
        document_name: status_cache.Name = (collection, "", name)
        observed = self._hub.status_cache.observed.get(document_name)
        if observed is None:
            return
        document = _Verdict(name=document_name, node="", hub=self._hub)
        status = document.status(observed)
        if not status or _same(status, observed.status):
            self._hub.status_cache.settled(document_name)
            self._tried.pop(document_name, None)
            return
        # Older definitions keep not all of it: what was written on this very version would only be written again.
        tried, self._tried[document_name] = self._tried.get(document_name), (status, observed.version)
        if tried != (status, observed.version) or self._hub.status_cache.pending(document_name) is not None:
            self._hub.status_cache.want(document)


class _Verdict(status_cache.Document, frozen=True, kw_only=True):
    hub: Hub

    def status(self, observed: status_cache.Observed | None) -> status_cache.Status:
        collection, _, name = self.name
        hub, before = self.hub, observed.status if observed is not None else {}
        generation = observed.generation if observed is not None else 1
        now = hub.object_syncs.text()
        if collection == "syncrules":
            return rule_status.of_rule(hub.placement, name, before, generation, now) or {}
        heard = partial(_heard, hub, name)
        return edge_routes_status.of_routes(hub.placement, heard, name, before, generation, now) or {}

    def is_told_by(self, observed: status_cache.Observed) -> bool:
        return _same(self.status(observed), observed.status)


def _heard(hub: Hub, name: str, node: str) -> edge_routes_status.Heard:
    """What a node said of an EdgeRoutes object, and whether that is the newest."""
    session, key = hub.sessions.get(node), f"{deletion_blocked.EDGE_ROUTES_TYPE}//{name}"
    live = hub.object_cache.get(key)
    if session is None or live is None:
        return edge_routes_status.Heard(lag="the node is away", away=True)
    if not session.live:
        return edge_routes_status.Heard(lag="the node has just come back", away=True)
    held, edge = session.held.get(key), hub.node_status.edges.get(node)
    if held is None or held.content_id != live.content_id:
        return edge_routes_status.Heard(lag=f"version {live.version} is not delivered: {_why_not(hub, node, key)}")
    said = edge.routes.get(name) if edge is not None else None
    if said is None or said.uid != live.uid or said.digest not in ("", live.digest):
        return edge_routes_status.Heard(lag=f"the node has not told what it makes of version {live.version}")
    return edge_routes_status.Heard(said=said)


def _why_not(hub: Hub, node: str, key: str) -> str:
    """Without times, which would be another status each second."""
    session = hub.sessions[node]
    parked = session.parked.get(key)
    if parked is not None:
        return f"parked, {parked.code}: {parked.reason}"
    if session.hold:
        return f"on hold: {session.hold}"
    return session.withheld.get(key, "on its way")


def _same(status: status_cache.Status, observed: status_cache.Status) -> bool:
    return all(observed.get(key) == value for key, value in status.items())
