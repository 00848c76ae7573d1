"""One connection of a simulated world: two queues of frames in order, until it breaks.

Only what the protocol permits happens here: frames arrive in order after some delay, or the connection breaks and
everything in flight is lost; a half-open connection silently drops one direction.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from fairlead_hub.session_ref import SessionRef

Deliver = Callable[[bytes], None]


class Link:
    """``send`` schedules the frame's arrival at the other end; ``session`` is the hub's session for it."""

    def __init__(
        self,
        random: Random,
        schedule: Callable[[float, Callable[[], None]], None],
        now: Callable[[], float],
        node: str = "",
    ) -> None:
        self.node = node
        self.session: SessionRef | None = None
        self._random = random
        self._schedule = schedule
        self._now = now
        self._due = {"down": 0.0, "up": 0.0}
        self.broken = False
        self.swallows: set[str] = set()

    def break_off(self) -> None:
        """From now on nothing arrives, not even what is in flight."""
        self.broken = True

    def send(self, direction: str, frame: bytes, deliver: Deliver) -> None:
        if self.broken or direction in self.swallows:
            return
        # Frames arrive in order: nothing overtakes what was sent before it.
        due = max(self._due[direction], self._now() + self._random.uniform(0.001, 0.2))
        self._due[direction] = due

        def arrive() -> None:
            if not self.broken and direction not in self.swallows:
                deliver(frame)

        self._schedule(due, arrive)
