"""What the console shows as one line each: a node, a topic, an event.

HubView ─node_line─▶ NodeLine                 from the core's indexes: the cost does not grow with a node's objects
two samples of messaging ─topic_lines─▶ TopicLine           rates, and the lags of readers
events of the system topic ─EventLog─▶ EventLine            the latest ones, newest first
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fairlead_hub.view import HubView, SessionView
from fairlead_hub.wall_clock import WallClock
from fairlead_wire.event import Event, short

# ---- nodes ---------------------------------------------------------------------------------------


STATES = {
    "sync": "In sync",
    "behind": "Catching up",
    "parked": "Parked",
    "waiting": "Waiting",
    "paused": "Paused",
    "stopped": "Deletions stopped",
    "refused": "Refused",
    "away": "Away",
    "never": "Never seen",
}
"""States of a node and their labels.  The first one of ``refused``, ``away`` … that applies is shown."""
NEEDS_ATTENTION = ("refused", "stopped", "parked")
"""States that do not end by themselves, or not soon."""


class NodeLine(NamedTuple):
    """A row.  It changes only on an event: it holds points in time, and ages are computed where they are shown."""

    name: str
    state: str
    since: int
    """Seconds since 1970 when its oldest pending object was queued, or when the node was last heard of; 0 if
    unknown."""
    pending: int
    parked: int
    held: int
    agent: str
    note: str
    """Why the node waits; may be empty."""
    dead_letters: int = 0
    """Messages it could not deliver and keeps, from its last report."""


def node_line(view: HubView, name: str, session: SessionView | None) -> NodeLine:
    """The row of a node in its current state."""
    return _away(view, name) if session is None else _connected(view, name, session)


def _connected(view: HubView, name: str, session: SessionView) -> NodeLine:
    state, note = "sync", ""
    if session.guard:
        state, note = "stopped", session.guard
    elif paused := view.paused(name):
        state, note = "paused", paused
    elif session.parked:
        state = "parked"
    elif not session.live:
        state, note = "waiting", session.not_synced or "its store is being compared"
    elif session.pending:
        state = "behind"
    return NodeLine(
        name=name,
        state=state,
        since=int(view.clock.seconds(session.oldest)) if session.oldest is not None else 0,
        pending=session.pending,
        parked=session.parked,
        held=session.held,
        agent=session.agent[:80],
        note=short(note or view.unreadable_rules(name)),
        dead_letters=edge.dead_letters if (edge := view.edge(name)) is not None else 0,
    )


def _away(view: HubView, name: str) -> NodeLine:
    said = view.outline(name)
    last = str(said.get("lastContactTime") or "")
    state, note = ("away" if last else "never"), view.paused(name)
    if why := view.revoked(name):
        state, note = "refused", why
    elif view.is_identity_held(name):
        state, note = "refused", "its certificate is from before its Node was recreated; approve it or issue a new one"
    return NodeLine(
        name=name,
        state=state,
        since=view.clock.moment(last),
        pending=0,
        parked=_count(said.get("objectsParked")),
        held=_count(said.get("objectsHeld")),
        agent=str(said.get("agentVersion") or "")[:80],
        note=short(note or view.unreadable_rules(name)),
        dead_letters=_count(said.get("deadLetters")),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


# ---- topics --------------------------------------------------------------------------------------


TOPICS_MAX = 50
"""Topics sampled, in alphabetical order."""
SMOOTHING = 0.5
"""Weight of a new rate in the displayed average."""


READER_LAG_SECONDS = 900
"""A reader whose oldest unread message is older needs attention.  The alert FairleadReaderBehind uses the same
limit."""


class ReaderLag(NamedTuple):
    """How far a named reader is behind.  For an ingest job, that is how fresh its table is."""

    name: str
    messages: int
    seconds: float
    since: int = 0
    """When its oldest unread message was stored, in seconds since 1970; 0 if it has read everything."""
    updated: int = 0
    """When it last reported its position, in seconds since 1970."""

    @property
    def is_lagging(self) -> bool:
        return self.messages > 0 and self.seconds > READER_LAG_SECONDS


class TopicSample(NamedTuple):
    """One topic at one moment."""

    topic: str
    generation: int
    passed: int
    """Messages it has ever held."""
    at: float
    readers: tuple[ReaderLag, ...]


class TopicLine(NamedTuple):
    """One topic as one row."""

    topic: str
    passed: int
    rate: float | None
    """Messages per second; None after a single sample."""
    readers: tuple[ReaderLag, ...]


class TopicsSeen(NamedTuple):
    """What the pages show about topics."""

    is_configured: bool
    lines: tuple[TopicLine, ...] = ()
    error: str = ""
    """Why messaging could not be queried.  Earlier results stay."""
    more: int = 0
    """Number of topics that were not sampled."""


def topic_lines(
    before: Mapping[str, TopicSample], rates: Mapping[str, float | None], now: Sequence[TopicSample]
) -> list[TopicLine]:
    """``rates`` are those shown so far.  A recreated topic starts over."""
    return [TopicLine(each.topic, each.passed, _rate(before, rates, each), each.readers) for each in now]


def _rate(before: Mapping[str, TopicSample], rates: Mapping[str, float | None], now: TopicSample) -> float | None:
    last = before.get(now.topic)
    if last is None or last.generation != now.generation or now.at <= last.at:
        return None
    new = max(0, now.passed - last.passed) / (now.at - last.at)
    shown = rates.get(now.topic)
    rate = new if shown is None else shown + SMOOTHING * (new - shown)
    return rate if rate >= 0.005 else 0.0


# ---- events --------------------------------------------------------------------------------------


EVENTS_KEPT = 200
PROBLEMS = frozenset(
    ["object.parked", "routes.refused", "queue.stalled", "messages.refused", "node.deletion_guard", "node.replaced"]
)
"""Types that people should look at."""
DETAIL_FIELDS = ("reason", "message", "agentVersion", "objectsHeld", "fence", "count", "retries", "errorsTotal")
"""Fields of an event's data that a line shows, in this order."""


