"""Fencing numbers in a seeded world: which hub nodes follow if nodes lie, hubs are false, and the Lease is lost or old.

The real ``lease``, ``FenceClaims``, ``Hub`` and ``EdgeSession``, over the in-memory store of the edge.  Hubs take over
from each other, and a replaced one continues to answer for a while; the Lease is deleted, or restored from a backup,
while no hub runs; some nodes claim numbers that no hub ever had, and some meet a false hub that presents one; some are
awake only for a moment every half hour, with an agent that has just started.

Laws, if fewer nodes lie or were lied to than must agree:
1. No hub's number is more than one above the highest that a hub ever had.
2. No node follows a hub that was replaced by one which this node has followed.
3. Some time after the calm begins every honest node follows the hub, even one that was lied to and one that sleeps:
   within ``STALE_HUB_SECONDS`` and the two times it dials around that.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.sim.edge import run
from tests.sim.laws import LawBroken

from fairlead_edge.link_state import StaleHub
from fairlead_edge.objects import session, session_events
from fairlead_edge.objects.memory_metastore import MemoryMetastore
from fairlead_hub import leadership
from fairlead_hub.cluster.listed import EDGE_NODES, INPUTS
from fairlead_hub.hub import Hub
from fairlead_hub.session_ref import SessionRef
from fairlead_hub.settings import HubSettings
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import message
from fairlead_wire.link import codec

STALE_HUB_SECONDS = 600.0
STEPS = 150
STEP_SECONDS = 90.0
SLEEP_SECONDS = 1800.0
BACKUP, RESTORE, DELETE, TAKE_OVER, FALSE_HUB, LIE = 0.05, 0.03, 0.02, 0.06, 0.03, 0.3
"""Chances of each step."""


class _Hub:
    """One life of a hub, as the API server and nodes meet it."""

    def __init__(self, world: FenceWorld, number: int) -> None:
        self.world, self.number = world, number
        taken = leadership.take(world.lease, identity=f"hub-{number}", namespace="x", wall=0.0, seconds_left=0.0)
        assert isinstance(taken, leadership.TakeLease)
        self.claims = leadership.FenceClaims(taken.fence)
        self.hub = Hub(HubSettings(security="insecure"), name="sim", fence=0, clock=WallClock(lambda: 0.0))
        self._took(taken)
        for name in world.names:
            self.hub.cluster.set_node(name, f"uid-{name}", {}, world.now)
        for name in INPUTS:
            self.hub.cluster.input_synced(name)
        self.hub.documents.listed(EDGE_NODES, world.now)

    @property
    def is_leader(self) -> bool:
        """Whether it may write, as far as it knows the end of its Lease."""
        return self.world.leader is self

    def _took(self, taken: leadership.TakeLease) -> None:
        highest = max(self.world.given, default=0)
        if taken.fence > highest + 1:
            raise LawBroken(f"law 1 at {self.world.now:.0f}: {taken.fence}, and no hub had more than {highest}")
        self.world.lease = taken.body
        self.world.given.append(taken.fence)
        self.hub.raise_fence(taken.fence)

    def answer(self, hello: message.Hello) -> message.Welcome | message.Refuse:
        """As the link's server does."""
        world = self.world
        opened = self.hub.sessions.open(hello.node, hello, world.now)
        if isinstance(opened, SessionRef):
            [output] = self.hub.take_ready(world.now).sessions
            (welcome, _), *_ = output.frames
            self.hub.sessions.closed(opened, world.now)
            assert isinstance(welcome, message.Welcome)
            return welcome
        if opened.code == "stale_hub":
            believed = self.claims.record(hello.node, hello.fence, world.now, nodes=self.hub.placement.rules.nodes)
            if believed > self.hub.fence and self.is_leader:
                self._raise_to(believed + 1)
            if not self.is_leader and not world.names_always:
                return message.Refuse(code=opened.code, reason=opened.reason, retry_after=opened.retry_after)
        return opened

    def _raise_to(self, fence: int) -> None:
        if leadership.is_believable(fence, self.hub.fence):
            taken = leadership.take(
                self.world.lease, identity=f"hub-{self.number}", namespace="x", wall=0.0, seconds_left=0.0,
                at_least=fence, known=self.hub.fence,
            )  # fmt: skip
            assert isinstance(taken, leadership.TakeLease)
            self._took(taken)


