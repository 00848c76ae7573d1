"""The statuses of SyncRules and EdgeRoutes, written when something they report has changed.

    a rule changed, a node, an object, a list ─changed─▶ report ─▶ RuleStatus ─▶ StatusCache (written behind)

Each rule is evaluated once per report, however much changed; a status that is already written is not written again.
"""

from __future__ import annotations

from fairlead_hub.cluster.placement import Placement
from fairlead_hub.cluster.sync_rule import SpecCheck
from fairlead_hub.status import edge_routes_status, status_cache, sync_rule_status
from fairlead_hub.status.edge_routes_controller import EdgeRoutesController
from fairlead_hub.wall_clock import WallClock

CHECKS_SPARE = 1000
SYNC_RULES, EDGE_ROUTES = COLLECTIONS = ("syncrules", "edgeroutes")


class RuleStatuses:
    """See the module docstring."""

    def __init__(
        self,
        placement: Placement,
        routes: EdgeRoutesController,
        cache: status_cache.StatusCache,
        clock: WallClock,
    ) -> None:
        self.placement = placement
        self.routes = routes
        self._clock = clock
        self.cache = cache
        self._changed: set[status_cache.Name] = set()
        self.checks: dict[status_cache.Name, SpecCheck] = {}
        """The result of each object's last validation by its handler."""
        self._tried: dict[status_cache.Name, tuple[status_cache.Status, str]] = {}
        """The status last wanted, and the version it was based on."""

    def changed(self, collection: str, name: str) -> None:
        """Its status may have changed."""
        self._changed.add((collection, "", name))

    def checked(self, check: SpecCheck) -> None:
        """A handler validated it against the model of its definition."""
        name: status_cache.Name = (check.collection, "", check.name)
        rules = self.placement.rules
        if len(self.checks) > 2 * len(rules.rule_names()) + 2 * len(rules.routes) + CHECKS_SPARE:
            # Results of objects that were deleted before they were validated.
            self.checks = {each: found for each, found in self.checks.items() if each in self.cache.observed}
        if self.checks.get(name) != check:
            self.checks[name] = check
            self._changed.add(name)

    def observed(self, collection: str, name: str, observed: status_cache.Observed) -> None:
        """The status as it is in the API."""
        self.cache.observe((collection, "", name), "", observed)
        self.changed(collection, name)

    def vanished(self, collection: str, name: str) -> None:
        """The object was deleted."""
        self.cache.vanished((collection, "", name), "")
        self._tried.pop((collection, "", name), None)
        self.checks.pop((collection, "", name), None)
        self._changed.discard((collection, "", name))

    def report(self, now: float) -> None:
        """Queue every status that differs from the current one; call about every second."""
        for name in self.placement.rules.matches.take():
            self.changed(SYNC_RULES, name)
        for name in self.routes.judge():
            self.changed(EDGE_ROUTES, name)
        changed, self._changed = self._changed, set()
        for document_name in changed:
            self._report(document_name, self._clock.text(now))

    def _report(self, name: status_cache.Name, at: str) -> None:
        observed = self.cache.observed.get(name)
        if observed is None:
            return
        document = RuleStatus(name=name, node="", statuses=self, at=at)
        status = document.status(observed)
        if not status or _same(status, observed.status):
            self.cache.cancel(name)
            self._tried.pop(name, None)
            return
        # Older definitions drop some fields: what was written on this version would only be written again.
        tried, self._tried[name] = self._tried.get(name), (status, observed.version)
        if tried != (status, observed.version) or self.cache.pending(name) is not None:
            self.cache.want(document)


class RuleStatus(status_cache.StatusDocument, frozen=True, kw_only=True):
    """Built when it is written, from the state at that time."""

    statuses: RuleStatuses
    at: str
    """When it was decided, RFC 3339."""

    def status(self, observed: status_cache.Observed | None) -> status_cache.Status:
        collection, _, name = self.name
        placement, before = self.statuses.placement, observed.status if observed is not None else {}
        generation = observed.generation if observed is not None else 1
        now, check = self.at, self.statuses.checks.get(self.name)
        if collection == SYNC_RULES:
            return sync_rule_status.of_rule(placement, name, before, generation, now, check) or {}
        outcomes = self.statuses.routes.of(name)
        return edge_routes_status.of_routes(placement, outcomes, name, before, generation, now, check) or {}

    def is_written_in(self, observed: status_cache.Observed) -> bool:
        return _same(self.status(observed), observed.status)


def _same(status: status_cache.Status, observed: status_cache.Status) -> bool:
    return all(observed.get(key) == value for key, value in status.items())
