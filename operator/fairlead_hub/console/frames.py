"""Numbered updates for open pages; the latest are kept for pages that reconnect after a moment.

    publish(name, data) ─▶ Frame ─▶ every listener          after(id) ─▶ what a page missed, or None: load anew

A frame is encoded once, regardless of the number of listeners.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import msgspec

KEPT = 256
KEPT_BYTES = 4 * 1024 * 1024


class PageFrame(NamedTuple):
    """An update; ``name`` says which part of a page it is for."""

    number: int
    name: str
    encoded: bytes


class FrameRing:
    """``run`` identifies this run of the hub: frame numbers of another run are meaningless."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._frames: deque[PageFrame] = deque()
        self._bytes = 0
        self._number = 0

    @property
    def last_id(self) -> str:
        """Id of the newest frame, from which a page rendered now continues."""
        return f"{self._run}-{self._number}"

    def publish(self, name: str, data: object) -> PageFrame:
        """Add a frame; the oldest are dropped if there are too many."""
        self._number += 1
        body = msgspec.json.encode(data)
        encoded = b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (self._run.encode(), self._number, name.encode(), body)
        frame = PageFrame(self._number, name, encoded)
        self._frames.append(frame)
        self._bytes += len(encoded)
        while len(self._frames) > KEPT or self._bytes > KEPT_BYTES:
            self._bytes -= len(self._frames.popleft().encoded)
        return frame

    def after(self, id: str) -> list[PageFrame] | None:
        """The frames after the one with this id; None if the id is unknown or too old."""
        run, _, number = id.rpartition("-")
        if run != self._run or not (number.isascii() and number.isdigit()) or len(number) > 15:
            return None
        seen = int(number)
        first = self._frames[0].number if self._frames else self._number + 1
        if not first - 1 <= seen <= self._number:
            return None
        return [frame for frame in self._frames if frame.number > seen]