class _Node:
    """An honest node.  ``disk`` is all that is left of it while it sleeps."""

    def __init__(self, world: FenceWorld, name: str, *, sleeper: bool) -> None:
        self.world, self.name, self.sleeper = world, name, sleeper
        self.disk = MemoryMetastore()
        self.follows: _Hub | None = None
        self.cut_off_with: _Hub | None = None
        """The node can reach only this hub."""
        self.next_dial = 0.0

    def meet(self, hub: _Hub) -> None:
        frame = self._hello()
        hello, _ = codec.decode_from_edge(frame)
        assert isinstance(hello, message.Hello)
        before = run(self.disk.fence())
        if self._hear(hub.answer(hello)):
            if self.follows is not None and hub.number < self.follows.number:
                raise LawBroken(f"law 2 at {self.world.now:.0f}: {self.name} follows a hub that was replaced")
            self.follows = hub
        elif run(self.disk.fence()) < before:
            self.meet(hub)  # it gave that number up

    def meet_false_hub(self, fence: int) -> None:
        """The false hub has a certificate that the node trusts."""
        self._hello()
        self._hear(
            message.Welcome(hub="x", fence=fence, session=1, keepalive_seconds=9, frame_bytes_max=99, upstream_window=1)
        )

    def _hello(self) -> bytes:
        if self.sleeper and self.world.forgets_at_restart:
            self.disk._stale_hub = None
        self._core = session.EdgeSession(
            node=self.name, agent="sim", store_epoch=1, fence=run(self.disk.fence()), now=self.world.now
        )
        [asked] = self._core.handle(session_events.Connected(), self.world.now)
        assert isinstance(asked, session_events.Summarise)
        [sent] = self._core.handle(session_events.Summarised(run(self.disk.summary(asked.bits))), self.world.now)
        assert isinstance(sent, session_events.SendFrame)
        return sent.frame

    def _hear(self, header: message.Welcome | message.Refuse) -> bool:
        """True: it obeys."""
        obeyed, now = run(self.disk.fence()), self.world.now
        for effect in self._core.handle(session_events.FrameReceived(codec.encode(header)), now):
            if isinstance(effect, session_events.PersistFence):
                run(self.disk.persist_fence(effect.fence))
                return True
            if isinstance(effect, session_events.Close) and effect.fence is not None and effect.fence < obeyed:
                found = StaleHub.refused(run(self.disk.stale_hub()), effect.fence, now)
                lower = found.lower(now, STALE_HUB_SECONDS)
                run(self.disk.persist_stale_hub(found) if lower is None else self.disk.lower_fence(lower))
        return False


class FenceWorld:
    """``run`` plays it.

    Mistakes that the laws must notice: ``names_always``: a hub that was replaced names its number, as one that holds
    the Lease does; ``forgets_at_restart``: since when a hub is refused is not on the disk.
    """

    def __init__(self, seed: int, *, names_always: bool = False, forgets_at_restart: bool = False) -> None:
        self.random, self.now = Random(seed), 0.0
        self.names_always, self.forgets_at_restart = names_always, forgets_at_restart
        count = self.random.randrange(2, 7)
        self.names = [f"edge-{number}" for number in range(count)]
        bad = self.random.randrange(min(leadership.CLAIMS_NEEDED, count))
        """Fewer nodes than must agree; they lie, or meet false hubs."""
        liars = self.random.randrange(bad + 1)
        self.liars = self.names[:liars]
        self.nodes = [_Node(self, name, sleeper=self.random.random() < 0.3) for name in self.names[liars:]]
        self.misled = self.nodes[: bad - liars]
        self.lease: dict[str, Any] | None = None
        self.backup: dict[str, Any] | None = None
        self.given: list[int] = []
        self.lost = self.lies = 0
        self.leader: _Hub | None = None
        self.replaced: _Hub | None = None
        self.hubs = 0
        self._start()

    def run(self) -> None:
        for _ in range(STEPS):
            self.now += self.random.uniform(0, STEP_SECONDS)
            self._misbehave()
            self._dial()
        self._calm()

    def happens(self, chance: float) -> bool:
        return self.random.random() < chance

    def _start(self) -> None:
        """A hub takes the Lease."""
        self.hubs += 1
        self.leader = _Hub(self, self.hubs)

    def _misbehave(self) -> None:
        if self.happens(BACKUP):
            self.backup = self.lease
        if self.happens(TAKE_OVER):
            self.replaced = self.leader if self.happens(0.5) else None
            self._start()
        for chance, found in ((RESTORE, self.backup), (DELETE, None)):
            if self.happens(chance):
                self.lost += 1
                self.leader = self.replaced = None
                for node in self.nodes:
                    node.cut_off_with = None
                self.lease = found
                self._start()
        for liar in self.liars:
            if self.happens(LIE):
                self._lie(liar)
        for node in self.misled:
            if self.happens(FALSE_HUB):
                node.meet_false_hub(self._claim())
        if self.nodes and self.replaced is not None and self.happens(0.2):
            self.random.choice(self.nodes).cut_off_with = self.replaced
        for node in self.nodes:
            if self.happens(0.03):
                node.cut_off_with = None

    def _claim(self) -> int:
        assert self.leader is not None
        above = self.random.choice([1, 2, self.random.randrange(100), 99_000, 100_000, 1_000_000, 2**50])
        return self.leader.hub.fence + above

    def _lie(self, liar: str) -> None:
        assert self.leader is not None
        self.lies += 1
        self.leader.answer(
            message.Hello(node=liar, agent="x", store_epoch=1, fence=self._claim(), bits=0, held=0, root="")
        )

    def _dial(self) -> None:
        for node in self.nodes:
            if self.now >= node.next_dial:
                hub = node.cut_off_with or self.leader
                assert hub is not None
                node.meet(hub)
                node.next_dial = self.now + (SLEEP_SECONDS if node.sleeper else 10.0)

    def _calm(self) -> None:
        """From now on there is one hub, which every node reaches, and no false one; liars continue."""
        begins = self.now
        for node in self.nodes:
            node.cut_off_with = None
        while self.now < begins + STALE_HUB_SECONDS + 2 * SLEEP_SECONDS + 2 * STEP_SECONDS:
            self.now += self.random.uniform(0, STEP_SECONDS)
            for liar in self.liars:
                self._lie(liar)
            self._dial()
        assert self.leader is not None
        for node in self.nodes:
            if node.follows is not self.leader or run(node.disk.fence()) > self.leader.hub.fence:
                raise LawBroken(f"law 3: {node.name} (fence {run(node.disk.fence())}) does not follow the hub")
