"""Which frame is legal when, message ids, and keepalive: the part of a session that both ends share.

    OPENING ──hello──▶ GREETED ──welcome──▶ OPEN ──refuse / silence / malformed──▶ CLOSED
                          └──────refuse──────────────────────────────────────────────▲

The failure model, which tests exploit: within a session, frames arrive intact and in order, or the session ends;
across sessions, anything sent may be lost or may have arrived without our knowledge; power may fail at either end
between any two effects.  Nothing is remembered across sessions: the edge's store is authoritative, and the digest in
its hello shows the differences.
"""

from __future__ import annotations

import enum
from typing import Final

from fairlead_wire import message
from fairlead_wire.errors import LocalError, Malformed

SILENCE_FACTOR: Final = 3
"""A peer that sends nothing for this many keepalive intervals is considered gone."""
KEEPALIVE_SECONDS: Final = 10.0
OPENING_SECONDS_MAX: Final = 10.0
"""How long a connection may remain without hello or welcome."""


class Role(enum.Enum):
    EDGE = "edge"
    HUB = "hub"


class SessionState(enum.Enum):
    OPENING = "opening"
    GREETED = "greeted"
    OPEN = "open"
    CLOSED = "closed"


class Timer(enum.Enum):
    """What ``tick`` requests."""

    SEND_KEEPALIVE = "send keepalive"
    PEER_SILENT = "peer silent"


_FROM: Final[dict[Role, tuple[type, ...]]] = {
    Role.EDGE: message.FromEdge.__args__,
    Role.HUB: message.FromHub.__args__,
}


class Session:
    """One end of one connection.  Call ``sent`` before sending a frame, and ``received`` for each received one."""

    def __init__(self, role: Role, *, now: float, keepalive_seconds: float = KEEPALIVE_SECONDS) -> None:
        self.role = role
        self.state = SessionState.OPENING
        self.keepalive_seconds = keepalive_seconds
        self.last_received = now
        self._last_sent = now
        self._opened_at = now
        self._next_id = 1

    def take_id(self) -> int:
        """The next message id of this direction."""
        taken = self._next_id
        self._next_id += 1
        return taken

    def sent(self, header: message.AnyHeader, now: float) -> None:
        """Record a frame about to be sent.  Raises ``LocalError`` if we may not send it now."""
        if not isinstance(header, _FROM[self.role]):
            raise LocalError(f"{self.role.value} may not send {_verb(header)}")
        if not self._step(header):
            raise LocalError(f"may not send {_verb(header)} while {self.state.value}")
        self._last_sent = now

    def received(self, header: message.AnyHeader, now: float) -> None:
        """Record a received frame.  Raises ``Malformed`` if the peer may not send it now; then nothing changes."""
        peer = Role.HUB if self.role is Role.EDGE else Role.EDGE
        if not isinstance(header, _FROM[peer]):
            raise Malformed(f"{peer.value} may not send {_verb(header)}")
        if not self._step(header):
            raise Malformed(f"unexpected {_verb(header)} while {self.state.value}")
        self.last_received = now
        if isinstance(header, message.Welcome):
            self.keepalive_seconds = max(0.1, header.keepalive_seconds)

    def close(self) -> None:
        self.state = SessionState.CLOSED

    def tick(self, now: float) -> Timer | None:
        """The action that is due now, if any; call again at ``next_tick``."""
        if self.state is SessionState.CLOSED:
            return None
        if now >= self._silence_deadline():
            return Timer.PEER_SILENT
        # Only the edge starts keepalives, so a hub with ten thousand quiet nodes has no timers to fire.
        if (
            self.role is Role.EDGE
            and self.state is SessionState.OPEN
            and now >= self._last_sent + self.keepalive_seconds
        ):
            return Timer.SEND_KEEPALIVE
        return None

    def next_tick(self) -> float:
        """The time (seconds) at which ``tick`` has to be called next."""
        if self.role is Role.EDGE and self.state is SessionState.OPEN:
            return min(self._silence_deadline(), self._last_sent + self.keepalive_seconds)
        return self._silence_deadline()

    def _silence_deadline(self) -> float:
        if self.state is SessionState.OPEN:
            return self.last_received + SILENCE_FACTOR * self.keepalive_seconds
        return self._opened_at + OPENING_SECONDS_MAX

    def _step(self, header: message.AnyHeader) -> bool:
        """Make the transition; False if the frame is not legal now."""
        match self.state, header:
            case SessionState.OPENING, message.Hello():
                self.state = SessionState.GREETED
            case SessionState.GREETED, message.Welcome():
                self.state = SessionState.OPEN
            case ((SessionState.OPENING | SessionState.GREETED | SessionState.OPEN), message.Refuse()):
                self.state = SessionState.CLOSED
            case SessionState.OPEN, message.Hello() | message.Welcome():
                return False
            case SessionState.OPEN, _:
                pass
            case _:
                return False
        return True


def _verb(header: message.AnyHeader) -> str:
    tag = header.__struct_config__.tag
    return str(tag)
