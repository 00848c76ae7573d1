"""A seeded world for the line down: a cluster, a hub, some edges, bad links, and everything that goes wrong with them.

The cores are the real ones (``Placement``, ``NodeSession``, ``EdgeSession``, the memory twin of the edge's store); the
clock, the network, the disks and the users are made here from one seed, so a failing seed replays exactly.

Laws, checked while it runs and at the end:
1. Nothing is acknowledged that was never on the edge's disk (the hub's account may lag, never lead).
2. After the network has calmed every edge holds exactly what it should hold: no more, no less, no older.
3. And the hub's account of every connected edge says so.
4. At most one message is in flight for a key.
5. Nothing is deleted that the cluster still has: a cache that is not listed yet proves nothing.
6. After a tick nothing is due any more, or something can be sent: nobody turns in circles.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from random import Random

import msgspec
from tests.sim.cluster import CONFIG_MAP, Cluster
from tests.sim.edge import Edge
from tests.sim.laws import LawBroken
from tests.sim.link import Link

from fairlead_edge.objects.session import Received, Ticked
from fairlead_hub.cluster import deletion_blocked
from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.placement import INPUTS, Desired, Placement
from fairlead_hub.cluster.sync_rule import rule
from fairlead_hub.delivery.delivery_events import Acked
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.settings import Delivery, Reconcile, WindowLimits
from fairlead_wire import codec, message, resource

CALM_SECONDS = 400.0
"""Longer than all retries of an object, a parking and a silent link together."""
RULE = {
    "metadata": {"name": "all"},
    "spec": {"resources": [{"apiVersion": "v1", "kind": "ConfigMap"}]},
}


class Chances(msgspec.Struct, frozen=True, kw_only=True):
    """How bad the world is: chance of each thing in each step of about a third of a second."""

    change: float = 0.4
    link_breaks: float = 0.04
    link_half_opens: float = 0.01
    edge_crashes: float = 0.02
    disk_wiped: float = 0.004
    disk_restored: float = 0.006
    hub_killed: float = 0.01
    relisted_slowly: float = 0.3
    api_restored: float = 0.004
    power_fails_between_effects: float = 0.002


class World:
    """``run`` plays ``steps`` bad steps and then a calm time.  Raises ``LawBroken``."""

    def __init__(
        self, seed: int, *, chances: Chances | None = None, edges: int = 2, acks_before_commit: bool = False
    ) -> None:
        self.random = Random(seed)
        self.chances = chances or Chances()
        self.now = 0.0
        self.calm = False
        self.fence = 0
        self.kills = 0
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self.cluster = Cluster(self.random, [f"config-{n}" for n in range(6)])
        self.edges = {
            name: Edge(
                name,
                self.random,
                self.schedule,
                lambda: self.now,
                acks_before_commit=acks_before_commit,
                power_fails=lambda: not self.calm and self._happens(self.chances.power_fails_between_effects),
            )
            for name in (f"edge-{n}" for n in range(edges))
        }
        self.links: dict[str, Link] = {}
        self.sessions: dict[str, NodeSession] = {}
        self._numbers = 0
        self._start_hub()

    # ---- time ------------------------------------------------------------------------------------

    def schedule(self, due: float, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._timers, (due, self._order, action))

    def run(self, steps: int = 120) -> None:
        for _ in range(steps):
            self._advance(self.now + self.random.uniform(0.05, 0.6))
            self._misbehave()
        self.calm = True
        for link in self.links.values():
            link.broken = link.broken or bool(link.swallows)
        self._advance(self.now + CALM_SECONDS)
        self._check_converged()

    def _advance(self, until: float) -> None:
        while self.now < until:
            step = min(until, self.now + 0.25)
            while self._timers and self._timers[0][0] <= step:
                due, _, action = heapq.heappop(self._timers)
                self.now = max(self.now, due)
                action()
            self.now = step
            self._tick()

    # ---- misfortune ------------------------------------------------------------------------------

    def _happens(self, chance: float) -> bool:
        return self.random.random() < chance

    def _misbehave(self) -> None:
        chances = self.chances
        if self._happens(chances.change):
            self.cluster.change()
            self._observe()
        if self._happens(0.05):
            self.cluster.back_up()
        if self._happens(chances.api_restored):
            self.cluster.restore()
            self._observe()
        if self._happens(chances.hub_killed):
            self.kills += 1
            self._start_hub()
        for edge in self.edges.values():
            if self._happens(chances.link_breaks):
                self._break(edge.name)
            if self._happens(chances.link_half_opens) and edge.name in self.links:
                self.links[edge.name].swallows.add(self.random.choice(["up", "down"]))
            if self._happens(0.02):
                edge.copy_disk()
            for chance, misfortune in (
                (chances.edge_crashes, edge.crash),
                (chances.disk_wiped, edge.wipe),
                (chances.disk_restored, edge.restore_disk),
            ):
                if self._happens(chance):
                    misfortune()
                    self._break(edge.name)

    def _break(self, node: str) -> None:
        link = self.links.pop(node, None)
        if link is not None:
            link.broken = True
        self.sessions.pop(node, None)
        self.edges[node].disconnect()

    # ---- the hub ---------------------------------------------------------------------------------

    def _start_hub(self) -> None:
        """A new process: it knows nothing but what the API server tells it, and that may take a while."""
        self.fence += 1
        for node in list(self.links):
            self._break(node)
        self.object_cache = ObjectCache()
        self.placement = Placement(self.object_cache, Delivery())
        for node in self.edges:
            self.placement.set_node(node, {})
        self.placement.set_rule(rule(RULE))
        self.placement.inputs_synced.update(INPUTS)
        if self._happens(self.chances.relisted_slowly):
            placement = self.placement
            self.schedule(self.now + self.random.uniform(0.5, 4), lambda: self._listed(placement))
        else:
            self._listed(self.placement)

    def _listed(self, placement: Placement) -> None:
        if placement is not self.placement:
            return
        placement.synced.add(CONFIG_MAP.group_kind)
        self._observe()
        for session in self.sessions.values():
            session.try_compare()

    def _observe(self) -> None:
        """The watch brings the catalog up to date and offers what changed."""
        if CONFIG_MAP.group_kind not in self.placement.synced:
            return
        live = self.cluster.live()
        gone = [known for known in self.object_cache.of_kind(CONFIG_MAP.group_kind).values() if known.key not in live]
        changed = [self.object_cache.remove(known.key, known.uid) for known in gone]
        changed += [self.object_cache.put(one) for one in live.values()]
        for change in changed:
            if change is not None:
                for session in self.sessions.values():
                    session.offer(change.key, self.now)

    # The view a session has of the cluster.

    def desired(self, node: str, key: str) -> Desired | None:
        live = self.object_cache.get(key)
        return self.placement.desired(node, live) if live is not None else None

    def desired_objects(self, node: str) -> dict[str, LiveObject]:
        return self.placement.desired_objects(node)

    def deletion_blocked(self, node: str, path: str) -> str:
        at = resource.parse(path)
        return deletion_blocked.blocked(self.placement, node, at, CONFIG_MAP.group_kind, self.object_cache.get(at.key))

    def withheld(self, node: str, key: str) -> str:
        return ""

    def not_synced(self, node: str) -> str:
        return self.placement.not_synced(node)

    # ---- connections -----------------------------------------------------------------------------

    def _tick(self) -> None:
        for node, edge in self.edges.items():
            session = self.sessions.get(node)
            if session is not None:
                if not session.tick(self.now):
                    self._break(node)
                elif session.next_tick() <= self.now and not session.has_frames:
                    raise LawBroken(f"law 6 at {self.now:.2f}: {node} is due, and there is nothing to do")
            if edge.sync is not None and not edge.handle(edge.sync, Ticked()):
                self._break(node)
            if edge.sync is None and (self.calm or self._happens(0.5)):
                self._break(node)
                self._connect(node)
            self._flush(node)

    def _connect(self, node: str) -> None:
        link = Link(self.random, self.schedule, lambda: self.now)
        self.links[node] = link
        edge = self.edges[node]
        edge.connect(lambda frame: link.send("up", frame, lambda arrived: self._arrived(node, link, arrived)))

    def _arrived(self, node: str, link: Link, frame: bytes) -> None:
        """A frame of the edge at the hub."""
        if self.links.get(node) is not link:
            return
        header, content = codec.decode_from_edge(frame)
        if isinstance(header, message.Hello):
            self._numbers += 1
            session = NodeSession(
                node=node, number=self._numbers, hello=header, view=self, limits=WindowLimits(messages=3),
                policy=Delivery(), reconcile=Reconcile(parked_retry_seconds=30), held_max=1000,
                keepalive_seconds=10, now=self.now,
            )  # fmt: skip
            self.sessions[node] = session
            session.welcome(_welcome(self.fence, self._numbers), self.now)
        else:
            self.sessions[node].receive(header, content, self.now)
        self._flush(node)

    def _flush(self, node: str) -> None:
        session, link = self.sessions.get(node), self.links.get(node)
        if session is None or link is None:
            return
        edge = self.edges[node]
        flying: set[str] = set()
        for header, content in session.frames(self.now, 64):
            if isinstance(header, message.Update | message.Delete):
                if header.resource in flying:
                    raise LawBroken(f"law 4 at {self.now:.2f}: two messages in flight for {header.resource}")
                flying.add(header.resource)
            if isinstance(header, message.Delete) and header.uid in self.cluster.uids():
                raise LawBroken(f"law 5 at {self.now:.2f}: delete of {header.resource}, which the cluster still has")
            link.send("down", codec.encode(header, content), lambda arrived: self._at_edge(edge, link, arrived))
        self._check_account(session, edge)

    def _at_edge(self, edge: Edge, link: Link, frame: bytes) -> None:
        current = edge.sync
        if current is not None and self.links.get(edge.name) is link:
            edge.handle(current, Received(frame))

    # ---- laws ------------------------------------------------------------------------------------

    def _check_account(self, session: NodeSession, edge: Edge) -> None:
        for outcome in session.take_events():
            if isinstance(outcome, Acked) and (outcome.held.uid, outcome.held.digest) not in edge.ever_durable:
                raise LawBroken(f"law 1 at {self.now:.2f}: {edge.name} acked {outcome.key} without having stored it")

    def _check_converged(self) -> None:
        expected = _held(self.cluster.live())
        for name, edge in self.edges.items():
            if edge.held() != expected:
                raise LawBroken(f"law 2: {name} holds {edge.held()}, it should hold {expected}")
            session = self.sessions.get(name)
            if session is None or not session.live:
                raise LawBroken(f"law 3: {name} has no live session in calm weather")
            account = {held.path: (held.uid, held.digest) for held in session.held.values()}
            if account != expected:
                raise LawBroken(f"law 3: the hub believes {name} holds {account}, the disk says {expected}")


def _held(live: Mapping[str, LiveObject]) -> dict[str, tuple[str, str]]:
    return {one.path: (one.uid, one.digest) for one in live.values()}


def _welcome(fence: int, session: int) -> message.Welcome:
    return message.Welcome(
        hub="sim",
        fence=fence,
        session=session,
        keepalive_seconds=10,
        frame_bytes_max=codec.FRAME_BYTES_MAX,
        upstream_window=1,
    )