_CALLED = {"agentVersion": "agent", "objectsHeld": "objects held:", "errorsTotal": "errors:"}


class EventLine(NamedTuple):
    """One event as a line."""

    number: int
    at: int
    """Seconds since 1970."""
    type: str
    node: str
    subject: str
    text: str
    is_problem: bool


class EventLog:
    """The most recent events of those published on the system topic."""

    def __init__(self) -> None:
        self._lines: deque[EventLine] = deque(maxlen=EVENTS_KEPT)
        self._number = 0
        self._new: deque[EventLine] = deque(maxlen=EVENTS_KEPT)

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            self._number += 1
            line = EventLine(
                self._number,
                WallClock.moment(event.time),
                event.type,
                event.node,
                event.subject,
                _details(event.data),
                event.type in PROBLEMS,
            )
            self._lines.appendleft(line)
            self._new.appendleft(line)

    def newest(self, count: int = EVENTS_KEPT) -> list[EventLine]:
        return list(self._lines)[:count]

    def take_new(self) -> list[EventLine]:
        """Events since the last call, newest first; at most as many as are kept."""
        new = list(self._new)
        self._new.clear()
        return new


def _details(data: dict[str, Any]) -> str:
    found = [(key, data[key]) for key in DETAIL_FIELDS if data.get(key) not in (None, "")]
    if "priority" in data:  # then it also stands for the reason
        found = [("priority", data["priority"]), *((key, value) for key, value in found if key != "reason")]
    details = [(key, value) for key, value in found if (key, value) != ("count", 1)]
    return ", ".join(
        str(value) if key in ("reason", "message") else f"{_CALLED.get(key, key)} {value}" for key, value in details
    )
