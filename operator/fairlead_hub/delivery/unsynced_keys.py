"""The keys of one node that are not in sync, one record each, and indexes over them.

    move(key, event, state) ─checked against the table─▶ record ─▶ work queue, timers, counts

Everything except the records is an index over them, maintained only by ``move``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fairlead_hub.delivery.delivery_events import Parked
from fairlead_hub.delivery.key_state import (
    IN_SYNC,
    TRANSITIONS,
    BackingOff,
    Event,
    ImpossibleTransition,
    KeyInFlight,
    KeyState,
    Queued,
    Recorded,
    State,
    Withheld,
    is_pending,
)
from fairlead_hub.delivery.work_queue import Timers, WorkQueue

_INDEX: Final = {Queued: 0, KeyInFlight: 1, BackingOff: 2, Parked: 3, Withheld: 4}


class UnsyncedKeys:
    """See the module docstring.  Times are seconds of one monotonic clock."""

    __slots__ = ("_counts", "_queue", "_timers", "pending", "stopped")

    def __init__(self) -> None:
        self.pending: dict[str, KeyState] = {}
        """Pending keys, oldest first."""
        self.stopped: dict[str, KeyState] = {}
        """Parked keys, and those kept although they are to be deleted."""
        self._queue = WorkQueue()
        self._timers: Timers[str] = Timers()
        self._counts = [0] * len(_INDEX)

    # ---- reading ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.pending) + len(self.stopped)

    def __iter__(self) -> Iterator[str]:
        yield from self.pending
        yield from self.stopped

    def get(self, key: str) -> KeyState | None:
        record = self.pending.get(key)
        return self.stopped.get(key) if record is None else record

    def state(self, key: str) -> State:
        record = self.get(key)
        return IN_SYNC if record is None else record.state

    def records(self) -> Iterator[tuple[str, KeyState]]:
        yield from self.pending.items()
        yield from self.stopped.items()

    def count(self, *kinds: type[Recorded]) -> int:
        """Number of keys in one of these states."""
        return sum(self._counts[_INDEX[kind]] for kind in kinds)

    @property
    def kept_count(self) -> int:
        """Number of keys that are kept although they are to be deleted."""
        return len(self.stopped) - self.count(Parked)

    def queued_by_priority(self) -> dict[int, int]:
        """Number of queued keys by priority."""
        return self._queue.counts()

    def oldest(self) -> float | None:
        """Since when the oldest key is pending, or None."""
        record = next(iter(self.pending.values()), None)
        return None if record is None else record.since

    def one_kept(self) -> tuple[tuple[str, str], ...]:
        """One key that is kept although it is to be deleted, and why; empty if there is none."""
        found = self.kept() if self.kept_count else {}
        return tuple((key, withheld.why) for key, withheld in list(found.items())[:1])

    def parked(self) -> dict[str, Parked]:
        return {key: record.state for key, record in self.stopped.items() if isinstance(record.state, Parked)}

    def kept(self) -> dict[str, Withheld]:
        """Keys that are held, should be deleted, and must not be deleted yet."""
        return {key: record.state for key, record in self.stopped.items() if isinstance(record.state, Withheld)}

    def withheld(self) -> dict[str, Withheld]:
        """Keys that are wanted and must not be sent yet."""
        if self.count(Withheld) == self.kept_count:
            return {}
        return {key: record.state for key, record in self.pending.items() if isinstance(record.state, Withheld)}

    # ---- changing --------------------------------------------------------------------------------

    def move(self, key: str, event: Event, after: Recorded, now: float) -> None:
        """Raises ``ImpossibleTransition`` if the table has no such transition; nothing is changed then."""
        was_pending = True
        record = self.pending.get(key)
        if record is None:
            was_pending = False
            record = self.stopped.get(key)
        before = IN_SYNC if record is None else record.state
        kind = type(after)
        if TRANSITIONS[type(before)].get(event) is not kind:
            raise ImpossibleTransition(key, before, event, after)
        if record is None:
            self.pending[key] = KeyState(after, now)
        else:
            self._leave(key, record.state)
            record.state = after
            if (kind is not KeyInFlight or not was_pending) and was_pending is not is_pending(after):
                self._change_side(key, record, now)
        self._counts[_INDEX[kind]] += 1
        if kind is not KeyInFlight:
            self._enter(key, after)

    def matched(self, key: str) -> None:
        """The edge holds what is wanted: the record is dropped."""
        side = self.pending
        record = side.get(key)
        if record is None:
            side = self.stopped
            record = side.get(key)
        if record is None or "matched" not in TRANSITIONS[type(record.state)]:
            raise ImpossibleTransition(key, IN_SYNC if record is None else record.state, "matched", IN_SYNC)
        self._leave(key, record.state)
        del side[key]

    def _change_side(self, key: str, record: KeyState, now: float) -> None:
        """The key became pending or ceased to be: its time starts over, and the order is kept."""
        record.since = now
        ours, others = self.pending, self.stopped
        if not is_pending(record.state):
            ours, others = others, ours
        del others[key]
        ours[key] = record

    def _leave(self, key: str, before: Recorded) -> None:
        kind = type(before)
        self._counts[_INDEX[kind]] -= 1
        if kind is KeyInFlight:
            return
        if type(before) is Queued:
            self._queue.remove(key, before.priority)
        else:
            self._timers.cancel(key)

    def _enter(self, key: str, after: Recorded) -> None:
        if type(after) is Queued:
            self._queue.add(key, after.priority)
        elif type(after) is BackingOff:
            self._timers.set(key, after.due)
        elif type(after) is Parked:
            self._timers.set(key, after.next_retry_at)

    # ---- what is next ----------------------------------------------------------------------------

    @property
    def has_queued(self) -> bool:
        return bool(self._queue)

    def first_queued(self) -> str | None:
        """The key to send next."""
        return self._queue.first()

    def first_priority(self) -> int | None:
        """Priority of the key to send next."""
        return self._queue.first_priority()

    def due(self, now: float) -> list[str]:
        """Remove and return the keys in backoff or parked that are due; each has to be moved."""
        return self._timers.due(now)

    def next_due(self) -> float | None:
        return self._timers.next()
