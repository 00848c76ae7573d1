"""The open sessions, and which of them have work for the next ``take_ready``.

offer, compare, touch ─▶ OpenSessions ─take_compared, take_touched, take_due─▶ ``sessions``
                               └─notify─▶ the shell, once until it takes
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from fairlead_hub.delivery.send_rate import SendRate
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.delivery.work_queue import Timers
from fairlead_hub.session_ref import SessionRef


def _no_subscriber() -> None:
    """Used until the shell subscribes."""


class OpenSessions:
    """See the module docstring.  ``now`` is always seconds of one monotonic clock."""

    def __init__(self, rate: SendRate | None = None) -> None:
        self.rate = rate
        """The overall rate limit; None if there is none."""
        self.by_node: dict[str, NodeSession] = {}
        """The session of each node.  A refused session is not included, even if its connection is still open."""
        self._by_number: dict[int, NodeSession] = {}
        """Every session whose connection is open."""
        self._timers: Timers[int] = Timers()
        self._notify: Callable[[], None] = _no_subscriber
        self._at_once: Callable[[], None] = _no_subscriber
        self._notified = False
        self._touched: set[NodeSession] = set()
        self._to_compare: set[str] = set()
        self._compare_all = False

    # ---- the shell -------------------------------------------------------------------------------

    def subscribe(self, notify: Callable[[], None], at_once: Callable[[], None] | None = None) -> None:
        """``notify`` is called once when there may be something to take, and again after each ``taking``.

        ``at_once`` is called instead, each time, if a connection waits for what is taken: that need not be paced.
        """
        self._notify = notify
        self._at_once = at_once if at_once is not None else notify

    def changed(self) -> None:
        """There may be something to take."""
        if not self._notified:
            self._notified = True
            self._notify()

    def taking(self) -> None:
        """The shell is taking what is ready."""
        self._notified = False

    # ---- which there are -------------------------------------------------------------------------

    def add(self, session: NodeSession) -> None:
        self.by_node[session.node] = session
        self._by_number[session.number] = session
        self.arm(session)
        self.touch(session)

    def find(self, ref: SessionRef) -> NodeSession | None:
        """Returns None if its connection is closed."""
        return self._by_number.get(ref.number)

    def remove(self, session: NodeSession) -> bool:
        """Remove the node's session.  Returns False if this was not the node's session."""
        if self.by_node.get(session.node) is not session:
            return False
        del self.by_node[session.node]
        if self.rate is not None:
            self.rate.forget(session.node)
        return True

    def forget(self, session: NodeSession) -> None:
        """Its connection is closed."""
        self._by_number.pop(session.number, None)
        self._timers.cancel(session.number)
        self._touched.discard(session)

    # ---- what is to be done ----------------------------------------------------------------------

    def touch(self, session: NodeSession) -> None:
        """The session may have delivery events or frames to send."""
        self._touched.add(session)
        if not self._notified:
            self.changed()

    def touch_at_once(self, session: NodeSession) -> None:
        """The session has frames to send, and its connection has just become ready for them."""
        self._touched.add(session)
        self._notified = True
        self._at_once()

    def keep(self, session: NodeSession) -> None:
        """The session has more for the next ``take_touched``; the shell learns this from the time of its next turn."""
        self._touched.add(session)

    def touch_all(self) -> None:
        self._touched.update(self.by_node.values())
        self.changed()

    def offer(self, node: str, key: str, now: float) -> None:
        """What the node should hold under this key may have changed."""
        session = self.by_node.get(node)
        if session is not None:
            session.keys.offer(key, now)
            self.touch(session)

    def compare(self, nodes: Iterable[str]) -> None:
        """Compare these sessions with what they should hold at the next ``take_ready``: once for a burst of changes."""
        self._to_compare.update(nodes)
        self.changed()

    def compare_all(self) -> None:
        self._compare_all = True
        self.changed()

    @property
    def to_compare(self) -> Set[str] | None:
        """Nodes to compare again, including those without a session; None means all."""
        return None if self._compare_all else self._to_compare

    def arm(self, session: NodeSession) -> None:
        """Handle the session when it is due, whatever else happens."""
        due, armed = session.next_tick(), self._timers.at(session.number)
        if armed is None or due < armed:  # an earlier timer re-arms it: incoming frames need not touch the timer
            self._timers.set(session.number, due)

    # ---- taking ----------------------------------------------------------------------------------

    def take_compared(self) -> list[NodeSession]:
        """The sessions to compare again; each of them is touched."""
        if self._compare_all:
            self._to_compare.update(self.by_node)
            self._compare_all = False
        if not self._to_compare:
            return []
        found = [self.by_node[node] for node in self._to_compare & self.by_node.keys()]
        self._to_compare.clear()
        self._touched.update(found)
        return found

    def take_due(self, now: float) -> list[NodeSession]:
        """The sessions that are due; each of them is touched and has to be armed again."""
        found = [self._by_number[number] for number in self._timers.due(now)]
        self._touched.update(found)
        return found

    def take_turns(self, now: float) -> None:
        """Touch the sessions that waited for the overall rate limit and may send now."""
        for node in self.rate.take_turns(now) if self.rate is not None else ():
            session = self.by_node[node]
            if session.has_frames:
                self._touched.add(session)
            elif self.rate is not None:
                self.rate.rest(node)

    @property
    def touched(self) -> Set[NodeSession]:
        return self._touched

    def take_touched(self) -> set[NodeSession]:
        """The sessions touched since the last call."""
        touched, self._touched = self._touched, set()
        return touched

    def next_due(self, now: float) -> float | None:
        """When a session is due, or may send under the overall rate limit; None if none waits."""
        due = self._timers.next()
        turn = self.rate.next_at(now) if self.rate is not None else None
        return due if turn is None else turn if due is None else min(due, turn)
