"""One node's session on the link: a greeting, the comparison of what the node holds, then deliveries until it ends.

    hello ─▶ welcome ─▶ AntiEntropy ─what the node holds─▶ Deliveries ─▶ frames()
                           receive() ─acks, nacks, progress─▲

Pure: frames come in with the time, frames go out when the link has room (``frames``), and what happened is left for
the hub (``take_events``).  A disconnect throws the whole session away: it consumes no retry, and the next hello tells
what was stored (seed: reliable message delivery, "At-Least-Once").
"""

from __future__ import annotations

from collections.abc import Mapping

from fairlead_hub.cluster.content import HeldCopy
from fairlead_hub.cluster.desired_state import ClusterView
from fairlead_hub.delivery.anti_entropy import AntiEntropy
from fairlead_hub.delivery.deletion_guard import DeletionGuard
from fairlead_hub.delivery.deliveries import Deliveries
from fairlead_hub.delivery.delivery_events import DeliveryEvent
from fairlead_hub.delivery.frames import Frame
from fairlead_hub.delivery.keys.key_state import State
from fairlead_hub.delivery.keys.unsynced_keys import UnsyncedKeys
from fairlead_hub.delivery.send_rate import SendRate
from fairlead_hub.settings import NodeDelivery, Reconcile, WindowLimits
from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.link.session import Role, Session, Timer
from fairlead_wire.link.session import SessionState as LinkState


