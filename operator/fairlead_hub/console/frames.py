"""Updates for open pages: what changed between two snapshots, numbered, and the latest kept.

    LiveFrames (what changed since) ─▶ publish(name, data) ─▶ PageFrame ─▶ every listener
                                                after(id) ─▶ what a page that reconnects missed, or None: load anew

A frame is encoded once, regardless of the number of listeners.  Changed rows are sent in turns of at most
``LINES_MAX``: if 5,000 nodes return together, a page shows all of them within ten seconds, and 100 pages cost the hub
a bounded number of bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from fairlead_hub.console.lines import NodeLine
from fairlead_hub.console.snapshot import ConsoleSnapshot

KEPT = 256
KEPT_BYTES = 4 * 1024 * 1024
LINES_MAX = 500
NODES = "nodes"


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


class ChangedLines(NamedTuple):
    """Each of ``lines`` replaces the line with the same name."""

    at: int
    lines: list[NodeLine]
    removed: list[str]


class LiveFrames:
    """Remembers what was sent to the pages."""

    def __init__(self) -> None:
        self._lines: dict[str, NodeLine] | None = None
        self._sections: dict[str, str] = {}
        self._turn = ""

    def nodes(self, snapshot: ConsoleSnapshot) -> ChangedLines | None:
        """Changed rows, or None.  The first snapshot yields none: it is what the first page shows."""
        if self._lines is None:
            self._lines = dict(snapshot.lines)
            return None
        sent = self._lines
        removed = [name for name in sent if name not in snapshot.lines]
        for name in removed:
            del sent[name]
        differing = [line for name, line in snapshot.lines.items() if sent.get(name) != line]
        if len(differing) > LINES_MAX:
            later = [line for line in differing if line.name > self._turn]
            differing = [*later, *(line for line in differing if line.name <= self._turn)][:LINES_MAX]
            self._turn = differing[-1].name
        for line in differing:
            sent[line.name] = line
        return ChangedLines(snapshot.at, differing, removed) if differing or removed else None

    def sections(self, rendered: Mapping[str, str]) -> list[tuple[str, str]]:
        """Sections whose HTML differs from what was sent last."""
        changed = [(name, html) for name, html in rendered.items() if self._sections.get(name) != html]
        self._sections.update(changed)
        return changed
