"""Admission: which connections may stay open, so that no client with many of them keeps out others or probes; and a
budget of memory (``MemoryBudget``).

    accepted ─admit→ waiting (for a first or next request) ─begin→ answered ─rest→ waiting …
                        └─ longer than HEAD_SECONDS | IDLE_SECONDS, or room is needed → closed, the longest first

A waiting connection may be closed at any time, one that is being answered never: requests have their own limits
(``request_seconds_max``, the wait of a long poll).  If a peer has its share, or there is no room at all, the connection
that has waited longest is closed; if none of them waits, the new one is admitted for probes only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from fairlead_messaging.api.errors import Unavailable

HEAD_SECONDS = 10.0
"""The time from a connection to the head of its first request, including the TLS handshake."""
IDLE_SECONDS = 60.0
"""The time from an answer to the head of the next request."""
CONNECTIONS_MAX = 20_000
"""How many connections may be open, if there are enough descriptors."""
PEER_WAITING_MAX = 256
"""How many connections of one address may wait for a request."""
PROBES_MAX = 64
"""How many connections are admitted beyond the limits, for probes only."""


class AdmissionVerdict(Enum):
    """The decision on a new connection."""

    ADMITTED = 1
    PROBES_ONLY = 2
    REFUSED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """At most ``total`` connections; one address may have ``peer`` of them, and ``peer_waiting`` without a request."""

    total: int
    peer: int
    peer_waiting: int = PEER_WAITING_MAX
    probes: int = PROBES_MAX


def limits_of(descriptors: int) -> ConnectionLimits:
    """Five eighths of the descriptors are for connections, the rest for files and for pushing.

    Four fifths of the connections may come from one address, which may be a gateway or all programs of this machine.
    """
    total = max(PROBES_MAX, min(CONNECTIONS_MAX, descriptors * 5 // 8))
    return ConnectionLimits(
        total=total, peer=max(1, total * 4 // 5), peer_waiting=min(PEER_WAITING_MAX, max(1, total // 4))
    )


@dataclass(slots=True)
class _Peer:
    fresh: OrderedDict[Hashable, None] = field(default_factory=OrderedDict)
    idle: OrderedDict[Hashable, None] = field(default_factory=OrderedDict)
    count: int = 0

    @property
    def waiting(self) -> int:
        return len(self.fresh) + len(self.idle)

    def longest(self) -> Hashable:
        """The longest waiting connection of the larger kind: a flood of half requests closes no connection in use."""
        return next(iter(self.fresh if len(self.fresh) > len(self.idle) else self.idle))

    def forget(self, key: Hashable) -> None:
        self.fresh.pop(key, None)
        self.idle.pop(key, None)


class Admission:
    """The table of connections; times are seconds of a monotonic clock."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._peers: dict[str, _Peer] = {}
        self._peer_of: dict[Hashable, str] = {}
        self._fresh: OrderedDict[Hashable, float] = OrderedDict()
        self._idle: OrderedDict[Hashable, float] = OrderedDict()
        self._probes: set[Hashable] = set()

    def __len__(self) -> int:
        return len(self._peer_of)

    @property
    def waiting(self) -> int:
        """How many connections have no request."""
        return len(self._fresh) + len(self._idle)

    def admit(self, key: Hashable, peer: str, now: float) -> tuple[AdmissionVerdict, list[Hashable]]:
        """The decision on this connection, and which others, already removed here, to close for it."""
        limits, found = self._limits, self._peers.get(peer) or _Peer()
        verdict, closed = AdmissionVerdict.ADMITTED, list[Hashable]()
        has_share = found.count >= limits.peer or found.waiting >= limits.peer_waiting
        if has_share and found.waiting:
            closed.append(self._evict(found))
        elif len(self) >= limits.total and (most := self._most_waiting()) is not None:
            closed.append(self._evict(most))
        elif has_share or len(self) >= limits.total:
            verdict = AdmissionVerdict.PROBES_ONLY
            if len(self._probes) >= limits.probes:
                return AdmissionVerdict.REFUSED, closed
            self._probes.add(key)
        found = self._peers.setdefault(peer, found)
        found.count += 1
        found.fresh[key] = None
        self._peer_of[key] = peer
        self._fresh[key] = now
        return verdict, closed

    def is_for_probes(self, key: Hashable) -> bool:
        """Whether only probes are answered on this connection."""
        return key in self._probes

    def begin(self, key: Hashable) -> None:
        """The head of a request has arrived."""
        peer = self._peer_of.get(key)
        if peer is not None:
            self._peers[peer].forget(key)
            self._fresh.pop(key, None)
            self._idle.pop(key, None)

    def rest(self, key: Hashable, now: float) -> None:
        """The request is answered."""
        peer = self._peer_of.get(key)
        if peer is not None:
            self._peers[peer].idle[key] = None
            self._idle[key] = now

    def leave(self, key: Hashable) -> None:
        """The connection ended; unknown ones are ignored."""
        peer = self._peer_of.pop(key, None)
        if peer is None:
            return
        found = self._peers[peer]
        found.forget(key)
        found.count -= 1
        if not found.count:
            del self._peers[peer]
        self._fresh.pop(key, None)
        self._idle.pop(key, None)
        self._probes.discard(key)

    def overdue(self, now: float) -> list[Hashable]:
        """The connections that waited too long, already removed here, to be closed."""
        late = [*_until(self._fresh, now - HEAD_SECONDS), *_until(self._idle, now - IDLE_SECONDS)]
        for key in late:
            self.leave(key)
        return late

    def _most_waiting(self) -> _Peer | None:
        most = max(self._peers.values(), key=lambda each: each.waiting, default=None)
        return most if most is not None and most.waiting else None

    def _evict(self, peer: _Peer) -> Hashable:
        key = peer.longest()
        self.leave(key)
        return key


def _until(waiting: OrderedDict[Hashable, float], end: float) -> Iterator[Hashable]:
    for key, since in waiting.items():
        if since > end:
            return
        yield key


# --- Memory.

RETRY_AFTER_SECONDS = 1.0


class MemoryBudget:
    """Limits the bytes kept in memory for callers to ``bytes_max``, so that many callers cannot use up all memory.

    ``code`` is the error code of the limit.  Only the event loop may change it.
    """

    def __init__(self, bytes_max: int, code: str) -> None:
        self._bytes_max = bytes_max
        self._code = code
        self.in_use = 0

    def check(self) -> None:
        """Raises: Unavailable if the whole budget is in use."""
        if self.in_use >= self._bytes_max:
            raise self._full()

    def take(self, size: int) -> None:
        """Raises: Unavailable if there is no room; then nothing is taken."""
        if self.in_use + size > self._bytes_max:
            raise self._full()
        self.in_use += size

    def add(self, size: int) -> None:
        """Count bytes that are in memory already, even beyond the limit."""
        self.in_use += size

    def release(self, size: int) -> None:
        self.in_use -= size

    def _full(self) -> Unavailable:
        return Unavailable(
            f"{self._bytes_max} bytes are in use for other callers", code=self._code,
            retry_after_seconds=RETRY_AFTER_SECONDS,
        )  # fmt: skip