class NodeSession:
    """See the module.  ``now`` is always seconds of one monotonic clock."""

    __slots__ = ("_anti_entropy", "_control", "closing", "deliveries", "hello", "link", "node", "number")

    def __init__(
        self,
        *,
        node: str,
        number: int,
        hello: message.Hello,
        view: ClusterView,
        limits: WindowLimits,
        policy: NodeDelivery,
        reconcile: Reconcile,
        held_max: int,
        keepalive_seconds: float,
        now: float,
        paused: str = "",
        guard: DeletionGuard | None = None,
        rate: SendRate | None = None,
    ) -> None:
        self.node = node
        self.number = number
        self.hello = hello
        self.link = Session(Role.HUB, now=now, keepalive_seconds=keepalive_seconds)
        self.deliveries = Deliveries(
            node,
            view,
            limits=limits,
            policy=policy,
            reconcile=reconcile,
            take_id=self.link.take_id,
            paused=paused,
            guard=guard,
            rate=rate,
        )
        self.closing: message.Refuse | None = None
        self._control: list[Frame] = []
        self._anti_entropy: AntiEntropy | None = AntiEntropy(hello, view, held_max=held_max, take_id=self.link.take_id)

    # ---- comparing -------------------------------------------------------------------------------

    def welcome(self, header: message.Welcome, now: float) -> None:
        """After a hello that was accepted: greet, and compare as soon as it is known what the node should hold."""
        self.link.received(self.hello, now)
        self.say(header)
        self.try_compare()

    def try_compare(self) -> None:
        """Start the comparison if the cluster's state is known; otherwise it waits for the next call."""
        if self._anti_entropy is not None:
            self._ask(self._anti_entropy, self._anti_entropy.begin())

    def _ask(self, anti_entropy: AntiEntropy, question: message.Compare | message.ListBuckets | None) -> None:
        if question is not None:
            self.say(question)
        if anti_entropy.held is not None:
            self._anti_entropy = None
            self.deliveries.begin(anti_entropy.held, anti_entropy.divergent_buckets, self.link.last_received)

    @property
    def not_synced(self) -> str:
        """Why the comparison has not begun; empty when it has."""
        return self._anti_entropy.not_synced if self._anti_entropy is not None else ""

    @property
    def has_events(self) -> bool:
        return bool(self.deliveries.objects.events)

    def take_events(self) -> list[DeliveryEvent]:
        """Delivery events since the last call; each is returned once."""
        return self.deliveries.take_events()

    # ---- objects ---------------------------------------------------------------------------------

    def diff(self, now: float) -> int:
        """Queue every difference between what is held and what is desired; returns how many there are."""
        return self.deliveries.diff(now)

    def offer(self, key: str, now: float) -> None:
        """Something about this key may have changed; what exactly is looked up when it is sent."""
        self.deliveries.offer(key, now)

    def pause(self, why: str, now: float) -> None:
        """Send nothing about objects from now on, for this reason; empty: go on."""
        self.deliveries.pause(why, now)

    def reported(self, key: str, uid: str, path: str) -> None:
        """The status of this object at this node says that it is late or kept; it is set right when that is over."""
        self.deliveries.reported(key, uid, path)

    def no_longer_withheld(self) -> list[str]:
        """Keys that waited for a grant, and need not any more: offer them again."""
        return self.deliveries.objects.no_longer_withheld()

    def state_of(self, key: str) -> State:
        """Where a key is, as it is reported."""
        return self.deliveries.state_of(key)

    @property
    def live(self) -> bool:
        """The comparison is over: ``held`` is true, changes flow."""
        return self.deliveries.live

    @property
    def held(self) -> Mapping[str, HeldCopy]:
        return self.deliveries.held

    @property
    def unsynced(self) -> UnsyncedKeys:
        return self.deliveries.unsynced

    @property
    def paused(self) -> str:
        """Why nothing about objects is sent now; empty: it is."""
        return self.deliveries.paused

    # ---- sending ---------------------------------------------------------------------------------

    def frames(self, now: float, limit: int) -> list[Frame]:
        """At most about ``limit`` frames to send now, in this order.  Call again when the link has room.

        Raises ``ImpossibleTransition``: end the session; the node comes back and is compared.
        """
        out = self._control
        self._control = []
        if self.closing is None:
            out += self.deliveries.frames(now, limit - len(out))
        elif self.link.state is not LinkState.CLOSED:
            out.append((self.closing, b""))
        for header, _ in out:
            self.link.sent(header, now)
        return out

    def say(self, header: message.FromHub, content: bytes = b"") -> None:
        """Send this before anything else (acks and nacks of what came up)."""
        self._control.append((header, content))

    def refuse(self, header: message.Refuse) -> None:
        """End the session with a reason; nothing else is sent after it."""
        self.closing = header

    @property
    def has_frames(self) -> bool:
        """Is there anything to send now, as far as the window allows?"""
        if self.closing is not None:
            return self.link.state is not LinkState.CLOSED
        return bool(self._control) or self.deliveries.has_frames

    # ---- what the edge says ----------------------------------------------------------------------

    def heard(self, header: message.FromEdge, now: float) -> None:
        """A frame that is not ours to answer (upstream, status) came in: the edge is there."""
        self.link.received(header, now)

    def part_received(self, now: float, *, may_send: bool) -> message.Keepalive | None:
        """Part of a long message came in: the edge is there.  Returns what tells it that we are, if it may be sent."""
        self.link.last_received = now
        if not may_send:
            return None
        keepalive = message.Keepalive()
        self.link.sent(keepalive, now)
        return keepalive

    def receive(self, header: message.FromEdge, content: bytes, now: float) -> None:
        """One frame.  Raises ``Malformed`` when it may not come now.  Upstream and status are the hub's, not ours."""
        self.link.received(header, now)
        match header:
            case message.Ack():
                self.deliveries.acked(header, now)
            case message.Nack():
                self.deliveries.nacked(header, now)
            case message.Progress():
                self.deliveries.in_flight.progressed(header.parent_id, now)
            case message.Keepalive():
                self.say(message.Keepalive())
            case message.BucketSums() | message.Entries():
                if self._anti_entropy is None:
                    raise Malformed("no comparison was asked for")
                self._ask(self._anti_entropy, self._anti_entropy.heard(header, content))
            case _:
                raise Malformed(f"{type(header).__name__.lower()} is not for this session")

    # ---- time ------------------------------------------------------------------------------------

    def tick(self, now: float) -> bool:
        """What time asks for.  False: the peer is silent, close the connection."""
        if self.link.tick(now) is Timer.PEER_SILENT:
            return False
        self.deliveries.tick(now)
        return True

    def next_tick(self) -> float:
        """When ``tick`` or ``frames`` may have something to do without a frame or a change coming in."""
        link, deliveries = self.link.next_tick(), self.deliveries.next_tick()
        return link if deliveries is None else min(link, deliveries)
