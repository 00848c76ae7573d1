"""Counters of the hub's I/O: frames, connections, messages up, watches."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence


class IoCounts:
    """Totals since the start.  Tables are bounded: codes and reasons are defined by this program."""

    def __init__(self) -> None:
        self.frames_sent = self.bytes_sent = 0
        self.frames_received = self.bytes_received = 0
        self.malformed = 0
        self.openings_failed: Counter[str] = Counter()
        """By reason; incremented by the acceptor."""
        self.upstream_messages = self.upstream_duplicates = 0
        self.upstream_refused: dict[str, int] = defaultdict(int)
        self.upstream_deferred: dict[str, int] = defaultdict(int)
        self.joins: Counter[str] = Counter()
        """By outcome: ``joined``, ``repeated``, or the code of the refusal."""
        self.renewals: Counter[str] = Counter()
        """By outcome: ``renewed``, ``late``, or the code of the refusal."""
        self.inputs: Counter[str] = Counter()
        """Messages for modules, by outcome: ``accepted``, ``delivered``, ``expired``, ``refused``, …"""
        self.reported: Counter[str] = Counter()
        """Status that nodes reported of objects, by outcome: ``written``, or the code of the refusal."""
        self.watch_restarts: dict[str, int] = defaultdict(int)
        self.unusable_objects: dict[str, int] = defaultdict(int)

    # ---- the link --------------------------------------------------------------------------------

    def sent(self, frames: Sequence[bytes]) -> None:
        self.frames_sent += len(frames)
        self.bytes_sent += sum(map(len, frames))

    def received(self, size: int) -> None:
        """A frame of this size arrived."""
        self.frames_received += 1
        self.bytes_received += size

    def broke_protocol(self) -> None:
        """An illegal frame or hello arrived."""
        self.malformed += 1

    # ---- messages up -----------------------------------------------------------------------------

    def stored(self, messages: int) -> None:
        self.upstream_messages += messages

    def stored_before(self, messages: int) -> None:
        self.upstream_duplicates += messages

    def refused(self, code: str) -> None:
        """A message will never be stored."""
        self.upstream_refused[code] += 1

    def put_off(self, code: str) -> None:
        """A batch has to be sent again."""
        self.upstream_deferred[code] += 1

    # ---- watches ---------------------------------------------------------------------------------

    def restarted(self, reason: str) -> None:
        """A watch was reopened."""
        self.watch_restarts[reason] += 1

    def unusable(self, code: str) -> None:
        """An object cannot be delivered."""
        self.unusable_objects[code] += 1
