"""One node's conversation on the link: greeting, comparison of the node's store, deliveries, and the end.

    hello ─▶ welcome ─▶ AntiEntropy ─what the node holds─▶ NodeKeys ─▶ frames()
                              BucketSums, Entries ─▲          ▲─ Ack, Nack, Progress

Each node has two objects: this one, the conversation, and ``keys``, the state of every object on its way.  No I/O:
frames come in with the time, frames go out when the link has room, and outcomes are left in ``keys.events``.  A
disconnect discards the whole session: it consumes no retry, and the next hello says what was stored (seed: reliable
message delivery, "At-Least-Once").
"""

from __future__ import annotations

from fairlead_hub.cluster.desired_state import ClusterView
from fairlead_hub.delivery.anti_entropy import AntiEntropy
from fairlead_hub.delivery.deletion_guard import DeletionGuard
from fairlead_hub.delivery.node_keys import NodeKeys
from fairlead_hub.delivery.send_rate import SendRate
from fairlead_hub.session_ref import Frame, SessionRef
from fairlead_hub.settings import NodeDelivery, Reconcile, WindowLimits
from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.link.session import Role, Session, Timer
from fairlead_wire.link.session import SessionState as LinkState


class NodeSession:
    """See the module docstring.  ``now`` is always seconds of one monotonic clock."""

    __slots__ = (
        "_anti_entropy",
        "_asked",
        "_authorities_sent",
        "_control",
        "_status_rules",
        "authorities",
        "closing",
        "cut",
        "has_room",
        "hello",
        "keys",
        "link",
        "node",
        "number",
        "ref",
    )

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
        self.ref = SessionRef(node=node, number=number, agent=hello.agent, takes_inputs=bool(hello.inputs))
        self.link = Session(Role.HUB, now=now, keepalive_seconds=keepalive_seconds)
        self.keys = NodeKeys(
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
        self.has_room = True
        """Whether the connection accepts more frames; False while the node has to read what was written."""
        self.closing: message.Refuse | None = None
        """Set when the session ends with a reason; its last frame."""
        self.cut = ""
        """Why its connection is aborted without another frame; empty if it is not."""
        self._status_rules = hello.status_rules
        """Digest of the rules by which the node reports status; None if its agent does not support them."""
        self.authorities = ""
        """Digest of the authorities the node reports to trust; empty if it reports none."""
        self._authorities_sent = ""
        """Digest of the authorities sent last: a bundle that the node refuses is not sent repeatedly."""
        self._control: list[Frame] = []
        self._asked: set[int] | None = None
        """Ids of frames whose answers are for the shell."""
        self._anti_entropy: AntiEntropy | None = AntiEntropy(hello, view, held_max=held_max, take_id=self.link.take_id)

    # ---- greeting and comparison -----------------------------------------------------------------

    def welcome(self, header: message.Welcome, now: float) -> None:
        """Greet a node whose hello was accepted, and compare as soon as it is known what the node should hold."""
        self.link.received(self.hello, now)
        self.say(header)
        self.try_compare()

    def try_compare(self) -> None:
        """Start the comparison if the cluster's state is known; otherwise it waits for the next call."""
        if self._anti_entropy is not None:
            self._ask(self._anti_entropy, self._anti_entropy.begin())

    def compared(self, header: message.BucketSums | message.Entries, content: bytes) -> None:
        """Handle an answer of the comparison.  Raises ``Malformed`` if none is running."""
        if self._anti_entropy is None:
            raise Malformed("no comparison is running")
        self._ask(self._anti_entropy, self._anti_entropy.received(header, content))

    def _ask(self, anti_entropy: AntiEntropy, question: message.Compare | message.ListBuckets | None) -> None:
        if question is not None:
            self.say(question)
        if anti_entropy.held is not None:
            self._anti_entropy = None
            self.keys.begin(anti_entropy.held, anti_entropy.divergent_buckets, self.link.last_received)

    @property
    def not_synced(self) -> str:
        """Why the comparison has not begun; empty if it has."""
        return self._anti_entropy.not_synced if self._anti_entropy is not None else ""

    # ---- sending ---------------------------------------------------------------------------------

    def say(self, header: message.FromHub, content: bytes = b"") -> None:
        """Send this ahead of anything about objects."""
        self._control.append((header, content))

    def send_status_rules(self, header: message.StatusRules, content: bytes) -> None:
        """Tell the node for which objects it may report status, unless it already knows."""
        if self._status_rules not in (None, header.digest) and self.closing is None:
            self._status_rules = header.digest
            self.say(header, content)

    def believes(self, digest: str) -> None:
        """The node reports that it trusts these authorities."""
        self.authorities = digest

    def send_authorities(self, digest: str, header: message.Authorities, content: bytes) -> bool:
        """Send each bundle once, if the node reports that it trusts others."""
        if digest in (self.authorities, self._authorities_sent):
            return False
        self._authorities_sent = digest
        self.say(header, content)
        return True

    def room(self, has_room: bool) -> None:
        """Its connection accepts frames again, or does not for now."""
        self.has_room = has_room

    def take_asked_id(self) -> int:
        """Allocate the id of a frame whose answer is for the shell (``is_answer``)."""
        id = self.link.take_id()
        if self._asked is None:
            self._asked = set()
        self._asked.add(id)
        return id

    def refuse(self, header: message.Refuse) -> None:
        """End the session with a reason; nothing else is sent after it."""
        self.closing = header

    def end(self, why: str) -> None:
        """Abort its connection immediately, without another frame."""
        self.cut = why

    @property
    def is_over(self) -> bool:
        """Whether nothing more follows; its connection is about to be closed."""
        return bool(self.cut) or (self.closing is not None and self.link.state is LinkState.CLOSED)

    @property
    def has_frames(self) -> bool:
        """Whether there is anything to send now, as far as window and connection allow."""
        if self.cut or not self.has_room:
            return False
        if self.closing is not None:
            return self.link.state is not LinkState.CLOSED
        return bool(self._control) or self.keys.has_frames

    def frames(self, now: float, limit: int) -> list[Frame]:
        """At most about ``limit`` frames to send now, in this order.

        Raises ``LocalError``: end the session; the node reconnects and is compared.
        """
        out = self._control
        self._control = []
        if self.closing is None:
            out += self.keys.frames(now, limit - len(out))
        elif self.link.state is not LinkState.CLOSED:
            out.append((self.closing, b""))
        for header, _ in out:
            self.link.sent(header, now)
        return out

    # ---- what the edge says ----------------------------------------------------------------------

    def is_answer(self, id: int) -> bool:
        """Whether the frame with this id was the shell's, so that the answer is for the shell, too.

        Each id matches once.
        """
        if not self._asked or id not in self._asked:
            return False
        self._asked.remove(id)
        return True

    def part_received(self, now: float) -> None:
        """Part of a long message arrived: the edge is alive, and gets a keepalive if the connection has room."""
        self.link.last_received = now
        if self.has_room and self.closing is None:
            self.say(message.Keepalive())

    # ---- time ------------------------------------------------------------------------------------

    def tick(self, now: float) -> bool:
        """Handle everything that is due.  Returns False if the peer is silent: close the connection."""
        if self.link.tick(now) is Timer.PEER_SILENT:
            return False
        self.keys.tick(now)
        return True

    def next_tick(self) -> float:
        """When ``tick`` or ``frames`` may have something to do without a frame or a change coming in."""
        link, keys = self.link.next_tick(), self.keys.next_tick()
        return link if keys is None else min(link, keys)
