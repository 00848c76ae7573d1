"""Queues of the outbox: the name of one log, its checkpoint, attempts to deliver from it, and what is in flight.

A log is named by endpoint and priority (seed: route priority and time-to-live, "Handling priorities"):

    iothub_Pri0, iothub_Pri9     a priority from the manifest
    iothub                       the default, lowest priority (2000000000): the bare endpoint id

    iothub_Pri1000000003, iothub_Pri1000000010
                         the live lane of priority 3, and of the default: messages accepted while older ones of the
                         priority still wait, if ``[pump] live_first_share`` is set.  A log like any other, with its own
                         sequence; a version without lanes sends it as a separate priority

Parsing a name is ambiguous when an endpoint's own name ends in ``_Pri<digits>``; stores therefore keep endpoint and
priority separately and use the name only where people or the cloud see it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Final

import msgspec

from fairlead_wire.validation import route_manifest

DEFAULT_PRIORITY: Final = route_manifest.DEFAULT_PRIORITY
"""The priority of a route that has none; lower numbers are sent first."""

REFUSED_INPUT: Final = "$mqtt/refused"
"""The node's input for refused input: messages that were never accepted, kept as dead letters for inspection."""

HELD_INPUT: Final = "$routes/held"
"""The node's input for messages that only a refused route would take; they wait there until the routes change."""

LIVE_LANE: Final = 1_000_000_000
"""A priority plus this is its live lane."""
_LIVE_DEFAULT: Final = LIVE_LANE + 10
"""The live lane of the default priority; other routes have 0 to 9."""

_NAMED = re.compile(r"(?P<endpoint>.+)_Pri(?P<priority>[0-9]+)", re.ASCII | re.DOTALL)


class QueueId(msgspec.Struct, frozen=True, order=True):
    """One log of one endpoint; queues of an endpoint sort by urgency."""

    endpoint: str
    priority: int = DEFAULT_PRIORITY

    def __str__(self) -> str:
        if self.priority == DEFAULT_PRIORITY:
            return self.endpoint
        return f"{self.endpoint}_Pri{self.priority}"


def parse(text: str) -> QueueId:
    """The queue with this name; without ``_Pri<digits>`` at the end, it is an endpoint at the default priority."""
    found = _NAMED.fullmatch(text)
    if found is None:
        return QueueId(text)
    return QueueId(found["endpoint"], int(found["priority"]))


def is_refused_input(endpoint: str) -> bool:
    """Whether the dead letters of this endpoint are refused input."""
    return endpoint.endswith(f"/{REFUSED_INPUT}")


def is_held_for_routes(endpoint: str) -> bool:
    """Whether messages at this endpoint are held for a refused route."""
    return endpoint.endswith(f"/{HELD_INPUT}")


def live_lane(priority: int) -> int:
    """The live lane of a priority; a live lane is returned unchanged."""
    if is_live_lane(priority):
        return priority
    return _LIVE_DEFAULT if priority == DEFAULT_PRIORITY else LIVE_LANE + priority


def is_live_lane(priority: int) -> bool:
    return LIVE_LANE <= priority <= _LIVE_DEFAULT


def base(priority: int) -> int:
    """The route's priority, for a live lane or not."""
    if not is_live_lane(priority):
        return priority
    return DEFAULT_PRIORITY if priority == _LIVE_DEFAULT else priority - LIVE_LANE


def rank(priority: int) -> int:
    """The order of sending, lowest first: by the route's priority, its live lane (even) before the rest (odd)."""
    return 2 * base(priority) + (not is_live_lane(priority))


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """The latest delivery of a message to a module that has not finished it.  Times are seconds of the store's clock.

    It is stored in the message's file, so that a restart forgets neither leases nor counts, and deleted with the
    message.
    """

    offset: int
    id: str
    """The message's id, by which it is acknowledged."""
    number: int
    """How often it was delivered."""
    leased: bool
    """It is leased until ``until``; otherwise it failed, and may be delivered again from ``until`` on."""
    until: float
    delay_seconds: float = 0.0
    """The delay before this attempt; decorrelated jitter needs it."""
    waited_seconds: float = 0.0
    """The sum of its delays, for a policy that limits it."""


NOTHING_DONE: Final = -1
"""The checkpoint before the first offset, 0."""


class Checkpointer:
    """The checkpoint of one queue: everything up to and including this offset is done.  It never decreases."""

    __slots__ = ("offset",)

    def __init__(self, offset: int = NOTHING_DONE) -> None:
        self.offset = offset

    def admits(self, offset: int) -> bool:
        """Whether this offset is not done yet."""
        return offset > self.offset

    def commit(self, succeeded: Collection[int], remaining: Collection[int] = ()) -> int:
        """``succeeded`` are done, ``remaining`` of the same batch are not; returns the checkpoint.

        It is the highest offset done, but below the lowest that remains, so that a success after a failure does not
        hide the failure.
        """
        below = min(remaining, default=None)
        done = [offset for offset in succeeded if below is None or offset < below]
        self.offset = max(self.offset, *done) if done else self.offset
        return self.offset


class InFlight:
    """Offsets that were taken from the store and are undecided: sent to the hub, or leased to a module.

    Sweeps and evictions skip them: the answer decides about a message that may have arrived.  A message without a clear
    answer (the link ended) is *in doubt*: it may be in the topic, and is sent again.  If it expires or is evicted
    before
    that, it may be in the topic and count as gone as well, which ``ended_in_doubt`` counts.

    In memory only.  The store's thread reads while the loop adds and removes, so every step is one set operation.
    ``left`` is called with the offsets before they are taken.
    """

    def __init__(self, left: Callable[[QueueId, Collection[int]], None] = lambda queue, offsets: None) -> None:
        self._left = left
        self._out: dict[QueueId, set[int]] = defaultdict(set)
        self._doubtful: dict[QueueId, set[int]] = defaultdict(set)
        self.ended_in_doubt: Counter[QueueId] = Counter()
        """Since the start: messages counted as expired or evicted that may be in their topic."""

    def take(self, queue: QueueId, offsets: Collection[int]) -> None:
        """These are in flight from now on."""
        self._left(queue, offsets)
        self._out[queue].update(offsets)

    def release(self, queue: QueueId, offsets: Iterable[int], *, in_doubt: bool = False) -> None:
        """These are no longer in flight, and are sent again unless settled.  ``in_doubt``: they may have arrived."""
        found = list(offsets)
        self._out[queue].difference_update(found)
        if in_doubt:
            self._doubtful[queue].update(found)

    def decided(self, queue: QueueId, offsets: Iterable[int]) -> None:
        """An answer settled these durably."""
        found = list(offsets)
        self._out[queue].difference_update(found)
        self._doubtful[queue].difference_update(found)

    def ended(self, queue: QueueId, offsets: Iterable[int]) -> None:
        """These durably expired or were evicted."""
        doubtful = self._doubtful[queue].intersection(offsets)
        self._doubtful[queue].difference_update(doubtful)
        self.ended_in_doubt[queue] += len(doubtful)

    def of(self, queue: QueueId) -> frozenset[int]:
        """The offsets that are in flight now."""
        return frozenset(self._out.get(queue, ()))

    def not_in_flight(self, queue: QueueId, offsets: Iterable[int]) -> list[int]:
        """Those of the offsets that are not in flight."""
        out: set[int] | frozenset[int] = self._out.get(queue, frozenset())
        return [offset for offset in offsets if offset not in out]
