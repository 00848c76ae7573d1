"""One node's session: brings the edge from what it holds to what it should hold, and says what became of it.

    offer(key) ─▶ NodeQueue ─▶ frames() ─▶ window ─▶ ack    ─▶ Acked | Removed
                     ▲                        ├──▶ nack   ─▶ retry, or Parked at once when permanent
                     └── retry after a delay ─┴──▶ lapse  ─▶ retry, or Parked after the last one

Pure: frames come in with the time, frames go out when the link has room (``frames``), and what happened is left in
``outcomes`` for the hub's records.  At most one message in flight per key.  A disconnect throws the whole session
away: it consumes no retry, and the next hello tells what was stored (seed: reliable message delivery, "At-Least-Once").
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random  # only ever seeded: same node, key and failure, same schedule
from typing import Protocol

import msgspec

from fairlead_hub.compare import Comparison
from fairlead_hub.content import Held, LiveObject
from fairlead_hub.node_queue import NodeQueue
from fairlead_hub.outcomes import Acked, Compared, Outcome, Parked, Removed, Retried, Unparked
from fairlead_hub.placement import Wish
from fairlead_hub.settings import Delivery, Reconcile, WindowLimits
from fairlead_wire import delivery, message
from fairlead_wire import window as wire_window
from fairlead_wire.errors import Malformed
from fairlead_wire.session import Role, Session, State, Timer

Frame = tuple[message.FromHub, bytes]
FORGET_PRIORITY = 5
"""Deletes go with the ordinary traffic: an object nobody wants any more is no reason to delay one that is wanted."""


class View(Protocol):
    """What a session asks of the cluster's state, always as it is now."""

    def wish(self, node: str, key: str) -> Wish | None: ...

    def wanted(self, node: str) -> dict[str, LiveObject]: ...

    def doubt(self, node: str, key: str) -> str:
        """Why this key may not be deleted there yet; empty when it may."""

    def waiting_for(self, node: str) -> str: ...


class Flight(msgspec.Struct, kw_only=True, gc=False):
    """What a message in flight was about; ``held`` is what an ack makes true, None for a delete."""

    key: str
    uid: str
    path: str
    held: Held | None
    policy: Delivery


class _Try(msgspec.Struct):
    """How often one key failed in a row."""

    retries: int
    waited: float
    previous: float
    uniform: delivery.Uniform


