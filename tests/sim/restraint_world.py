"""The world of records, where people pause nodes, and where nodes that would lose too much are guarded.

Laws, besides those of ``RecordWorld``:
3. While an EdgeNode says paused, nothing about objects is sent to its node: not by a hub that has just started, either.
4. While a deletion guard has tripped nothing is removed; and never more than allowed in the window, unless approved.
5. A hub that starts guards whom its predecessor's documents say to be guarded.
And when people have ended the pauses and approved the deletions, everything converges.
"""

from __future__ import annotations

from typing import Any

from tests.sim.laws import LawBroken
from tests.sim.record_world import NODES, RecordWorld

from fairlead_hub.cluster.placement import EDGE_NODES
from fairlead_hub.delivery.pause import APPROVE_DELETIONS, PAUSED
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.settings import DeletionGuard, Settings
from fairlead_hub.status import status_cache
from fairlead_wire import message, resource

REMOVALS_MAX = 1
WINDOW_SECONDS = 20.0


class RestraintWorld(RecordWorld):
    """``ignores_pauses`` and ``ignores_guards`` plant the bugs that laws 3 and 4 are there for."""

    settings = Settings(
        security="insecure", brake=DeletionGuard(removals_max=REMOVALS_MAX, window_seconds=WINDOW_SECONDS)
    )

    def __init__(self, seed: int, *, ignores_pauses: bool = False, ignores_guards: bool = False) -> None:
        self.told: dict[str, dict[str, str]] = {name: {} for name in NODES}
        self.removed: dict[str, dict[str, float]] = {name: {} for name in NODES}
        """Keys whose removal this hub sent without a release → when last."""
        self.approved: dict[str, set[str]] = {name: set() for name in NODES}
        self.ids: list[str] = []
        self.pauses = self.guards = 0
        self.ignores_pauses, self.ignores_guards = ignores_pauses, ignores_guards
        super().__init__(seed)

    # ---- the hub ---------------------------------------------------------------------------------

    def start_hub(self) -> None:
        for name in NODES:
            self.removed[name], self.approved[name] = {}, set()
        self.starts = True
        self.listing = self.random.randrange(10) if not self.calm else 0
        super().start_hub()

    def observe_all(self) -> None:
        for name in NODES:
            if (EDGE_NODES, "", name) not in self.store.documents:
                self.told[name] = {}
        if self.listing:
            return  # our own documents come later than everything else
        super().observe_all()
        for name in NODES if self.starts else ():
            told, guard = self.guard_told(name), self.hub.node_controls.guard(name)
            session = self.hub.sessions.get(name)
            if session is not None and session.live:
                continue  # compared already: the guard may have found nothing left to stop
            if told is not None and (guard is None or guard.tripped is None or guard.tripped.id != told["id"]):
                raise LawBroken(f"law 5: {name} was guarded under {told['id']}, the new hub does not know")
        self.starts = False

    def guard_told(self, node: str) -> dict[str, Any] | None:
        there = self.store.documents.get((EDGE_NODES, "", node))
        return there.status.get("deletionGuard") if there is not None else None

    def observe(self, name: status_cache.Name) -> None:
        if not self.listing:
            super().observe(name)

    def annotations(self, node: str) -> dict[str, str]:
        return self.told[node]

    def annotate(self, node: str, key: str, value: str | None) -> None:
        """Somebody annotates the EdgeNode, if there is one; the watch tells at once, if the hub watches yet."""
        there = self.store.documents.get((EDGE_NODES, "", node))
        if there is None:
            return
        if value is None:
            self.told[node].pop(key, None)
        else:
            self.told[node][key] = value
        if not self.listing:
            guard = self.hub.node_controls.guard(node)
            approves = guard is not None and guard.stops and guard.tripped is not None and guard.tripped.id == value
            due = set(guard.due) if guard is not None and approves else set()
            self.approved[node] |= due
            for key in due:
                self.removed[node].pop(key, None)
            self.hub.edge_node_observed(node, there, self.told[node], self.now)

    # ---- laws ------------------------------------------------------------------------------------

    def frames(self, name: str, session: NodeSession) -> list[tuple[Any, bytes]]:
        if self.ignores_pauses:
            session.deliveries.paused = ""
        if self.ignores_guards:
            session.deliveries.guard = None
        guard = self.hub.node_controls.guard(name)
        assert guard is not None
        if guard.approved and not self.approved[name]:
            # Approved before this hub knew what was due: it holds for what is due when the hub does.
            self.approved[name] |= guard.due
        stopped = guard.stops
        found = super().frames(name, session)
        self.guards += guard.stops and not stopped
        for header, _ in found:
            if not isinstance(header, message.Update | message.Delete):
                continue
            if PAUSED in self.told[name]:
                raise LawBroken(f"law 3 at {self.now:.2f}: {header.resource} is sent to {name}, which is held")
            if isinstance(header, message.Delete):
                self.check_removal(name, resource.parse(header.resource).key, stopped)
        return found

    def check_removal(self, name: str, key: str, stopped: bool) -> None:
        if key in self.approved[name]:
            return
        if stopped:
            raise LawBroken(f"law 4 at {self.now:.2f}: {key} is removed from {name}, whose guard has tripped")
        removed = self.removed[name]
        removed[key] = self.now
        lately = [each for each, at in removed.items() if self.now - at <= WINDOW_SECONDS]
        if len(lately) > REMOVALS_MAX:
            raise LawBroken(f"law 4 at {self.now:.2f}: {lately} are removed from {name} within the window")

    # ---- time ------------------------------------------------------------------------------------

    def step(self) -> None:
        if self.listing:
            self.listing -= 1
            if not self.listing:
                self.observe_all()
        name = self.random.choice(NODES)
        if self.calm:
            for each in NODES:
                self.annotate(each, PAUSED, None)
                told = self.guard_told(each)
                if told is not None and not told["approved"]:
                    self.annotate(each, APPROVE_DELETIONS, told["id"])
        else:
            self.interfere(name)
        super().step()

    def interfere(self, name: str) -> None:
        told = self.guard_told(name)
        if told is not None and told["id"] not in self.ids:
            self.ids.append(told["id"])
        match self.random.randrange(100):
            case n if n < 5:
                self.pauses += 1
                self.annotate(name, PAUSED, "sim")
            case n if n < 10:
                self.annotate(name, PAUSED, None)
            case n if n < 20 and self.ids:
                self.annotate(name, APPROVE_DELETIONS, self.random.choice(self.ids))
            case n if n < 25 and told is not None:
                self.annotate(name, APPROVE_DELETIONS, told["id"])
            case _:
                pass
