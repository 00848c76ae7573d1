"""Writes verdicts (``verdicts``) into the status of SyncRules and EdgeRoutes, coalesced like every other document."""

from __future__ import annotations

from fairlead_hub import ledger, verdicts
from fairlead_hub.hub import Hub

COLLECTIONS = ("syncrules", "edgeroutes")


class VerdictDesk:
    """``ask`` for one; ``refresh`` asks for all (cheap: nothing is written that stands there already)."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def refresh(self) -> None:
        placement = self._hub.placement
        for name in {*placement.rules, *_broken(placement.broken, "syncrules")}:
            self.ask("syncrules", name)
        for name in {*placement.routes, *_broken(placement.broken, "edgeroutes")}:
            self.ask("edgeroutes", name)

    def ask(self, collection: str, name: str) -> None:
        document_name: ledger.Name = (collection, "", name)
        observed = self._hub.book.observed.get(document_name)
        if observed is None:
            return
        document = _Verdict(name=document_name, node="", hub=self._hub)
        status = document.status(observed)
        if not status or _same(status, observed.status):
            self._hub.book.settled(document_name)
            return
        self._hub.book.want(document)


class _Verdict(ledger.Document, frozen=True, kw_only=True):
    hub: Hub

    def status(self, observed: ledger.Observed | None) -> ledger.Status:
        collection, _, name = self.name
        hub, before, generation = self.hub, [], 1
        if observed is not None:
            before, generation = observed.status.get("conditions", []), observed.generation
        now = hub.records.text()
        if collection == "syncrules":
            return verdicts.of_rule(hub.placement, name, before, generation, now) or {}
        return verdicts.of_routes(hub.placement, hub.accounts.edges, name, before, generation, now) or {}


def _broken(broken: dict[str, str], collection: str) -> list[str]:
    return [key.partition("/")[2] for key in broken if key.startswith(f"{collection}/")]


def _same(status: ledger.Status, observed: ledger.Status) -> bool:
    return all(observed.get(key) == value for key, value in status.items())