class NodeSession:
    """See the module.  ``now`` is always seconds of one monotonic clock."""

    __slots__ = (
        "_answered_at",
        "_answered_id",
        "_chunked",
        "_comparison",
        "_control",
        "_failed_as",
        "_flying",
        "_held_max",
        "_lapsed_keys",
        "_limits",
        "_parkings",
        "_policy",
        "_queue",
        "_reconcile",
        "_sent_id",
        "_tries",
        "_view",
        "_waiting_to_compare",
        "_window",
        "closing",
        "frozen",
        "held",
        "hello",
        "link",
        "live",
        "node",
        "noted",
        "number",
        "opened_at",
        "outcomes",
        "parked",
        "pending_since",
        "sent_bytes",
        "sent_messages",
    )

    def __init__(
        self,
        *,
        node: str,
        number: int,
        hello: message.Hello,
        view: View,
        limits: WindowLimits,
        policy: Delivery,
        reconcile: Reconcile,
        held_max: int,
        keepalive_seconds: float,
        now: float,
    ) -> None:
        self.node = node
        self.number = number
        self.hello = hello
        self.opened_at = now
        self.link = Session(Role.HUB, now=now, keepalive_seconds=keepalive_seconds)
        self.held: dict[str, Held] = {}
        self.parked: dict[str, Parked] = {}
        self.frozen: dict[str, str] = {}
        """Held, not wanted, but not to be deleted yet: key → why."""
        self.pending_since: dict[str, float] = {}
        """Keys on their way, oldest first."""
        self.noted: dict[str, tuple[str, str]] = {}
        """Keys with a record about something the edge does not hold (parked, lagging) → its UID and path."""
        self.outcomes: list[Outcome] = []
        self.live = False
        """The comparison is over: ``held`` is true, changes flow."""
        self.closing: message.Refuse | None = None
        self.sent_messages = 0
        self.sent_bytes = 0
        self._view = view
        self._limits = limits
        self._policy = policy
        self._reconcile = reconcile
        self._held_max = held_max
        self._queue = NodeQueue()
        self._window: wire_window.Window[Flight] = wire_window.Window(
            messages_max=limits.messages, bytes_max=limits.bytes
        )
        self._flying: dict[str, int] = {}
        self._lapsed_keys: dict[str, int] = {}
        """Keys with a send that lapsed → the newest id acked for them: an older ack that comes late says nothing."""
        self._sent_id = 0
        self._answered_id = 0
        self._answered_at = float("-inf")
        self._chunked: dict[int, float] = {}
        """Ids of updates sent in parts → ack timeout, restarted by progress."""
        self._tries: dict[str, _Try] = {}
        self._failed_as: dict[str, str] = {}
        """UID and digest of what a waiting retry is about; empty text: a delete."""
        self._parkings: dict[str, int] = {}
        self._control: list[Frame] = []
        self._comparison: Comparison | None = None
        self._waiting_to_compare = False

    # ---- opening ---------------------------------------------------------------------------------

    def welcome(self, header: message.Welcome, now: float) -> None:
        """After a hello that was accepted: greet, and compare as soon as it is known what the node should hold."""
        self.link.received(self.hello, now)
        self._say(header)
        self._waiting_to_compare = True
        self.try_compare()

    def try_compare(self) -> None:
        """Start the comparison if the cluster's state is known; otherwise it waits for the next call."""
        if not self._waiting_to_compare or self._view.waiting_for(self.node):
            return
        self._waiting_to_compare = False
        comparison = Comparison(wanted=self._view.wanted(self.node), held_max=self._held_max)
        if comparison.equal_from_the_start(self.hello):
            self._learned(comparison.all_held(), 0)
            return
        self._comparison = comparison
        self._say(comparison.ask(self.link.take_id(), self.hello.held))

    def _learned(self, held: dict[str, Held], divergent_buckets: int) -> None:
        self._comparison = None
        self.held = held
        self.live = True
        differences = self.audit(self.link.last_received)
        self.outcomes.append(Compared(divergent_buckets=divergent_buckets, differences=differences))

    def audit(self, now: float) -> int:
        """Queue every difference between what is held and what is wanted; returns how many there are.

        Asked after the comparison, when rules or labels changed, and when a watch has become certain.
        """
        if not self.live:
            return 0
        wanted = self._view.wanted(self.node)
        differences = 0
        for key, live in wanted.items():
            held = self.held.get(key)
            if held is None or held.uid != live.uid or held.digest != live.digest:
                differences += 1
                self.offer(key, now)
        for key in self.held.keys() - wanted.keys():
            differences += 1
            self.offer(key, now)
        return differences

    # ---- changes in the cluster ------------------------------------------------------------------

    def offer(self, key: str, now: float) -> None:
        """Something about this key may have changed; what exactly is looked up when it is sent."""
        if not self.live:
            return
        wish = self._view.wish(self.node, key)
        held = self.held.get(key)
        noted = self.noted.get(key)
        if noted is not None and (wish is None or wish.live.uid != noted[0]):
            self._unnote(key)
        if wish is None and held is None and key not in self._flying:
            self._forget(key)
            return
        if key not in self._flying and _is(held, wish):
            self._forget(key)
            return
        parked = self.parked.get(key)
        if parked is not None:
            if parked.digest == (wish.live.digest if wish else "") and parked.uid == _uid(wish, held):
                return
            self._unpark(key, "newer" if wish else "unwanted")
        tried = self._tries.get(key)
        if tried is not None and self._queue.is_waiting(key) and not self._is_new(key, wish):
            return
        self._tries.pop(key, None)
        self.pending_since.setdefault(key, now)
        self._queue.add(key, wish.priority if wish else FORGET_PRIORITY)

    def _is_new(self, key: str, wish: Wish | None) -> bool:
        """A key that waits for its retry: does the cluster now want something else than what failed?"""
        return self._failed_as.get(key) != (wish.live.uid + wish.live.digest if wish else "")

    # ---- sending ---------------------------------------------------------------------------------

    def frames(self, now: float, limit: int) -> list[Frame]:
        """At most about ``limit`` frames to send now, in this order.  Call again when the link has room."""
        out = self._control
        self._control = []
        if self.live and self.closing is None:
            while len(out) < limit and self._window.has_room:
                key = self._queue.get(now)
                if key is None:
                    break
                out.extend(self._message(key, now))
        if self.closing is not None and self.link.state is not State.CLOSED:
            out.append((self.closing, b""))
        for header, content in out:
            self.link.sent(header, now)
            self.sent_bytes += len(content)
        return out

    def _message(self, key: str, now: float) -> Iterator[Frame]:
        wish = self._view.wish(self.node, key)
        held = self.held.get(key)
        if _is(held, wish) or (wish is None and held is None):
            self._queue.done(key)
            self._forget(key)
            return
        if wish is None:
            assert held is not None
            doubt = self._view.doubt(self.node, key)
            if doubt:
                # Offered again by the audit that follows when the watch becomes certain.
                self._queue.done(key)
                self._forget(key)
                self.frozen[key] = doubt
                return
            yield self._delete(key, held, now)
            return
        yield from self._update(key, wish, now)

    def _delete(self, key: str, held: Held, now: float) -> Frame:
        flight = Flight(key=key, uid=held.uid, path=held.path, held=None, policy=self._policy)
        id = self._launch(flight, len(held.path), now)
        return message.Delete(id=id, resource=held.path, uid=held.uid), b""

    def _update(self, key: str, wish: Wish, now: float) -> Iterator[Frame]:
        live = wish.live
        self.frozen.pop(key, None)
        flight = Flight(key=key, uid=live.uid, path=live.path, held=live.held, policy=wish.delivery)
        id = self._launch(flight, len(live.content), now)
        size = self._limits.chunk_bytes
        parts = -(-len(live.content) // size) if len(live.content) > size else 0
        if parts:
            self._chunked[id] = wish.delivery.ack_timeout
        header = message.Update(
            id=id,
            resource=live.path,
            uid=live.uid,
            resource_version=live.version,
            digest=live.digest,
            encoding=live.encoding,
            chunks=parts,
        )
        yield header, b"" if parts else live.content
        for index in range(parts):
            yield message.Chunk(id=id, index=index), live.content[index * size : (index + 1) * size]

    def _launch(self, flight: Flight, size: int, now: float) -> int:
        id = self.link.take_id()
        self._window.open(id=id, token=flight, size=size, now=now, timeout=flight.policy.ack_timeout)
        self._flying[flight.key] = id
        self._sent_id = id
        self.sent_messages += 1
        return id

    def _say(self, header: message.FromHub) -> None:
        self._control.append((header, b""))

    def say(self, header: message.FromHub) -> None:
        """Send this before anything else (acks and nacks of what came up)."""
        self._say(header)

    def refuse(self, header: message.Refuse) -> None:
        """End the session with a reason; nothing else is sent after it."""
        self.closing = header

    @property
    def has_frames(self) -> bool:
        """Is there anything to send now, as far as the window allows?"""
        if self._control or (self.closing is not None and self.link.state is not State.CLOSED):
            return True
        return self.live and self._queue.has_ready and self._window.has_room

    # ---- what the edge says ----------------------------------------------------------------------

    def receive(self, header: message.FromEdge, content: bytes, now: float) -> None:
        """One frame.  Raises ``Malformed`` when it may not come now.  Upstream and status are the hub's, not ours."""
        self.link.received(header, now)
        match header:
            case message.Ack():
                self._acked(header, now)
            case message.Nack():
                self._nacked(header, now)
            case message.Progress():
                self._progressed(header, now)
            case message.Keepalive():
                self._say(message.Keepalive())
            case message.Buckets():
                listing = self._require_comparison().buckets_arrived(header, content, self.link.take_id())
                if listing is None:
                    self._finish_comparison()
                else:
                    self._say(listing)
            case message.Entries():
                if self._require_comparison().entries_arrived(header, content):
                    self._finish_comparison()
            case _:
                raise Malformed(f"{type(header).__name__.lower()} is not for this session")

    def _require_comparison(self) -> Comparison:
        if self._comparison is None:
            raise Malformed("no comparison was asked for")
        return self._comparison

    def _finish_comparison(self) -> None:
        comparison = self._require_comparison()
        self._learned(comparison.result(), comparison.divergent_buckets)

    def _acked(self, header: message.Ack, now: float) -> None:
        self._answered(header.parent_id, now)
        for entry in self._window.settle(header.parent_id, cumulative=header.cumulative):
            self._settle(entry.id, entry.token, now)

    def _settle(self, id: int, flight: Flight, now: float) -> None:
        key = flight.key
        self._chunked.pop(id, None)
        newest = self._lapsed_keys.get(key)
        if newest is not None:
            if id < newest:
                return
            self._lapsed_keys[key] = id
        since = self.pending_since.get(key, now)
        if flight.held is not None:
            before = self.held.get(key)
            if before is not None and before.uid != flight.held.uid:
                # A new object under an old name: the edge dropped the old one in the same commit, so its record goes.
                self.outcomes.append(Removed(key=key, uid=before.uid, path=before.path))
            self.held[key] = flight.held
            self.outcomes.append(Acked(key=key, held=flight.held, seconds=now - since))
        else:
            held = self.held.get(key)
            if held is not None and held.uid == flight.uid:
                del self.held[key]
            self.outcomes.append(Removed(key=key, uid=flight.uid, path=flight.path))
        self._tries.pop(key, None)
        self._failed_as.pop(key, None)
        if self._flying.get(key) == id:
            del self._flying[key]
            self._queue.done(key)
        if key in self._flying:
            return
        if _is(self.held.get(key), self._view.wish(self.node, key)):
            # Also when only the answer was slow and a retry or a parking was already arranged.
            self._forget(key)
        elif not self._queue.is_queued(key):
            self.offer(key, now)

    def _answered(self, id: int, now: float) -> None:
        if 0 < id <= self._sent_id:
            self._answered_id = max(self._answered_id, id)
            self._answered_at = now

    def _nacked(self, header: message.Nack, now: float) -> None:
        self._answered(header.parent_id, now)
        for entry in self._window.settle(header.parent_id):
            flight = entry.token
            if self._flying.get(flight.key) != entry.id:
                continue  # a late nack of a send that already lapsed: its retry is arranged
            self._failed(flight, header.code, header.reason, now, permanent=header.permanent, after=header.retry_after)

    def _progressed(self, header: message.Progress, now: float) -> None:
        timeout = self._chunked.get(header.parent_id)
        if timeout is not None:
            self._window.extend(header.parent_id, now=now, timeout=timeout)

    # ---- failures --------------------------------------------------------------------------------

    def _failed(
        self, flight: Flight, code: str, reason: str, now: float, *, permanent: bool = False, after: float | None = None
    ) -> None:
        key = flight.key
        self._flying.pop(key, None)
        self._queue.done(key)
        if self._queue.is_queued(key):
            # Something newer is queued already: it goes now, with all its retries.
            self._tries.pop(key, None)
            return
        tried = self._tries.get(key)
        if tried is None:
            # Seeded by what is sent, so that a simulation replays; spread by node, so that nodes do not march in step.
            generator = Random(f"{self.node}/{key}")
            tried = _Try(0, 0.0, 0.0, delivery.generator_of(flight.policy, generator))
            self._tries[key] = tried
        delay = None
        if not permanent and key not in self._parkings:
            delay = delivery.next_delay(
                flight.policy,
                tried.retries,
                uniform=tried.uniform,
                waited_seconds=tried.waited,
                previous_seconds=tried.previous,
                retry_after_seconds=after,
            )
        if delay is None:
            self._park(flight, code, reason, tried.retries, now)
            return
        tried.retries += 1
        tried.waited += delay.seconds
        tried.previous = delay.seconds
        self._failed_as[key] = flight.held.uid + flight.held.digest if flight.held else ""
        wish = self._view.wish(self.node, key)
        self._queue.add_after(key, wish.priority if wish else FORGET_PRIORITY, now + delay.seconds)
        self.outcomes.append(Retried(key=key, code=code))

    def _park(self, flight: Flight, code: str, reason: str, retries: int, now: float) -> None:
        key = flight.key
        self._tries.pop(key, None)
        self._failed_as.pop(key, None)
        self.pending_since.pop(key, None)
        self.noted[key] = (flight.uid, flight.path)
        times = self._parkings.get(key, 0)
        self._parkings[key] = times + 1
        wait = min(self._reconcile.parked_retry_seconds * 2**times, self._reconcile.parked_retry_max_seconds)
        self.parked[key] = parked = Parked(
            key=key,
            uid=flight.uid,
            path=flight.path,
            digest=flight.held.digest if flight.held else "",
            code=code,
            reason=reason,
            retries=retries,
            next_retry_at=now + wait,
        )
        self.outcomes.append(parked)

    def _unpark(self, key: str, why: str) -> None:
        parked = self.parked.pop(key)
        if why != "schedule":
            self._parkings.pop(key, None)
        self.outcomes.append(Unparked(key=key, uid=parked.uid, path=parked.path, why=why))

    def _forget(self, key: str) -> None:
        """Nothing is to be done for this key."""
        self.pending_since.pop(key, None)
        self._unnote(key)
        self.frozen.pop(key, None)
        self._tries.pop(key, None)
        self._failed_as.pop(key, None)
        self._parkings.pop(key, None)
        if key in self.parked:
            self._unpark(key, "unwanted")

    def _unnote(self, key: str) -> None:
        """What was noted about this key is over; a record of something the edge never got goes with it."""
        noted = self.noted.pop(key, None)
        held = self.held.get(key)
        if noted is not None and (held is None or held.uid != noted[0]):
            self.outcomes.append(Removed(key=key, uid=noted[0], path=noted[1]))

    # ---- time ------------------------------------------------------------------------------------

    def tick(self, now: float) -> bool:
        """What time asks for.  False: the peer is silent, close the connection."""
        if self.link.tick(now) is Timer.PEER_SILENT:
            return False
        self._allow_for_slow_links(now)
        for entry in self._window.lapse(now):
            flight = entry.token
            self._lapsed_keys.setdefault(flight.key, 0)
            if self._flying.get(flight.key) == entry.id:
                self._failed(flight, "timeout", f"no ack within {flight.policy.ack_timeout:g} s", now)
        for key, parked in list(self.parked.items()):
            if parked.next_retry_at <= now:
                self._unpark(key, "schedule")
                self.pending_since.setdefault(key, now)
                wish = self._view.wish(self.node, key)
                self._queue.add(key, wish.priority if wish else FORGET_PRIORITY)
        return True

    def _allow_for_slow_links(self, now: float) -> None:
        """Frames arrive in order: what was sent after the last answer counts its timeout from that answer.

        Otherwise a thin link with a full window would time out, and send everything again, while acks are flowing.
        A message whose successors were answered is overdue by its own time.
        """
        deadline = self._window.next_deadline()
        if deadline is None or deadline > now:
            return
        for key, id in self._flying.items():
            if id > self._answered_id:
                timeout = self._timeout_of(key)
                if self._answered_at + timeout > now:
                    self._window.extend(id, now=self._answered_at, timeout=timeout)

    def _timeout_of(self, key: str) -> float:
        wish = self._view.wish(self.node, key)
        return (wish.delivery if wish else self._policy).ack_timeout

    def next_tick(self) -> float:
        """When ``tick`` or ``frames`` may have something to do without a frame or a change coming in."""
        times = [self.link.next_tick()]
        times.extend(due for due in (self._window.next_deadline(), self._queue.next_due()) if due is not None)
        if self.parked:
            times.append(min(parked.next_retry_at for parked in self.parked.values()))
        return min(times)

    # ---- account ---------------------------------------------------------------------------------

    @property
    def queued(self) -> int:
        return len(self._queue)

    @property
    def in_flight(self) -> int:
        return len(self._window)

    def where(self, key: str, now: float) -> str:
        """For people: at which step of the path this key is."""
        if self._waiting_to_compare:
            return f"waiting: {self._view.waiting_for(self.node)}"
        if not self.live:
            return "the node's store is being compared"
        if key in self.parked:
            parked = self.parked[key]
            again = parked.next_retry_at - now
            return (
                f"parked after {parked.retries} retries ({parked.code}: {parked.reason}); tried again in {again:.0f} s"
            )
        if key in self._flying:
            return f"in flight, unacknowledged since {now - self.pending_since.get(key, now):.1f} s"
        due = self._queue.due_at(key)
        if due is not None:
            return (
                f"waiting {max(0.0, due - now):.1f} s for retry {self._tries[key].retries if key in self._tries else 1}"
            )
        if self._queue.is_queued(key):
            return "queued"
        if key in self.frozen:
            return f"kept, not deleted yet: {self.frozen[key]}"
        return "held" if key in self.held else "not wanted"


def _is(held: Held | None, wish: Wish | None) -> bool:
    """The edge has exactly what is wanted."""
    if held is None or wish is None:
        return held is None and wish is None
    return held.digest == wish.live.digest and held.uid == wish.live.uid


def _uid(wish: Wish | None, held: Held | None) -> str:
    if wish is not None:
        return wish.live.uid
    return held.uid if held is not None else ""
